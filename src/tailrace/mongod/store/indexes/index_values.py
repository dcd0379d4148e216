"""The values of a document at the paths of an index.

An array makes several keys, one for each element; paths through the same array are combined element by
element, and two different arrays in one document cannot be indexed together. A nested array counts as one
value. A number in a path is also a position in an array.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from tailrace.bson.values import Undefined
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.query.missing import MISSING
from tailrace.query.paths import array_index

Values: TypeAlias = list[Any]
"""A value for each path; `MISSING` where the document has none"""

INDEXED_ARRAY: Final = 5930501
"""The code for an array in an indexed field of a measurement"""
_AMBIGUOUS: Final = 16746


class IndexPaths:
    """The paths of one index, split once.

    >>> list(IndexPaths(["a.b", "c"]).values({"a": [{"b": 1}, {"b": 2}], "c": 3}))
    [[1, 3], [2, 3]]
    """

    __slots__ = ("_parts", "_texts")

    def __init__(self, paths: Sequence[str]) -> None:
        self._texts = tuple(paths)
        self._parts = tuple(tuple(path.split(".")) for path in paths)

    def values(self, document: dict[str, Any]) -> Iterator[Values]:
        """The combinations of values, one for each key; there may be duplicates."""
        number = len(self._parts)
        return self._expand(document, [0] * number, [MISSING] * number, set(range(number)))

    def meet_array(self, document: dict[str, Any]) -> bool:
        """Whether one of the paths leads to or through an array."""
        return any(isinstance(self._follow(document, n, 0)[0], list) for n in range(len(self._parts)))

    def _expand(
        self, node: dict[str, Any], depths: list[int], values: Values, pending: set[int]
    ) -> Iterator[Values]:
        """The combinations of the ``pending`` paths, which continue at ``node``, at their depths."""
        if len(pending) > 1:
            self._check_first_arrays(node, depths, pending)
        array: list[Any] | None = None
        through: list[tuple[int, int]] = []
        for position in sorted(pending):
            value, depth = self._follow(node, position, depths[position])
            if not isinstance(value, list):
                values[position] = value
                continue
            if array is not None and value is not array:
                raise self._parallel(position, through[0][0])
            array = value
            through.append((position, depth))
        if array is None:
            yield values
            return
        if not array:
            for position, depth in through:
                at_end = depth == len(self._parts[position])
                values[position] = Undefined() if at_end else MISSING
            yield values
            return
        for item in array:
            yield from self._expand_item(item, depths, list(values), through)

    def _check_first_arrays(self, node: dict[str, Any], depths: list[int], pending: set[int]) -> None:
        """Refuse different arrays on two paths; one that a number leads through counts as well."""
        first: tuple[int, list[Any]] | None = None
        for position in sorted(pending):
            value: Any = node
            for part in self._parts[position][depths[position] :]:
                if not isinstance(value, dict):
                    break
                value = value.get(part)
            if isinstance(value, list):
                if first is not None and value is not first[1]:
                    raise self._parallel(position, first[0])
                first = first or (position, value)

    def _expand_item(
        self, item: Any, depths: list[int], values: Values, through: list[tuple[int, int]]
    ) -> Iterator[Values]:
        pending: set[int] = set()
        below = list(depths)
        for position, depth in through:
            if depth == len(self._parts[position]):
                values[position] = item
            elif isinstance(item, dict):
                below[position] = depth
                pending.add(position)
            else:
                values[position] = MISSING
        if pending:
            yield from self._expand(item, below, values, pending)
        else:
            yield values

    def _follow(self, node: Any, position: int, depth: int) -> tuple[Any, int]:
        """Follow a path to its value, or to the first array on it; returns that, and the depth reached."""
        parts = self._parts[position]
        value = node
        while depth < len(parts):
            part = parts[depth]
            if isinstance(value, dict):
                value = value.get(part, MISSING)
            elif isinstance(value, list):
                number = array_index(part)
                if number is None or number >= len(value):
                    return value, depth
                if any(isinstance(item, dict) and part in item for item in value):
                    raise CommandError(
                        _AMBIGUOUS,
                        f"Ambiguous field name found in array (do not use numeric field names in embedded "
                        f"elements in an array), field: '{part}' for array of '{self._texts[position]}'",
                    )
                value = value[number]
            else:
                return MISSING, len(parts)
            depth += 1
        return value, depth

    def _parallel(self, one: int, other: int) -> CommandError:
        return CommandError(
            ErrorCode.CannotIndexParallelArrays,
            f"cannot index parallel arrays [{self._parts[one][-1]}] [{self._parts[other][-1]}]",
        )


def wildcard_values(document: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a document with its path, as a wildcard index has them.

    >>> list(wildcard_values({"a": {"b": [1, {"c": 2}]}, "d": {}}))
    [('a.b', 1), ('a.b.c', 2), ('d', {})]
    """
    for name, value in document.items():
        path = prefix + name
        if isinstance(value, list):
            if not value:
                yield path, Undefined()
            for item in value:
                yield from _wildcard_value(path, item)
        else:
            yield from _wildcard_value(path, value)


def _wildcard_value(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        yield from wildcard_values(value, path + ".")
    else:
        yield path, value
