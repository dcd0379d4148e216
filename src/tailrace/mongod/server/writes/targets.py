"""Find the documents that an update or a delete changes."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from bson import Binary, DatetimeMS, Int64, ObjectId

from tailrace.bson.documents import decode, encode_value
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.reads.access.access_paths import AccessPath, CollectionScan
from tailrace.mongod.server.reads.access.planner import NATURAL, Wanted, check_hint, choose_access
from tailrace.mongod.server.writes.timeseries import only_measurement
from tailrace.mongod.server.writes.validation.validator import collation_of
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.indexes.id_keys import id_key
from tailrace.mongod.store.reader import Reader, Record
from tailrace.mongod.store.transactions.rehearsal import RehearsalUnit
from tailrace.pacing import with_ticks
from tailrace.query.collation import Collation
from tailrace.query.match import Matcher, compile_match
from tailrace.query.sorting import Ordering, TopSelector, compile_sort

Owns: TypeAlias = Callable[[bytes], bool]
"""Whether the shard owns a document"""
_READ_AT_ONCE: Final = 256
"""Number of records to read before they are changed; a scan must not run during changes."""

_BYTES_AT_ONCE: Final = 4 << 20
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
        self._rehearsed: list[Target] | None = None
        self._matcher: Matcher | None = None
        self._failure: CommandError | None = None
        self._hint = hint
        check_hint(hint)
        # Most statements name one `_id`. They need no plan, no matcher and no order.
        self._id_key = None if hint is not None or self.timeseries is not None else self._only_id()
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
        evaluations = context.evaluations
        if evaluations is not None and not evaluations.is_rehearsing and self._rehearsed is not None:
            again = next(self._again(self._rehearsed, reader, collection, owns), None)
            if again is not None or not self._rehearsed:
                return again
        if self._failure is not None and not _is_rehearsing(context):
            raise self._failure
        try:
            target = self._search(reader, collection, context, owns)
        except CommandError as error:
            self._note_failure(error, context)
            raise
        self._note([] if target is None else [target], context)
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

    def all(self, reader: Reader, collection: Collection, context: Context) -> Iterator[Target]:
        """Every document, each once, even if documents returned before are changed."""
        owns = _ownership(collection, context)
        evaluations = context.evaluations
        if evaluations is not None and not evaluations.is_rehearsing and self._rehearsed is not None:
            yield from self._again(self._rehearsed, reader, collection, owns)
            return
        if self._failure is not None and not _is_rehearsing(context):
            raise self._failure
        access = self._access(reader, collection)
        seen: set[bytes] = set()
        found: list[Target] = []
        try:
            for target in self._matching(access, _in_batches(access, reader, context), owns):
                # A change may move a document forward in the index that is read.
                if target.key not in seen:
                    seen.add(target.key)
                    if evaluations is not None and evaluations.is_rehearsing:
                        evaluations.spend(len(target.raw))
                        found.append(Target(target.key, target.raw))
                    yield target
        except CommandError as error:
            self._note_failure(error, context)
            raise
        self._note(found, context)

    def _note_failure(self, error: CommandError, context: Context) -> None:
        if _is_rehearsing(context):
            self._failure = error

    def _note(self, found: list[Target], context: Context) -> None:
        """Store what a rehearsal has found, so that the writer need not search."""
        if not _is_rehearsing(context):
            return
        self._failure = None
        is_known = self.timeseries is None and not any(RehearsalUnit.is_new(target.key) for target in found)
        self._rehearsed = [Target(target.key, target.raw) for target in found] if is_known else None

    def _again(
        self, rehearsed: list[Target], reader: Reader, collection: Collection, owns: "Owns | None"
    ) -> Iterator[Target]:
        """What the rehearsal has found, as far as it is still there and still matches."""
        for target in rehearsed:
            raw = reader.record(collection, target.key)
            if raw is None or (owns is not None and not owns(raw)):
                continue
            if raw == target.raw or self.matcher(decode(raw)):
                yield Target(target.key, raw)

    def _only_id(self) -> bytes | None:
        """The key of the `_id`, if the filter has no other condition."""
        if self.collation is not None or len(self._query) != 1 or "_id" not in self._query:
            return None
        value = self._query["_id"]
        return id_key(*encode_value(value)) if type(value) in _PLAIN_IDS else None

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
    return None if collection is None else collation_of(collection)


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
