"""Sort documents in BSON order by one or more paths, each ascending or descending.

>>> ordering = compile_sort({"a": -1, "b": 1})
>>> ordering.sort([{"a": 1}, {"a": 2, "b": 2}, {"a": [0, 2], "b": 1}])
[{'a': [0, 2], 'b': 1}, {'a': 2, 'b': 2}, {'a': 1}]

A missing field sorts as null and an empty array as undefined, below null. An array sorts as its first element
in the requested order: its least if the path is ascending, its greatest if it is descending. Several paths
through one array take their values from the same element; paths through different arrays are an error. A path
that ends with a position takes what is there, even an array, as one value.

Sorting is stable. `TopSelector` stores only as many documents as are wanted.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from operator import itemgetter
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from tailrace.bson.compare import SortKey, StringKey, sort_key, type_name
from tailrace.bson.values import Symbol, Undefined, is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.pacing import tick
from tailrace.query.expressions.field_path import split_path
from tailrace.query.expressions.numbers.number_types import real
from tailrace.query.expressions.operands import is_number
from tailrace.query.expressions.scope import Collating
from tailrace.query.paths import array_index
from tailrace.query.step_sort import sorted_with_ticks

Document: TypeAlias = dict[str, Any]
Item = TypeVar("Item")

MAX_SORT_KEYS: Final = 32
_META_SORTS: Final = frozenset({
    "textScore", "randVal", "geoNearDistance", "geoNearPoint", "searchScore", "vectorSearchScore", "score",
})  # fmt: skip
_UNDEFINED: Final = Undefined()


class SortPath(NamedTuple):
    """One key of a sort."""

    components: tuple[str, ...]
    is_descending: bool


class _HasArray(Exception):  # noqa: N818 - a signal inside this file, not an error
    """A path leads through an array, so that the fast way to its value does not apply."""


class _Descending:
    """A key with the reverse order."""

    __slots__ = ("key",)

    def __init__(self, key: SortKey) -> None:
        self.key = key

    def __lt__(self, other: "_Descending") -> bool:
        return other.key < self.key

    def __gt__(self, other: "_Descending") -> bool:
        return other.key > self.key

    def __le__(self, other: "_Descending") -> bool:
        return other.key <= self.key

    def __ge__(self, other: "_Descending") -> bool:
        return other.key >= self.key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


class Ordering:
    """A compiled sort specification."""

    __slots__ = ("_is_mixed", "_string_key", "is_reversed", "paths")

    def __init__(self, paths: Iterable[SortPath], string_key: StringKey) -> None:
        self.paths = tuple(paths)
        self._string_key = string_key
        directions = {path.is_descending for path in self.paths}
        self._is_mixed = len(directions) > 1
        self.is_reversed = directions == {True}
        """Whether documents are in descending order of their `natural_key`."""

    def key(self, document: Document) -> Any:
        """The sort key of a document, in ascending order."""
        natural = self.natural_key(document)
        return _Descending(natural) if self.is_reversed else natural

    def natural_key(self, document: Document) -> SortKey:
        """The sort key of a document, in descending order if `is_reversed`.

        It is a plain tuple, which Python sorts much faster than the wrapper of `key`.
        """
        try:
            values = [_plain_value(document, path.components) for path in self.paths]
            if self._string_key is not None:
                for value in values:
                    _check_collated(value)
            return self._joined(values)
        except _HasArray:
            found = list(_values_through_arrays(document, self.paths))
            if self._string_key is not None:
                _check_collated(found)
            keys = (self._joined(values) for values in found)
            return max(keys) if self.is_reversed else min(keys)

    def _joined(self, values: list[Any]) -> SortKey:
        string_key = self._string_key
        if not self._is_mixed:
            return tuple([sort_key(value, string_key) for value in values])
        return tuple(
            [
                _Descending(sort_key(value, string_key))
                if path.is_descending
                else sort_key(value, string_key)
                for value, path in zip(values, self.paths, strict=True)
            ]
        )

    def sort(self, documents: Iterable[Document]) -> list[Document]:
        """The documents in order; equal ones in the order of input."""
        keyed = []
        for document in documents:
            tick()
            keyed.append((self.natural_key(document), document))
        return [document for _, document in sorted_with_ticks(keyed, reverse=self.is_reversed)]


class TopSelector(Generic[Item]):
    """Selects the first items of an order, or the last, while they are added; all of them without a limit.

    It stores at most about twice the limit. An item that cannot be selected is dropped at once.
    """

    def __init__(self, ordering: Ordering, limit: int | None = None, *, from_end: bool = False) -> None:
        self._ordering = ordering
        self._limit = limit
        self._from_end = from_end
        self._held: list[tuple[SortKey, Item]] = []
        self._edge: SortKey | None = None
        """The key of the worst selected item; None until the limit is reached."""

    def add(self, document: Document, item: Item) -> Sequence[Item]:
        """Add an item with the document that it is sorted by; returns the items that are dropped now."""
        tick()
        key = self._ordering.natural_key(document)
        if self._edge is not None and self._is_outside(key, self._edge):
            return (item,)
        self._held.append((key, item))
        if self._limit is not None and len(self._held) >= 2 * self._limit + 16:
            return self.cut()
        return ()

    def items(self) -> Iterator[Item]:
        """The selected items in order."""
        self.cut()
        return map(itemgetter(1), self._held)

    def _is_outside(self, key: SortKey, edge: SortKey) -> bool:
        # Of equal items the earlier is first: it is selected among the first and dropped among the last.
        if self._from_end:
            return key > edge if self._ordering.is_reversed else key < edge
        return key <= edge if self._ordering.is_reversed else key >= edge

    def cut(self) -> Sequence[Item]:
        """Drop what is not selected, and return it."""
        self._held = sorted_with_ticks(self._held, reverse=self._ordering.is_reversed)
        if self._limit is None or len(self._held) < self._limit:
            return ()
        outside = slice(0, -self._limit) if self._from_end else slice(self._limit, None)
        dropped = [item for _, item in self._held[outside]]
        del self._held[outside]
        self._edge = self._held[0 if self._from_end else -1][0]
        return dropped


def compile_sort(spec: Any, collation: Collating | None = None) -> Ordering:
    """Compile a sort specification: paths, each with 1 or -1.

    The errors are those of the stage `$sort` and of the command ``find``. An empty specification is an error;
    a command that allows it must check for it first.
    """
    if not isinstance(spec, Mapping):
        raise CommandError(15973, "the $sort key specification must be an object")
    if not spec:
        raise CommandError(15976, "$sort stage must have at least one sort key")
    if len(spec) > MAX_SORT_KEYS:
        raise CommandError(13103, f"too many compound keys: a sort has at most {MAX_SORT_KEYS}")
    paths = [SortPath(split_path(path), _is_descending(path, value)) for path, value in spec.items()]
    return Ordering(paths, None if collation is None else collation.string_key)


def _is_descending(path: str, value: Any) -> bool:
    if isinstance(value, Mapping):
        raise _refused_expression(value)
    if not is_number(value):
        raise CommandError(
            15974, f"Illegal key in $sort specification: {path}: a value of type {type_name(value)}"
        )
    direction = whole_direction(value)
    if direction not in (1, -1):
        raise CommandError(15975, "$sort key ordering must be 1 (for ascending) or -1 (for descending)")
    return direction == -1


def whole_direction(value: Any) -> int:
    """The whole number of a direction: a double is cut, a decimal is rounded; 0 if it is not finite."""
    number = real(value)
    if isinstance(number, int):
        return number
    if not -MAX_SORT_KEYS < float(number) < MAX_SORT_KEYS:
        return 0
    return round(number) if isinstance(number, Decimal) else int(number)


def _refused_expression(value: Mapping[str, Any]) -> CommandError:
    """The error of an expression in a sort; ``$meta`` is refused because documents have no metadata."""
    if len(value) != 1 or "$meta" not in value:
        return CommandError(17312, "$meta is the only expression supported by $sort right now")
    name = value["$meta"]
    if not is_string(name) or name not in _META_SORTS:
        return CommandError(31138, f"Illegal $meta sort: {name!r}")
    return CommandError(40218, f"query requires {name} metadata, but it is not available")


def _check_collated(value: Any) -> None:
    """Refuse a symbol inside of a value: with a collation, it has no key there."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in inner:
        if isinstance(part, Symbol):
            raise CommandError(ErrorCode.CannotBuildIndexKeys, "Cannot index type Symbol with a collation.")
        _check_collated(part)


def _plain_value(document: Document, components: tuple[str, ...]) -> Any:
    """The value at a path, None if it does not exist; raises `_HasArray` for a path with an array."""
    value: Any = document
    for name in components:
        if not isinstance(value, dict):
            if isinstance(value, list):
                raise _HasArray
            return None
        value = value.get(name)
    if isinstance(value, list):
        raise _HasArray
    return value


class _Pending(NamedTuple):
    """A partly followed path: the value reached, and the remaining components."""

    value: Any
    rest: tuple[str, ...]


def _values_through_arrays(document: Document, paths: tuple[SortPath, ...]) -> Iterator[list[Any]]:
    """Every combination of the paths' values, one for each array element."""
    pending = {index: _Pending(document, path.components) for index, path in enumerate(paths)}
    yield from _combinations(pending, [None] * len(paths))


def _combinations(pending: Mapping[int, _Pending], values: list[Any]) -> Iterator[list[Any]]:
    values = list(values)
    array: list[Any] | None = None
    at_array: dict[int, tuple[str, ...]] = {}
    for index, step in pending.items():
        value, rest = _up_to_array(step)
        if not isinstance(value, list):
            values[index] = value
            continue
        if array is not None and value is not array:
            raise CommandError(ErrorCode.BadValue, "cannot sort with keys that are parallel arrays")
        array = value
        at_array[index] = rest
    if array is None:
        yield values
        return
    at_positions: dict[int, _Pending] = {}
    for index, rest in list(at_array.items()):
        position = _position(array, rest)
        if position is None:
            continue
        del at_array[index]
        if len(rest) == 1:
            values[index] = _UNDEFINED if array[position] == [] else array[position]
        else:
            at_positions[index] = _Pending(array[position], rest[1:])
    elements = array or [_UNDEFINED]
    for element in elements if at_array else [None]:
        inside = dict(at_positions)
        for index, rest in at_array.items():
            if not rest:
                values[index] = element
            elif isinstance(element, dict):
                inside[index] = _Pending(element, rest)
            else:
                values[index] = None
        yield from _combinations(inside, values)


def _position(array: list[Any], rest: tuple[str, ...]) -> int | None:
    """The position that a path continues at in an array; None if it goes through all elements."""
    position = array_index(rest[0]) if rest else None
    if position is None or position >= len(array):
        return None
    if any(isinstance(element, dict) and rest[0] in element for element in array):
        reason = "Ambiguous field name found in array (do not use numeric field names in embedded elements)"
        raise CommandError(16746, f"{reason}: '{rest[0]}'")
    return position


def _up_to_array(step: _Pending) -> _Pending:
    """Follow a path to its end or to the first array."""
    value, rest = step
    while rest:
        if isinstance(value, list):
            return _Pending(value, rest)
        if not isinstance(value, dict):
            return _Pending(None, ())
        value, rest = value.get(rest[0]), rest[1:]
    return _Pending(value, rest)
