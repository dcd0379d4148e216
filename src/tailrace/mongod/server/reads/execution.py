"""Compute the results of a query from documents: filter, sort, skip, limit, project."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from bson import Binary, Int64

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import encode, encode_value
from tailrace.mongod.language.aggregation import PAUSE, Pause
from tailrace.mongod.language.aggregation.memory.budget import StageMemory
from tailrace.mongod.language.aggregation.rows import FoundRow, Row, Rows
from tailrace.mongod.language.aggregation.stages.sort import sort_stage
from tailrace.mongod.language.find_projection import FindProjection, compile_find_projection
from tailrace.mongod.server.reads.access.access_paths import AccessPath, IdLookup, IndexScan
from tailrace.mongod.server.reads.access.planner import NATURAL, Wanted
from tailrace.mongod.server.reads.cursor import Progress
from tailrace.mongod.server.reads.read_state import ReadState
from tailrace.mongod.server.reads.requests.find_request import FindRequest
from tailrace.query.collation import Collation
from tailrace.query.dialect import CURRENT_DIALECT, Dialect
from tailrace.query.match import Matcher, compile_match
from tailrace.query.sorting import Ordering, compile_sort

Item = TypeVar("Item", Row, bytes)
_INT64_SIZE: Final = 8


@dataclass(frozen=True, slots=True)
class Query:
    """A compiled find, without its access path."""

    request: FindRequest
    matcher: Matcher
    ordering: Ordering | None
    projection: FindProjection | None
    collation: Collation | None

    @classmethod
    def compile(
        cls,
        request: FindRequest,
        *,
        variables: Mapping[str, Any],
        collation: Collation | None,
        dialect: Dialect = CURRENT_DIALECT,
    ) -> "Query":
        """Compile the parts; raises for every fault of them."""
        matcher = compile_match(
            request.query,
            variables=variables,
            collation=collation,
            dialect=dialect,
        )
        is_sorted = bool(request.sort) and NATURAL not in request.sort
        ordering = compile_sort(request.sort, collation) if is_sorted else None
        projection = None
        if request.projection:
            projection = compile_find_projection(
                request.projection,
                matcher=matcher,
                variables=variables,
                collation=collation,
                dialect=dialect,
            )
        return cls(request, matcher, ordering, projection, collation)

    @property
    def wanted(self) -> Wanted:
        """What an access path has to return."""
        request = self.request
        return Wanted(
            request.query,
            request.sort,
            self.ordering,
            request.hint,
            self.collation,
            request.min_key,
            request.max_key,
        )

    @property
    def is_plain(self) -> bool:
        """Whether it needs no sort and no decoding: at most a filter and a projection of bytes."""
        request = self.request
        return (
            (self.projection is None or self.projection.on_bytes is not None)
            and not request.skip
            and not request.show_record_id
            and not request.return_key
        )

    def is_sorted_by(self, path: AccessPath) -> bool:
        """Whether the documents of a path need no sorting."""
        return self.ordering is None or path.is_ordered

    def results(
        self, rows: Rows, path: AccessPath | None, window: "Window", memory: StageMemory
    ) -> Iterator[bytes | Pause]:
        """The results of matching rows, which come from ``path`` or from a view."""
        request = self.request
        if self.ordering is not None and (path is None or not path.is_ordered):
            most = request.skip + request.limit if request.limit else None
            rows = with_known_end(sort_stage(self.ordering, memory, most)(rows), window.progress)
        elif isinstance(path, IdLookup):
            rows = with_known_end(rows, window.progress)
        for row in window.cut(rows):
            yield row if row is PAUSE else self._result(row, path)

    def _result(self, row: Row, path: AccessPath | None) -> bytes:
        request = self.request
        if request.return_key:
            raw = encode(_key_of(row.document, path))
        elif self.projection is None:
            raw = row.raw
        elif self.projection.on_bytes is not None:
            raw = self.projection.on_bytes(row.raw)
        else:
            projected = self.projection.project(row.document)
            for name, kind in self.projection.metadata:
                if kind == "recordId" and isinstance(row, FoundRow):
                    projected[name] = _record_id(row.key)
                elif kind == "indexKey" and isinstance(path, IndexScan):
                    projected[name] = _key_of(row.document, path)
            raw = encode(projected)
        if request.show_record_id and not request.return_key and isinstance(row, FoundRow):
            kind_byte, value = encode_value(_record_id(row.key))
            return rawbson.document(rawbson.body(raw), rawbson.element(kind_byte, b"$recordId", value))
        return raw


class Window:
    """The range of results that skip and limit select, counted over several batches."""

    def __init__(self, skip: int, limit: int) -> None:
        """``limit`` 0 is none."""
        self.progress = Progress()
        self._skip = skip
        self._left: int | None = limit or None

    def cut(self, rows: Iterable[Item | Pause]) -> Iterator[Item | Pause]:
        """The rows inside the window; nothing is read after the last of them."""
        for row in rows:
            if row is PAUSE:
                yield row
            elif self._skip:
                self._skip -= 1
            elif self._left is None:
                yield row
            else:
                self._left -= 1
                if not self._left:
                    self.progress.finished = True
                yield row
                if not self._left:
                    return


def matching_rows(state: ReadState, path: AccessPath, matcher: Matcher | None) -> Rows:
    """The documents of an access path that match, as rows."""
    matches = None if path.is_exact else matcher
    for record in state.records(path):
        if record is PAUSE:
            yield record
        elif matches is None:
            yield FoundRow(*record)
        elif matches.may_match(record[1]):
            row = FoundRow(*record)
            if matches(row.document):
                yield row


def with_known_end(rows: Iterable[Item | Pause], progress: Progress) -> Iterator[Item | Pause]:
    """The rows of a list; the last one is marked as final."""
    held: Item | None = None
    for row in rows:
        if row is PAUSE:
            yield row
        else:
            if held is not None:
                yield held
            held = row
    if held is not None:
        progress.finished = True
        yield held


def _record_id(key: bytes) -> Int64 | Binary:
    return Int64(int.from_bytes(key, "big")) if len(key) == _INT64_SIZE else Binary(key)


def _key_of(document: Mapping[str, Any], path: AccessPath | None) -> dict[str, Any]:
    """The index key of a document; empty if no index was used."""
    if isinstance(path, IdLookup):
        return {"_id": document["_id"]}
    if not isinstance(path, IndexScan):
        return {}
    key = {}
    for name, _ in path.index.key:
        value: Any = document
        for component in name.split("."):
            value = value.get(component) if isinstance(value, dict) else None
        key[name] = value
    return key
