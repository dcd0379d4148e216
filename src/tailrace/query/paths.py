"""Dotted paths in queries: the values at ``a.b.c`` in a document.

A path follows documents by field name. It continues in an array in two ways, and may find several values:

* *through* the array: in every document that is an element, never in an array inside the array;
* *by index*: if the component is a number without leading zeros, in that one element.

A number is therefore tried both as the name of a field and as an index. A path whose last component names an
array finds every element and then the array itself; a path that ends by index finds only that element, even
if it is an array. If a document lacks the field, or a plain value is on the path, the path finds `MISSING`;
elements of an array that are plain values or arrays are skipped instead.

Each value comes with an *offset*: the index in the outermost array that the path went through (not by index),
to which the positional operator ``$`` of an update refers.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from tailrace.pacing import ticking
from tailrace.query.missing import MISSING

Test: TypeAlias = Callable[[Any], bool]
"""A test of one value, which may be `MISSING`."""
Located: TypeAlias = tuple[Any, int | None]
"""A value and its offset."""


_MAX_INDEX_DIGITS: Final = 10


class Path:
    """A path, split into its components.

    >>> document = {"a": [{"b": 1}, 7, {"b": [2, 3]}, {}]}
    >>> [value for value, _ in Path("a.b").values(document)]
    [1, 2, 3, [2, 3], MISSING]
    >>> [value for value, _ in Path("a.0.b").values(document)]
    [MISSING, 1, MISSING, MISSING]
    """

    __slots__ = ("_indexes", "components", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.components = tuple(text.split("."))
        self._indexes = tuple(array_index(component) for component in self.components)

    def __repr__(self) -> str:
        return f"Path({self.text!r})"

    def values(self, document: dict[str, Any], *, into_last_array: bool = True) -> Iterator[Located]:
        """Every value at the path, with its offset, as the module docstring describes."""
        return self._in_document(document, 0, into_last_array)

    def _in_document(self, document: dict[str, Any], depth: int, into_last_array: bool) -> Iterator[Located]:
        last = len(self.components) - 1
        while True:
            value = document.get(self.components[depth], MISSING)
            if depth == last:
                if into_last_array and isinstance(value, list):
                    for index, item in enumerate(ticking(value)):
                        yield item, index
                yield value, None
                return
            depth += 1
            if isinstance(value, list):
                yield from self._in_array(value, depth, into_last_array)
                return
            if not isinstance(value, dict):
                yield MISSING, None
                return
            document = value

    def _in_array(self, array: list[Any], depth: int, into_last_array: bool) -> Iterator[Located]:
        wanted = self._indexes[depth]
        is_last = depth == len(self.components) - 1
        for index, item in enumerate(ticking(array)):
            if isinstance(item, dict):
                for value, _ in self._in_document(item, depth, into_last_array):
                    yield value, index
            if index != wanted:
                continue
            if is_last:
                yield item, index
            elif isinstance(item, dict):
                yield from self._in_document(item, depth + 1, into_last_array)
            elif isinstance(item, list):
                yield from self._in_array(item, depth + 1, into_last_array)

    def predicate(self, test: Test, *, into_last_array: bool = True) -> Callable[[dict[str, Any]], bool]:
        """A function that returns whether `test` holds for one of `values`; faster than iterating them.

        >>> has_one = Path("a.b").predicate(lambda value: value == 1)
        >>> has_one({"a": {"b": 1}}), has_one({"a": [{"b": [1]}]}), has_one({"a": 1})
        (True, True, False)
        """
        if len(self.components) == 1:
            return _field_predicate(self.text, test, into_last_array)
        parents = tuple(enumerate(self.components[:-1], start=1))
        at_leaf = _field_predicate(self.components[-1], test, into_last_array)

        def holds(document: dict[str, Any]) -> bool:
            for depth, name in parents:
                value = document.get(name, MISSING)
                if isinstance(value, dict):
                    document = value
                elif isinstance(value, list):
                    return any(test(found) for found, _ in self._in_array(value, depth, into_last_array))
                else:
                    return test(MISSING)
            return at_leaf(document)

        return holds


def _field_predicate(name: str, test: Test, into_array: bool) -> Callable[[dict[str, Any]], bool]:
    def holds(document: dict[str, Any]) -> bool:
        value = document.get(name, MISSING)
        if into_array and isinstance(value, list):
            for item in ticking(value):
                if test(item):
                    return True
        return test(value)

    return holds


def array_index(component: str, most_digits: int = _MAX_INDEX_DIGITS) -> int | None:
    """The array index in a path component; None if it is not one.

    >>> array_index("0"), array_index("17"), array_index("01"), array_index("-1"), array_index("٣")
    (0, 17, None, None, None)
    """
    if len(component) > most_digits or not (component.isascii() and component.isdigit()):
        return None
    return int(component) if component == "0" or component[0] != "0" else None


def as_document(value: Any) -> dict[str, Any] | None:
    """A document, or an array as a document with its indexes as fields; None for plain values.

    >>> as_document([7, 8]), as_document(7)
    ({'0': 7, '1': 8}, None)
    """
    if isinstance(value, dict):
        return value
    if isinstance(value, list):
        return {str(index): item for index, item in enumerate(value)}
    return None
