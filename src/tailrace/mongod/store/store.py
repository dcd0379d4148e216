"""The store: documents, catalog, oplog and images of one replica set, in one LMDB environment.

Reads use snapshots, in any thread; writes are jobs of one writer (`writer.py`). Attached to an event loop,
the store calls its listeners and then resumes the waiting coroutines in the loop's thread after each commit:
when a write returns, every listener has its entries already.
"""

import asyncio
import threading
import uuid as uuids
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any, Final, TypeVar

import lmdb
from bson import ObjectId

from tailrace.bson import documents
from tailrace.errors import BsonError, UsageError
from tailrace.events.entry_bytes import Operation
from tailrace.events.oplog_entry import FIRST_MESSAGE
from tailrace.events.promise import Promise, promise
from tailrace.events.stages.lookups import Lookups
from tailrace.mongod.store.catalog import (
    IMAGES_NS,
    OPLOG_NS,
    PRE_IMAGES_NS,
    SESSIONS_NS,
    TEMPORARY_OUTPUT,
    Catalog,
    Collection,
)
from tailrace.mongod.store.catalog_rules import NEWEST_RULES
from tailrace.mongod.store.clock import ClusterClock, WallClock
from tailrace.mongod.store.ddl.drop import drop_collection
from tailrace.mongod.store.files.stored_catalog import load_catalog
from tailrace.mongod.store.indexes.collated_ids import collate_ids
from tailrace.mongod.store.indexes.collation_keys import check_collation_versions
from tailrace.mongod.store.indexes.index_build import discard_builds
from tailrace.mongod.store.job_pace import UNPACED, JobShare, JobTakesLong, WritePace, seconds_to_compute
from tailrace.mongod.store.lookups import store_lookups
from tailrace.mongod.store.operation_group import MAX_GROUP
from tailrace.mongod.store.oplog_truncation import truncate_before, truncate_to_size
from tailrace.mongod.store.past.window import PastWindow
from tailrace.mongod.store.reader import Snapshot, TableReader
from tailrace.mongod.store.table_writer import OPLOG_IDENT, PRE_IMAGES_IDENT, WriteState
from tailrace.mongod.store.tables import (
    DEFAULT_MAP_SIZE,
    FORMAT,
    TIME,
    Tables,
    Transaction,
    damaged,
    pack_time,
)
from tailrace.mongod.store.transactions.locks import Blocked, LockTable
from tailrace.mongod.store.transactions.prepared import PreparedTransactions
from tailrace.mongod.store.transactions.write_lock import WriteLock
from tailrace.mongod.store.write_unit import WriteUnit
from tailrace.mongod.store.writer import Commit, Job, Writer

T = TypeVar("T")

DEFAULT_OPLOG_SIZE: Final = 256 << 20
_NO_TERM: Final = -1
"""The term before the first election"""
_MOST_REMOVED: Final = 5000
_KEPT_CATALOGS: Final = 16
"""Catalogs of the newest commits: some may finish between the start of a snapshot and its catalog look-up"""
_OWN_COLLECTIONS: Final = (
    (OPLOG_NS, "oplog", OPLOG_IDENT),
    (PRE_IMAGES_NS, "preimages", PRE_IMAGES_IDENT),
    (SESSIONS_NS, "sessions", 3),
    (IMAGES_NS, "images", 4),
)


class Store:
    """An open data directory.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store.open(Path(folder))
    ...     created = store.write_now(lambda unit: unit.create_collection("shop", "orders"))
    ...     print(created.ns, [c.ns for c in store.catalog.collections("shop")])
    ...     store.close()
    shop.orders ['shop.orders']
    """

    def __init__(self, tables: Tables, clock: ClusterClock, oplog_size: int) -> None:
        self.tables = tables
        self.locks = LockTable()
        self.oplog_size = oplog_size
        self.on_commit: list[Callable[[Commit], None]] = []
        """Called in the event loop's thread for every commit, before its writes return"""
        self.on_settled: list[Callable[[], None]] = []
        """Called there whenever `promised` may have advanced: also when jobs have changed nothing"""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._next_keys: dict[int, int] = {}
        self.prepared = PreparedTransactions()
        self.held_through: int | None = None
        """Cluster time before which entries may be removed, because the history holds them; None: no limit"""
        self.logs_batches = True
        """Whether the inserts or deletes of a statement share oplog entries, as since MongoDB 8.0"""
        self.most_inserts = MAX_GROUP
        """How many inserts can share an oplog entry"""
        self.rules = NEWEST_RULES
        """How the presented release changes the catalog"""
        transaction = tables.begin()
        with Snapshot(tables, transaction, Catalog()) as reader:
            self._check_format(reader)
            catalog = load_catalog(reader, tables, transaction)
            check_collation_versions(catalog)
            last = reader.newest_time()
            self.has_garbage = transaction.stat(tables.garbage)["entries"] > 0
            term = reader.meta("term")
            truncated = reader.truncated_through()
            self.set_id = documents.decode(reader.meta("replicaSet") or documents.encode({"id": ObjectId()}))[
                "id"
            ]
            self._catalogs = [(transaction.id(), catalog)]
            self.past = PastWindow(reader, last, tables.map_size)
        with Snapshot(tables, tables.begin(), catalog) as reader:
            self.prepared.restore(self, reader, self._next_keys)
        self.term = 0 if term is None else int(TIME.unpack(term)[0])
        self.catalog = catalog
        self.last_committed = last
        self.truncated_through = truncated
        """Cluster time of the newest entry that was removed from the oplog"""
        clock.continue_after(last)
        self.clock = clock
        self._promised = promise(last)
        self._writer = Writer(self, self._published)
        self.write_lock = WriteLock(lambda: self.write(lambda _unit: None))
        """The lock that `fsync` takes; jobs of commands wait for it."""

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        wall: WallClock | None = None,
        clock: ClusterClock | None = None,
        oplog_size: int = DEFAULT_OPLOG_SIZE,
        map_size: int = DEFAULT_MAP_SIZE,
        held_through: int | None = None,
    ) -> "Store":
        """Open or create a data directory; raises `UsageError` if it cannot be used.

        Stores that share a ``clock`` write oplogs in one common order. Pass 0 for ``held_through`` where a
        history is built: opening writes already, and no entry may be removed before the history holds it.
        """
        tables = Tables(path, map_size=map_size)
        try:
            store = cls(tables, clock or ClusterClock(wall or WallClock()), oplog_size)
        except (lmdb.Error, BsonError) as error:
            tables.close()
            raise damaged(path, error) from None
        except BaseException:
            tables.close()
            raise
        store.held_through = held_through
        try:
            store.write_now(store._start_term)
        except UsageError:
            store.close()
            raise
        return store

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Deliver commits and results in the thread of this loop from now on."""
        self._loop = loop

    def close(self) -> None:
        """Finish the queued writes and close the files."""
        self._writer.stop()
        self.tables.close()

    # -- reading and writing ----------------------------------------------------------------------------

    def is_writing(self) -> bool:
        """Whether jobs are queued or running in the writer's thread."""
        return self._writer.is_busy

    def snapshot(self) -> Snapshot:
        """The newest committed state; the caller closes it."""
        transaction = self.tables.begin()
        version = transaction.id()
        # A changed catalog is noted before its commit: the right one is the newest not after the snapshot.
        catalog = next(c for number, c in reversed(self._catalogs) if number <= version)
        return Snapshot(self.tables, transaction, catalog)

    def snapshot_at(self, time: int) -> Snapshot:
        """The state at a cluster time, if it is not after the newest commit, else the newest; to be closed.

        Reading it raises SnapshotTooOld (239) if the time is before the window, and SnapshotUnavailable (246)
        for a collection that was created since.
        """
        return self.past.open(self.snapshot(), time)

    def for_reader(self) -> "Store":
        """See `SnapshotSource`; in one store no document moves."""
        return self

    @property
    def oldest(self) -> int:
        """The cluster time of the oldest entry in the oplog; 0 if it is empty."""
        with self.snapshot() as snapshot:
            found = snapshot.oldest_entry()
        return 0 if found is None else found[0]

    @property
    def oplog_bytes(self) -> int:
        """The size of all oplog entries."""
        with self.snapshot() as snapshot:
            return snapshot.count_of(OPLOG_IDENT)[1]

    @property
    def lookups(self) -> Lookups:
        """Look-ups of the stages, in the newest state."""
        return store_lookups(self.snapshot)

    def hold_transaction(self, began: int, committed: int) -> None:
        """Remove no entry of a prepared transaction before a history holds its commit."""
        self.prepared.note_ended(began, committed)

    @property
    def promised(self) -> Promise:
        """A cluster time: every entry that listeners have not received yet is later.

        It advances with the clock even while nothing is written here, so that a merge of several stores never
        waits for an idle one. Call it in the thread that delivers commits.
        """
        # The order matters: a commit that begins after `now` was read takes later times.
        now = self.clock.now
        pending = self._writer.pending_since
        self._promised = max(self._promised, promise(now if pending is None else pending))
        return self._promised

    async def write(
        self,
        work: Callable[[WriteUnit], T],
        *,
        deadline: float | None = None,
        waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
        pace: WritePace = UNPACED,
    ) -> T:
        """Run a job; when this returns, its changes are on disk.

        A job that meets the lock of an open transaction runs again when the transaction has ended;
        ``deadline``, in the event loop's time, limits that wait. ``waiting`` is entered for the time of the
        wait: nothing of the job exists then, so it may be cancelled. ``pace`` bounds what it computes.
        """
        seconds = None if pace.rehearse is None else seconds_to_compute(0)
        rehearsals = 0
        if self.write_lock.count:
            with waiting():
                await self.write_lock.wait()
        if pace.begins_rehearsed and pace.rehearse is not None:
            with pace.computing():
                pace.rehearse()
        with ExitStack() as wants:
            while True:
                loop = asyncio.get_running_loop()
                future: asyncio.Future[T] = loop.create_future()

                def done(
                    result: Any, error: BaseException | None, future: "asyncio.Future[T]" = future
                ) -> None:
                    if future.cancelled():
                        return
                    if error is None:
                        future.set_result(result)
                    else:
                        future.set_exception(error)

                self._writer.submit(Job(work, done, pace.check, seconds, pace.is_long))
                takes_long = False
                try:
                    return await future
                except Blocked as blocked:
                    if blocked.collection is not None:
                        wants.enter_context(self.locks.wanting(blocked.collection))
                    with waiting():
                        await blocked.holder.wait_ended(deadline)
                except JobTakesLong:
                    takes_long = True
                finally:
                    # An error refers to this frame by its traceback, so this must not refer to the error.
                    del future, done
                if takes_long:
                    assert pace.rehearse is not None, "only a job that can be rehearsed has a limit"
                    with pace.computing():
                        is_complete = pace.rehearse()
                    rehearsals += 1
                    seconds = seconds_to_compute(rehearsals) if is_complete else None

    def submit(self, work: Callable[[WriteUnit], None], then: Callable[[], None]) -> None:
        """Queue a job that cannot fail and that nobody waits for; ``then`` is called after it."""
        self._writer.submit(Job(work, lambda _result, _error: then()))

    def write_now(self, work: Callable[[WriteUnit], T]) -> T:
        """Run a job and wait for it in this thread; for start-up and for tools, never in the event loop."""
        finished = threading.Event()
        outcome: list[Any] = []

        def done(result: Any, error: BaseException | None) -> None:
            outcome.extend((result, error))
            finished.set()

        self._writer.submit(Job(work, done))
        finished.wait()
        result, error = outcome
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]

    # -- the writer's side ------------------------------------------------------------------------------

    def begin_write(self, transaction: Transaction, share: JobShare) -> WriteState:
        """The state shared by the units of one LMDB transaction."""
        catalog = self._catalogs[-1][1]
        return WriteState(
            self.tables,
            transaction,
            catalog,
            self.clock,
            self.term,
            self.locks,
            self._next_keys,
            share,
            has_garbage=self.has_garbage,
            logs_batches=self.logs_batches,
            most_inserts=self.most_inserts,
            rules=self.rules,
        )

    def clean_up(self, state: WriteState) -> None:
        """Remove the oldest entries of a full oplog, and some records of dropped collections."""
        truncate_to_size(WriteUnit(state), self.oplog_size, self.prepared.oldest_needed(self.held_through))
        if state.has_garbage:
            self._remove_garbage(state)
        self.past.trim(state)

    def commit(self, transaction: Transaction, state: WriteState) -> None:
        """Commit, and publish what the units have changed outside the tables."""
        before = self._catalogs
        if state.catalog is not before[-1][1]:
            # Noted first: a snapshot may see the new state before this thread continues.
            self._catalogs = [*before[1 - _KEPT_CATALOGS :], (transaction.id(), state.catalog)]
        try:
            transaction.commit()
        except BaseException:
            # Nothing of it is on disk, so its catalog must not be used.
            self._catalogs = before
            raise
        self.term = state.term
        self.has_garbage = state.has_garbage

    def _remove_garbage(self, state: WriteState) -> None:
        left = _MOST_REMOVED
        with state.transaction.cursor(db=self.tables.garbage) as garbage:
            found = garbage.first()
            while found and left > 0:
                item = garbage.key()
                table = (self.tables.records, self.tables.index)[item[0]]
                with state.transaction.cursor(db=table) as cursor:
                    more = cursor.set_range(item[1:])
                    while more and left > 0 and cursor.key().startswith(item[1:]):
                        more = cursor.delete()
                        left -= 1
                    if left > 0:
                        # After deleting the last record LMDB reports success with an empty key.
                        found = garbage.delete() and garbage.key() != b""
        state.changes += 1
        state.has_garbage = state.transaction.stat(self.tables.garbage)["entries"] > 0

    def truncate_oplog(self, before: int) -> Callable[[WriteUnit], None]:
        """A job that removes the entries before a cluster time, for tests and tools."""
        return lambda unit: truncate_before(unit, before, self.prepared.oldest_needed(self.held_through))

    def _published(self, commit: Commit | None, jobs: list[Job]) -> None:
        loop = self._loop
        if loop is None:
            self._deliver(commit, jobs)
            return
        try:
            loop.call_soon_threadsafe(self._deliver, commit, jobs)
        except RuntimeError:
            # The loop is closed: the server ended while these were written, and no caller waits.
            self._loop = None

    def _deliver(self, commit: Commit | None, jobs: list[Job]) -> None:
        if commit is not None:
            self.catalog = commit.catalog
            self.truncated_through = max(self.truncated_through, commit.truncated_through)
            if commit.entries:
                self.last_committed = commit.entries[-1][0]
            for listener in self.on_commit:
                listener(commit)
        self._writer.settle()
        for notice in self.on_settled:
            notice()
        for job in jobs:
            job.done(job.result, job.error)

    # -- the beginning ----------------------------------------------------------------------------------

    @staticmethod
    def _check_format(reader: TableReader) -> None:
        found = reader.meta("format")
        if found is not None and TIME.unpack(found)[0] != FORMAT:
            raise UsageError(
                f"the data directory has format {TIME.unpack(found)[0]}, this version reads format {FORMAT}; "
                "use the version that wrote it, or another directory"
            )

    def _start_term(self, unit: WriteUnit) -> None:
        """Begin a new term with its entry, as a member does that has won an election."""
        first = unit.meta("format") is None
        if first:
            unit.put_meta("format", pack_time(FORMAT))
            unit.put_meta("replicaSet", documents.encode({"id": self.set_id}))
            for ns, table, ident in _OWN_COLLECTIONS:
                database, _, name = ns.partition(".")
                unit.put_collection(Collection(database, name, uuids.uuid4().bytes, ident, {}, (), table))
            unit.state.term = _NO_TERM
            unit.log(no_op({"msg": FIRST_MESSAGE}))
        collate_ids(unit, is_new=first)
        self.begin_term(unit)
        discard_builds(unit)
        for collection in list(unit.catalog.collections()):
            if collection.name.startswith(TEMPORARY_OUTPUT):
                drop_collection(unit, collection)

    def begin_term(self, unit: WriteUnit) -> None:
        """Become primary in a new term; part of a job."""
        term = unit.state.term = max(self.term, unit.state.term) + 1
        unit.put_meta("term", pack_time(term))
        unit.log(no_op({"msg": "new primary"}))


def no_op(message: dict[str, Any]) -> Operation:
    return Operation("n", "", documents.encode(message))
