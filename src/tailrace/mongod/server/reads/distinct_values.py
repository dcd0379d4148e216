"""The distinct values of a path."""

from typing import Any

from tailrace.bson.compare import SortKey, StringKey, sort_key
from tailrace.bson.documents import encode_value
from tailrace.bson.raw import MAX_USER_SIZE
from tailrace.errors import CommandError
from tailrace.mongod.store.indexes.index_values import IndexPaths
from tailrace.pacing import ticking
from tailrace.query.expressions.arrays.ordered import in_order
from tailrace.query.missing import MISSING
from tailrace.query.paths import Path

_ELEMENT_OVERHEAD = 8


class DistinctValues:
    """Collects values, each once, in order; of an array, its elements.

    >>> values = DistinctValues("a")
    >>> for document in ({"a": 1}, {"a": [1.0, "x"]}, {"b": 1}, {"a": [[2]]}):
    ...     values.add(document)
    >>> values.found
    [1, 'x', [2]]
    """

    def __init__(self, path: str, string_key: StringKey = None, *, from_index: bool = False) -> None:
        """With ``from_index``, values are those that an index on the path has.

        There, a missing field is null, an empty array undefined, and every element of an array a value.
        """
        self._found: list[tuple[SortKey, Any]] = []
        self._indexed = IndexPaths([path]) if from_index else None
        self._path = Path(path)
        self._string_key = string_key
        self._seen: set[Any] = set()
        self._size = 0

    @property
    def found(self) -> list[Any]:
        return in_order(self._found)

    def add(self, document: dict[str, Any]) -> None:
        """Add the values of a document; raises 17217 when the values do not fit into a reply."""
        if self._indexed is not None:
            for (value,) in self._indexed.values(document):
                self._add_elements(None if value is MISSING else value)
            return
        for value, _ in self._path.values(document, into_last_array=False):
            if value is not MISSING:
                self._add_elements(value)

    def _add_elements(self, value: Any) -> None:
        if isinstance(value, list):
            for item in ticking(value):
                self._add(item)
        else:
            self._add(value)

    def _add(self, value: Any) -> None:
        key = sort_key(value, self._string_key)
        if key in self._seen:
            return
        self._seen.add(key)
        self._size += len(encode_value(value)[1]) + _ELEMENT_OVERHEAD
        if self._size > MAX_USER_SIZE:
            raise CommandError(17217, "distinct too big, 16mb cap")
        self._found.append((key, value))
