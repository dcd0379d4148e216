"""Record snapshots of the collections that were there before a history began.

Each range of a collection is read as of one cluster time and stored with the history (`lake/past/base.py`).
What is stored already is not read again, so that a run that was interrupted continues.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from typing import Final

import pyarrow.compute as pc

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, UsageError
from tailrace.events.scope import Scope, check_kept
from tailrace.lake.past.base import BasePlan, BaseRange, Bases, add_plan, write_range
from tailrace.lake.schema import times_of
from tailrace.lake.table import HistoryTable
from tailrace.pipeline.streams.snapshot import RANGE_DOCUMENTS
from tailrace.sources.deployments.collections import CollectionFacts, CollectionReader
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.sources.deployments.document_range import DocumentRange, lacks_snapshots, snapshots_missing

_ATTEMPTS: Final = 3
_GONE: Final = frozenset({int(ErrorCode.SnapshotTooOld), int(ErrorCode.SnapshotUnavailable)})


@dataclass(frozen=True, slots=True)
class RecordedRange:
    """A range that was read and stored."""

    namespace: str
    number: int
    """From 1 on"""
    of: int
    """How many ranges the collection has"""
    documents: int
    cluster_time: int
    """Its documents are those of this time"""


def record_snapshot(
    source: str,
    history: str | PathLike[str],
    *,
    range_documents: int = RANGE_DOCUMENTS,
    progress: Callable[[RecordedRange], object] = lambda _: None,
) -> int:
    """Store snapshots of a replica set's collections with its history; return how many ranges were read.

    Collections whose creation the history has need none, and what is stored already is not read again. The
    source is written to as usual meanwhile: each range has its own cluster time, and `as_of` and rebuilt
    images apply the changes since then.
    """
    table = HistoryTable.open(history)
    with DeploymentSource(source) as deployment:
        if deployment.is_routed:
            raise UsageError("snapshots of a sharded cluster are not recorded; name a replica set")
        table.check_identity(deployment.identity())
        recorder = BaseRecorder(deployment.collections, table, range_documents=range_documents)
        count = 0
        for recorded in recorder.record():
            count += 1
            progress(recorded)
    return count


class BaseRecorder:
    """Reads through one client; what reads the history later finds what was recorded."""

    def __init__(
        self, reader: CollectionReader, table: HistoryTable, *, range_documents: int = RANGE_DOCUMENTS
    ) -> None:
        self._reader = reader
        self._table = table
        self._range_documents = range_documents
        self._created: dict[str, int] | None = None

    def record(self) -> Iterator[RecordedRange]:
        """Read and store what is missing; errors are those of the source and of the history's store."""
        is_all = False
        while not is_all:  # a collection may have been renamed
            is_all = yield from self._pass()

    def _pass(self) -> Generator[RecordedRange, None, bool]:
        """Go once through the collections; return whether they still had their names."""
        table = self._table
        table.refresh()
        bases = Bases(table.store, table.begins)
        known = {plan.uuid: plan for plan in bases.plans if self._is_kept(plan.namespace, plan.at)}
        is_all = True
        for facts in self._collections():
            assert facts.uuid is not None, "it was asked for"
            plan = known.get(facts.uuid) or self._planned(facts, facts.uuid)
            for number in bases.missing(plan):
                recorded = self._record(plan, facts.namespace, number)
                if recorded is None:
                    is_all = False
                    break
                yield recorded
        for name in bases.outdated:
            table.store.delete(name)
        return is_all

    def _collections(self) -> Iterator[CollectionFacts]:
        """Those whose changes are kept, and that may have been there before the history began."""
        kept, begins = self._table.kept.now, self._table.begins
        for database in self._reader.databases():
            for facts in self._reader.collections(database):
                # A capped collection can not be read as of a cluster time.
                if facts.why_not is not None or facts.uuid is None:
                    continue
                # An oplog from its beginning on has everything.
                has_all = not begins and self._is_kept(facts.namespace, begins)
                if not has_all and kept.keeps(*facts.namespace.split(".", 1)):
                    yield facts

    def _is_kept(self, namespace: str, since: int) -> bool:
        """Whether the history has all changes of a collection after a cluster time."""
        with suppress(CommandError):
            check_kept(Scope.parse_ns(namespace), self._table.kept, since + 1)
            return True
        return False

    def _planned(self, facts: CollectionFacts, uuid: bytes) -> BasePlan:
        namespace = facts.namespace
        created = self._creation_of(uuid)
        if created is not None and self._is_kept(namespace, created):
            plan = BasePlan(namespace, uuid, created, is_needed=False)
        else:
            at = self._reader.newest_time()
            starts = tuple(self._reader.starts(facts, self._range_documents))
            plan = BasePlan(namespace, uuid, at, starts, not facts.has_collation)
        add_plan(self._table.store, plan)
        return plan

    def _creation_of(self, uuid: bytes) -> int | None:
        """When a collection was created, if the history has it; one pass over the history finds all."""
        if self._created is None:
            self._created = {}
            for batch in self._table.read(self._table.begins, columns=("operation", "uuid")):
                creations = batch.filter(pc.fill_null(pc.equal(batch.column("operation"), "create"), False))
                for time, found in zip(
                    times_of(creations).tolist(), creations.column("uuid").to_pylist(), strict=True
                ):
                    self._created[str(found).replace("-", "")] = time
        return self._created.get(uuid.hex())

    def _record(self, plan: BasePlan, namespace: str, number: int) -> RecordedRange | None:
        """Read and store a range; None if the collection is not there any more."""
        lower, upper = plan.state.limits(number)
        wanted = DocumentRange(namespace, lower, upper, plan.by_index)
        for attempt in range(_ATTEMPTS):
            at = self._reader.newest_time()
            found = BaseRange(plan, number, at)
            try:
                count = write_range(self._table.store, found, self._documents(wanted, plan.uuid, at))
            except _OtherCollectionError:
                return None
            except CommandError as error:
                if lacks_snapshots(error):
                    raise snapshots_missing(error, namespace) from None
                if error.code not in _GONE or attempt + 1 == _ATTEMPTS:
                    raise
            else:
                return RecordedRange(namespace, number + 1, len(plan.state.bounds) + 1, count, at)
        return None

    def _documents(self, wanted: DocumentRange, uuid: bytes, at: int) -> Iterator[list[bytes]]:
        yield from self._reader.read(wanted, at)
        # A server looks for the collection that has the name now, whatever the time of the snapshot.
        if self._reader.uuid_of(wanted.namespace) != uuid:
            raise _OtherCollectionError


class _OtherCollectionError(Exception):
    """The collection was dropped or renamed."""
