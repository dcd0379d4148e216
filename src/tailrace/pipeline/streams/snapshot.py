"""The documents that a stream shows before the changes, as events of the type `read`.

Collections are cut into ranges of `_id`. A range is read as of one cluster time, which the offset of the
query has. Changes are shown from before the first of these times on, without those that a range has: a change
of a document comes after its `read`, and no change is missing or shown twice (`lake/mirror/copy_state.py`).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tailrace.bson import documents as bsondocs
from tailrace.bson import raw as rawbson
from tailrace.bson.id_key import id_key
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, UsageError
from tailrace.events.layout.read_event import ReadEventFrame
from tailrace.events.resume_token import ResumeToken
from tailrace.events.scope import Scope, ScopeKind
from tailrace.events.stages.stage import Row
from tailrace.lake.mirror.copy_state import CopiedRange, CopyState
from tailrace.log.shared_output import AnyRow
from tailrace.namespaces import NamespaceChoice
from tailrace.pipeline.streams.event_block import BlockRow
from tailrace.pipeline.streams.event_source import Blocks
from tailrace.query.match import compile_match
from tailrace.sources.deployments.document_range import DocumentRange, lacks_snapshots, snapshots_missing

if TYPE_CHECKING:
    from tailrace.sources.deployments.collections import CollectionReader

RANGE_DOCUMENTS: Final = 100_000
"""About how many documents one range has"""


@dataclass(frozen=True, slots=True)
class RangeRead:
    """A range, and the cluster time that it is read at: the work of one task."""

    wanted: DocumentRange
    uuid: str
    at: int


@dataclass(frozen=True, slots=True)
class SnapshotCollection:
    namespace: str
    uuid: str
    """What tells it from a later one of the same name"""
    by_index: bool
    state: CopyState
    """Its ranges, and the cluster times at which they were read"""

    def read(self, number: int, at: int) -> RangeRead:
        lower, upper = self.state.limits(number)
        return RangeRead(DocumentRange(self.namespace, lower, upper, self.by_index), self.uuid, at)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Which documents are read, and how far that is."""

    collections: tuple[SnapshotCollection, ...]

    @classmethod
    def planned(
        cls,
        reader: "CollectionReader",
        scope: Scope,
        chosen: NamespaceChoice | None,
        range_documents: int = RANGE_DOCUMENTS,
    ) -> "Snapshot":
        """The collections that a stream watches; nothing was read yet."""
        found = []
        for namespace in _namespaces(reader, scope, chosen):
            facts = reader.facts_of(namespace)
            if facts is None:
                continue
            if facts.kind != "collection":
                if namespace == _named(scope):
                    raise UsageError(f"{namespace} has no snapshot: {facts.why_not}")
                continue
            starts = reader.starts(facts, range_documents)
            uuid = (facts.uuid or b"").hex()
            found.append(
                SnapshotCollection(namespace, uuid, not facts.has_collation, CopyState.planned(starts))
            )
        return cls(tuple(found))

    @property
    def is_complete(self) -> bool:
        return all(each.state.is_complete for each in self.collections)

    @property
    def settled(self) -> int:
        """The last of the cluster times at which ranges were read."""
        return max((each.state.settled for each in self.collections), default=0)

    def after_next(self, count: int, at: int) -> "Snapshot":
        """The snapshot after the next ranges were read at a cluster time."""
        collections = []
        for each in self.collections:
            state = each.state
            chosen = state.missing()[:count]
            count -= len(chosen)
            for number in chosen:
                state = state.with_range(number, CopiedRange(at, at))
            collections.append(replace(each, state=state))
        return Snapshot(tuple(collections))

    def reads_since(self, before: "Snapshot") -> list[RangeRead]:
        """What was read between two states of a snapshot."""
        return [
            now.read(number, copied.as_of)
            for now, then in zip(self.collections, before.collections, strict=True)
            for number, copied in sorted(now.state.done.items())
            if number not in then.state.done
        ]

    def without_read(self, blocks: Blocks) -> Iterator[list[AnyRow]]:
        """Leave out the changes that the documents have which were read."""
        states = {each.namespace: each.state for each in self.collections}
        for rows in blocks:
            yield [row for row in rows if not _is_read(row, states)]

    def to_document(self) -> list[dict[str, Any]]:
        return [
            {
                "ns": each.namespace,
                "uuid": each.uuid,
                "byIndex": each.by_index,
                "ranges": each.state.to_text(),
            }
            for each in self.collections
        ]

    @classmethod
    def of(cls, document: Iterable[Mapping[str, Any]]) -> "Snapshot":
        """Read what `to_document` made."""
        return cls(
            tuple(
                SnapshotCollection(
                    each["ns"], each["uuid"], each["byIndex"], CopyState.from_text(each["ranges"])
                )
                for each in document
            )
        )


def _named(scope: Scope) -> str | None:
    return None if scope.coll is None else f"{scope.db}.{scope.coll}"


def _namespaces(reader: "CollectionReader", scope: Scope, chosen: NamespaceChoice | None) -> list[str]:
    named = _named(scope)
    if named is not None:
        return [named]
    databases = [scope.db] if scope.kind is ScopeKind.DATABASE else reader.databases()
    listed = [facts.namespace for database in databases for facts in reader.collections(database)]
    return [name for name in listed if chosen is None or chosen.keeps(*name.split(".", 1))]


def _is_read(row: AnyRow, states: Mapping[str, CopyState]) -> bool:
    key = rawbson.subdocument(row.raw, b"documentKey")
    names = rawbson.subdocument(row.raw, b"ns")
    if key is None or names is None:
        return False
    database, collection = (rawbson.text(names, rawbson.find(names, name)) for name in (b"db", b"coll"))
    state = states.get(f"{database}.{collection}")
    if state is None:
        return False
    # A part of a transaction over several shards is visible before the time of its entry.
    visible = row.event.entry.extras.commit_timestamp if isinstance(row, Row) else None
    return not state.applies(id_key(key), visible or row.cluster_time)


class ReadEvents:
    """Makes the rows of documents that were read."""

    def __init__(self, filters: Iterable[Mapping[str, Any]], token_version: int) -> None:
        """``filters`` are those of the stream's `$match` stages."""
        self._filters = [compile_match(each, in_order=True) for each in filters]
        self._version = token_version

    def rows(self, reader: "CollectionReader", wanted: RangeRead) -> Iterator[list[BlockRow]]:
        """The documents of a range, some at a time; raises `CommandError` if they cannot be read any more."""
        namespace, at = wanted.wanted.namespace, wanted.at
        token = ResumeToken.high_water_mark(at, self._version)
        identifier, frame = token.to_bson(), ReadEventFrame(namespace, at)
        try:
            for found in reader.read(wanted.wanted, at):
                events = [frame.event(identifier, document) for document in found]
                yield [BlockRow(raw, at, token.data) for raw in events if self._is_shown(raw)]
        except CommandError as error:
            raise _explained(error, namespace) from None
        # A server looks for the collection that has the name now, whatever the time of the snapshot.
        if (reader.uuid_of(namespace) or b"").hex() != wanted.uuid:
            raise CommandError(
                ErrorCode.NamespaceNotFound,
                f"{namespace} was dropped or renamed during its snapshot; begin again with a new checkpoint",
            )

    def _is_shown(self, raw: bytes) -> bool:
        return not self._filters or all(matches(bsondocs.decode(raw)) for matches in self._filters)


def _explained(error: CommandError, namespace: str) -> CommandError:
    if lacks_snapshots(error):
        return snapshots_missing(error, namespace)
    if error.code in (ErrorCode.SnapshotTooOld, ErrorCode.SnapshotUnavailable):
        return CommandError(
            error.code,
            f"the server does not have the snapshot of {namespace} any more that the query began to read; "
            "begin again with a new checkpoint, smaller batches (maxEntriesPerTrigger), or a longer "
            "minSnapshotHistoryWindowInSeconds of the server",
        )
    return error
