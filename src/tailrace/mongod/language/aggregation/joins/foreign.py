"""Documents of other collections: read once and looked up by the value of a field.

Documents are cached for the life of the pipeline, so that a stage does not read and decode the same
collection for every document. A collection above a size is read again each time.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Any, Final

from tailrace.bson.compare import sort_key
from tailrace.bson.values import Undefined
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.rows import PAUSE, Document, Row, Rows, rows_of
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.pacing import tick, with_ticks
from tailrace.query.missing import MISSING
from tailrace.query.paths import Path, array_index

_KEPT_BYTES: Final = 100 * 1024 * 1024
_NULL: Final = sort_key(None)


class ForeignCollection:
    """Another collection that a stage reads."""

    def __init__(self, scope: StageScope, collection: str) -> None:
        self._services = scope.services
        self._namespace = scope.context.database, collection
        self._kept: list[Row] | None = None
        scope.foreign.add(self._namespace)

    def rows(self) -> Rows:
        """All documents, with pauses on the first call."""
        if self._kept is not None:
            yield from with_ticks(self._kept)
            return
        kept: list[Row] | None = []
        size = 0
        for row in rows_of(self._services.documents(*self._namespace)):
            if row is not PAUSE and kept is not None:
                size += len(row.raw)
                kept.append(row)
                if size > _KEPT_BYTES:
                    kept = None
            yield row
        self._kept = kept

    def indexed(self, path: str, values: Iterable[Any]) -> list[Iterable[Any]] | None:
        """For each value its documents, found by an index on the path; None if there is no index."""
        found = []
        for value in values:
            tick()
            documents = self._services.equal_documents(*self._namespace, path, value)
            if documents is None:
                return None
            found.append(documents)
        return found


class EqualityJoin:
    """Finds the documents of a collection whose field equals one of some values.

    With ``null_is_missing`` a null also matches a missing field. An index is used if there is one; otherwise
    a hash table of all documents by their values.
    """

    def __init__(
        self, collection: ForeignCollection, path: str, scope: StageScope, *, null_is_missing: bool = True
    ) -> None:
        self._collection = collection
        self._path = Path(path)
        self._string_key = scope.string_key
        self._null_is_missing = null_is_missing
        self._undefined_is_null = scope.context.dialect.undefined_is_null
        self._table: dict[Any, list[int]] | None = None
        self._rows: list[Row] = []

    def rows(self, values: list[Any]) -> Rows:
        """The matching documents without duplicates, and pauses."""
        for value in values:
            if self._null_is_missing and isinstance(value, Undefined):
                raise CommandError(ErrorCode.BadValue, "cannot compare to undefined")
        wanted = {self._key(value): value for value in values}
        if self._table is None and self._string_key is None and _NULL not in wanted:
            found = self._collection.indexed(self._path.text, wanted.values())
            if found is not None:
                yield from self._checked(found, wanted.keys())
                return
        if self._table is None:
            yield from self._build()
        assert self._table is not None, "just built"
        positions = {position for key in wanted for position in self._table.get(key, ())}
        for position in sorted(positions):
            tick()
            yield self._rows[position]

    def _checked(self, found: list[Iterable[Any]], wanted: AbstractSet[Any]) -> Rows:
        """The documents that an index has found, checked and without duplicates."""
        seen: set[bytes] = set()
        for documents in found:
            for row in rows_of(documents):
                if row is PAUSE:
                    yield row
                elif row.raw not in seen and not wanted.isdisjoint(self._keys(row.document)):
                    if len(found) > 1:
                        seen.add(row.raw)
                    yield row

    def _build(self) -> Rows:
        table: dict[Any, list[int]] = {}
        kept: list[Row] = []
        for row in self._collection.rows():
            if row is PAUSE:
                yield row
                continue
            tick()
            for key in self._keys(row.document):
                table.setdefault(key, []).append(len(kept))
            kept.append(row)
        self._table, self._rows = table, kept

    def _keys(self, document: Document) -> set[Any]:
        return {
            self._key(value)
            for value, _ in self._path.values(document)
            if self._null_is_missing or value is not MISSING
        }

    def _key(self, value: Any) -> Any:
        if value is MISSING or (self._undefined_is_null and isinstance(value, Undefined)):
            return _NULL
        return sort_key(value, self._string_key)


def values_at(document: Document, components: tuple[str, ...]) -> list[Any]:
    """All values at a path, through arrays and by index; for an array at its end, the elements.

    >>> values_at({"a": [{"b": 1}, {"b": [2, [3]]}, {}, 4]}, ("a", "b"))
    [1, 2, [3]]
    """
    return list(_values(document, components))


def is_through_array(document: Document, components: tuple[str, ...]) -> bool:
    """Whether there is an array on the way to the values of a path, or at its end."""
    value: Any = document
    for component in components:
        if not isinstance(value, dict):
            break
        value = value.get(component)
    return isinstance(value, list)


def _values(value: Any, components: tuple[str, ...]) -> Iterator[Any]:
    if not components:
        if isinstance(value, list):
            yield from value
        else:
            yield value
    elif isinstance(value, dict):
        if components[0] in value:
            yield from _values(value[components[0]], components[1:])
    elif isinstance(value, list):
        position = array_index(components[0])
        if position is not None and position < len(value):
            yield from _values(value[position], components[1:])
        for item in value:
            if isinstance(item, dict):
                yield from _values(item, components)
