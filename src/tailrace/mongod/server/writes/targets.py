"""Find the documents that an update or a delete changes."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from bson import Binary, DatetimeMS, Int64, ObjectId

from tailrace.bson.documents import decode, encode_value
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.reads.access.access_paths import AccessPath, CollectionScan
from tailrace.mongod.server.reads.access.planner import NATURAL, Wanted, check_hint, choose_access
from tailrace.mongod.server.writes.evaluations import once
from tailrace.mongod.server.writes.timeseries import only_measurement
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.indexes.id_keys import id_key
from tailrace.mongod.store.reader import Reader, Record
from tailrace.mongod.store.transactions.rehearsal import RehearsalUnit
from tailrace.pacing import tick, with_ticks
from tailrace.query.collation import Collation
from tailrace.query.match import Matcher, compile_match
from tailrace.query.sorting import Ordering, TopSelector, compile_sort

Owns: TypeAlias = Callable[[bytes], bool]
"""Whether the shard owns a document"""
_READ_AT_ONCE: Final = 256
"""Number of records to read before they are changed; a scan must not run during changes."""

_BYTES_AT_ONCE: Final = 4 << 20
_MOST_LISTED_BYTES: Final = 64 << 20
"""Size of the listed documents; of those above it only the place is stored, and they are matched again."""
Listed: TypeAlias = tuple[bytes, bytes | None]
"""The record key of a document that matched, and the document."""
_PLAIN_IDS: Final = frozenset({ObjectId, int, Int64, str, Binary, DatetimeMS})
"""Types of `_id` that a filter compares only for equality."""


@dataclass(slots=True)
class Target:
    """A document that matched."""

    key: bytes
    raw: bytes
    _document: dict[str, Any] | None = None

    @property
    def document(self) -> dict[str, Any]:
        if self._document is None:
            self._document = decode(self.raw)
        return self._document


@dataclass(slots=True)
class Visit:
    """How far a statement has come with the documents that match."""

    visited: set[bytes] = field(default_factory=set)
    """Record keys, until the rest is listed."""
    position: int = 0
    """In the list of the selection."""

    def copy(self) -> "Visit":
        return Visit(set(self.visited), self.position)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A statement that has changed some of the documents that match."""

    selection: "Selection"
    collection: Collection
    visit: Visit
    compiled: Any
    """What the statement was compiled to."""
    outcome: Any

    def list_rest(self, reader: Reader, context: Context) -> None:
        """Find the other documents, in the state that the next job will meet, or one that is little older."""
        found = reader.catalog.by_uuid(self.collection.uuid)
        if found is not None:
            self.selection.list_rest(reader, found, context, self.visit.visited)
            self.visit.visited.clear()

    def collection_now(self, found: Collection | None) -> Collection:
        """The collection as it is now; raises QueryPlanKilled (175) if the name is another's."""
        if found is None or found.uuid != self.collection.uuid:
            raise CommandError(ErrorCode.QueryPlanKilled, f"collection dropped: {self.collection.ns}")
        return found


class PieceEnds(BaseException):
    """The job is due in the middle of a statement, which goes on in another one."""

    def __init__(self, unfinished: Unfinished) -> None:
        super().__init__()
        self.unfinished = unfinished


class Selection:
    """A statement's filter, with its collation and variables."""

    def __init__(
        self,
        query: Mapping[str, Any],
        *,
        variables: Mapping[str, Any],
        collation: Mapping[str, Any] | None = None,
        sort: Mapping[str, Any] | None = None,
        hint: Any = None,
        collection: Collection | None = None,
        raw_data: bool = False,
    ) -> None:
        """Compile a filter; its default collation is the collection's.

        With ``raw_data`` the documents of a time-series collection are its buckets.
        """
        self.collation = statement_collation(collation, collection)
        self.timeseries: Mapping[str, Any] | None = None
        """The option of a time-series collection; the filter applies to measurements in its buckets."""
        if collection is not None and collection.is_timeseries and not raw_data:
            self.timeseries = collection.options["timeseries"]
        self._query = query
        self._variables = variables
        self._sort = sort or {}
        self._ordering: Ordering | None = None
        self._rehearsed: Target | None = None
        self._is_rehearsed = False
        self._listed: list[Listed] | None = None
        self._matcher: Matcher | None = None
        self._failure: CommandError | None = None
        self._hint = hint
        check_hint(hint)
        # Most statements name one `_id`. They need no plan, no matcher and no order.
        self._id_key = None if hint is not None or self.timeseries is not None else self._only_id(collection)
        if self._id_key is None:
            if sort and NATURAL not in sort:
                self._ordering = compile_sort(sort, self.collation)
            self.matcher  # noqa: B018 - a filter that makes no sense is refused now

    @property
    def matcher(self) -> Matcher:
        # No `cached_property`: until Python 3.12 it has a lock, which must not be held during a tick.
        if self._matcher is None:
            self._matcher = compile_match(self._query, variables=self._variables, collation=self.collation)
        return self._matcher

    def first(self, reader: Reader, collection: Collection, context: Context) -> Target | None:
        """The first document, in the order of the sort."""
        owns = _ownership(collection, context)
        if self._id_key is not None:
            record = reader.find_id(collection, self._id_key)
            return None if record is None or (owns and not owns(record[1])) else Target(*record)
        if self._is_rehearsed and not _is_rehearsing(context):
            if self._rehearsed is None:
                return None
            again = self._at((self._rehearsed.key, self._rehearsed.raw), reader, collection, context, owns)
            if again is not None:
                return again
        if self._failure is not None and not _is_rehearsing(context):
            raise self._failure
        try:
            target = self._search(reader, collection, context, owns)
        except CommandError as error:
            if _is_rehearsing(context):
                self._failure = error
            raise
        if _is_rehearsing(context):
            self._failure = None
            self._is_rehearsed = self.timeseries is None and not (
                target is not None and RehearsalUnit.is_new(target.key)
            )
            self._rehearsed = target
        return target

    def _search(
        self, reader: Reader, collection: Collection, context: Context, owns: "Owns | None"
    ) -> Target | None:
        access = self._access(reader, collection)
        found = self._matching(access, _with_deadline(access.records(reader), context), owns)
        if self._ordering is None or access.is_ordered:
            return next(found, None)
        selector: TopSelector[Target] = TopSelector(self._ordering, 1)
        for target in found:
            selector.add(target.document, target)
        return next(selector.items(), None)

    def all(self, reader: Reader, collection: Collection, context: Context, visit: Visit) -> Iterator[Target]:
        """Every document, each once, even if documents returned before are changed; notes them in ``visit``.

        If the documents were listed, those after the position, as far as they exist and still match.
        """
        if self._listed is None and _is_rehearsing(context):
            listed = self._listed_by(reader, collection, context)
            if not any(RehearsalUnit.is_new(key) for key, _ in listed):
                self._listed = listed
            yield from self._visited(listed, reader, collection, context, visit)
        elif self._listed is not None:
            yield from self._visited(self._listed, reader, collection, context, visit)
        else:
            access = self._access(reader, collection)
            seen = visit.visited
            records = _in_batches(access, reader, context)
            for target in self._matching(access, records, _ownership(collection, context)):
                # A change may move a document forward in the index that is read.
                if target.key not in seen:
                    seen.add(target.key)
                    yield target

    @property
    def is_listed(self) -> bool:
        """Whether it is known which documents are to be looked at."""
        return self._listed is not None

    def list_rest(
        self, reader: Reader, collection: Collection, context: Context, visited: "set[bytes]"
    ) -> None:
        """List the documents that match and were not visited, for the jobs that go on; with ticks."""
        listed = self._listed_by(reader, collection, context)
        self._listed = [(key, raw) for key, raw in listed if key not in visited]

    def _listed_by(self, reader: Reader, collection: Collection, context: Context) -> "list[Listed]":
        """What matches, up to a document for which the filter fails: that error comes after the others."""
        owns = _ownership(collection, context)
        self._failure = None
        listed: dict[bytes, bytes | None] = {}
        room = _MOST_LISTED_BYTES
        try:
            access = self._access(reader, collection)
            for target in self._matching(access, with_ticks(access.records(reader)), owns):
                room -= len(target.raw)
                listed.setdefault(target.key, target.raw if room > 0 else None)
        except CommandError as error:
            self._failure = error
        return list(listed.items())

    def _visited(
        self, listed: "list[Listed]", reader: Reader, collection: Collection, context: Context, visit: Visit
    ) -> Iterator[Target]:
        owns = _ownership(collection, context)
        while visit.position < len(listed):
            target = self._at(listed[visit.position], reader, collection, context, owns)
            visit.position += 1
            if target is not None:
                yield target
            tick()
        if self._failure is not None:
            raise self._failure

    def _at(
        self, listed: "Listed", reader: Reader, collection: Collection, context: Context, owns: "Owns | None"
    ) -> Target | None:
        """A listed document, if it exists and still matches."""
        key, before = listed
        raw = reader.record(collection, key)
        if raw is None or (owns is not None and not owns(raw)):
            return None
        target = Target(key, raw)
        if self.timeseries is not None:
            target = Target(key, raw, decode(only_measurement(self.timeseries, raw)))
        if raw == before:
            return target
        is_match = once(context, ("matches", id(self), raw), lambda: self.matcher(target.document), len(raw))
        return target if is_match else None

    def _only_id(self, collection: Collection | None) -> bytes | None:
        """The key of the `_id`, if the filter has no other condition."""
        own = None if collection is None else collection.collation
        if self.collation != own or len(self._query) != 1 or "_id" not in self._query:
            return None
        value = self._query["_id"]
        return id_key(*encode_value(value), own) if type(value) in _PLAIN_IDS else None

    def _access(self, reader: Reader, collection: Collection) -> AccessPath:
        if self.timeseries is not None:
            return CollectionScan(collection)
        wanted = Wanted(self._query, self._sort, self._ordering, self._hint, self.collation)
        return choose_access(reader, collection, wanted)

    def _matching(
        self, access: AccessPath, records: Iterator[Record], owns: "Owns | None"
    ) -> Iterator[Target]:
        if owns is not None:
            records = (record for record in records if owns(record[1]))
        if access.is_exact:
            for key, raw in records:
                yield Target(key, raw)
            return
        matches, timeseries = self.matcher, self.timeseries
        for key, raw in with_ticks(records):
            document = decode(raw if timeseries is None else only_measurement(timeseries, raw))
            if matches(document):
                yield Target(key, raw, document)


def _is_rehearsing(context: Context) -> bool:
    return context.evaluations is not None and context.evaluations.is_rehearsing


def statement_collation(given: Mapping[str, Any] | None, collection: Collection | None) -> Collation | None:
    """The collation of a statement; by default, and for an empty one, the collection's."""
    if given:
        return Collation.parse(given)
    return None if collection is None else collection.collation


def _ownership(collection: Collection, context: Context) -> Owns | None:
    """Whether the shard owns a document, so that a statement may change it."""
    ownership = context.client.ownership
    return None if ownership is None else ownership.filter(collection)


def _with_deadline(records: Iterator[Record], context: Context) -> Iterator[Record]:
    """The records; the deadline is checked repeatedly."""
    for number, record in enumerate(records):
        if not number % _READ_AT_ONCE:
            context.check_deadline()
        yield record


def _in_batches(access: AccessPath, reader: Reader, context: Context) -> Iterator[Record]:
    """The records of an access path, read in batches so that changes do not affect the scan."""
    while True:
        context.check_deadline()
        ahead: list[Record] = []
        size = 0
        for record in access.records(reader):
            ahead.append(record)
            size += len(record[1])
            if len(ahead) >= _READ_AT_ONCE or size >= _BYTES_AT_ONCE:
                break
        if not ahead:
            return
        yield from ahead
