"""An open multi-document transaction: a snapshot, and its own changes on top of it.

It reads the state as of its first statement, with its own changes. What it changes is locked until it ends,
and stays in memory until it commits. Statements that write run as jobs of the writer, although they write
nothing: only there are the newest documents and the locks of other transactions visible. A document that is
locked or has changed since the snapshot is a write conflict, which ends the transaction; it never waits, so
transactions cannot block each other.

Reading a collection does not lock it: the snapshot does not change.
"""

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Final, TypeVar

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.entry_bytes import Operation
from tailrace.mongod.store.catalog import ID_INDEX, Catalog, Collection
from tailrace.mongod.store.catalog_rules import CatalogRules
from tailrace.mongod.store.clock import ClusterClock
from tailrace.mongod.store.indexes.duplicate_key import duplicate_key
from tailrace.mongod.store.indexes.index_keys import all_index_keys, unique_keys
from tailrace.mongod.store.job_pace import UNPACED, WritePace
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.tables import pack_time
from tailrace.mongod.store.transactions.locks import wait_until
from tailrace.mongod.store.transactions.overlaid_reader import OverlaidReader
from tailrace.mongod.store.transactions.overlay import Overlay
from tailrace.mongod.store.transactions.prepared import Prepared, prepare_changes
from tailrace.mongod.store.transactions.sessions import SessionWrites, session_key
from tailrace.mongod.store.transactions.transaction_locks import TransactionLocks
from tailrace.mongod.store.transactions.transaction_log import Change, Effects, commit_changes
from tailrace.mongod.store.unit_of_work import UnitOfWork
from tailrace.mongod.store.write_unit import WriteUnit

T = TypeVar("T")

_HIGHEST_IDENT: Final = 2**32 - 1
_REFUSED_DATABASES: Final = ("config", "local")


class TransactionUnit(OverlaidReader, UnitOfWork):
    """One open transaction. One statement uses it at a time, in the event loop or in the writer's thread."""

    in_transaction = True

    def __init__(self, store: Store, time: int | None = None) -> None:
        """``time`` is the cluster time of the state to read; without it, the newest is read."""
        snapshot = store.snapshot() if time is None else store.snapshot_at(time)
        super().__init__(snapshot)
        self._pinned = snapshot
        self._store = store
        self._locks = TransactionLocks(self, snapshot)
        self._changes: list[Change] = []
        self.read_time = snapshot.newest_time()
        """The cluster time of the state it reads"""
        self._kept: tuple[int, Catalog] = (0, self._catalog)
        # New collections and indexes get temporary numbers; the real ones are assigned at the commit.
        self._idents = itertools.count(_HIGHEST_IDENT, -1)
        self._has_locks = False
        self._ending: asyncio.Task[None] | None = None
        self.prepared: Prepared | None = None
        """What replaces it once it is prepared"""
        self._ended = asyncio.Event()
        self.is_over = False
        """Whether it has ended and can no longer be read"""
        self.wall = store.clock.wall.milliseconds()

    # -- life -------------------------------------------------------------------------------------------

    async def write(self, work: Callable[[UnitOfWork], T], pace: WritePace = UNPACED) -> T:
        """Run a statement that writes.

        ``work`` gets this unit; it may be undone and run again when another job of the same commit fails.
        Raises WriteConflict (112) or LockTimeout (24), even if ``work`` caught it as the error of a single
        statement.
        """
        for overlay in self._overlays.values():
            overlay.checkpoint()
        self._kept = (len(self._changes), self._catalog)
        self._has_locks = True

        def job(writer: WriteUnit) -> T:
            self._undo()
            self.wall = writer.wall
            with self._locks.against(writer):
                return work(self)

        def rehearse() -> bool:
            self._undo()
            return pace.rehearse is None or pace.rehearse()

        own = replace(pace, rehearse=None if pace.rehearse is None else rehearse)
        result = await self._store.write(job, pace=own)
        if self._locks.failure is not None:
            raise self._locks.failure
        return result

    def _undo(self) -> None:
        number, self._catalog = self._kept
        del self._changes[number:]
        self._locks.undo(self._catalog)
        for ident, overlay in list(self._overlays.items()):
            overlay.undo()
            if self._catalog.by_uuid(overlay.collection.uuid) is None:
                del self._overlays[ident]

    async def commit(self, lsid: bytes, txn_number: int) -> None:
        """Make the changes visible and durable, all at once; nothing is written if there are none.

        A queued commit cannot be cancelled: it continues if this call is cancelled, and calling again waits
        for the same result.
        """
        await self._end_by(lambda: self._run_commit(lsid, txn_number))

    async def prepare(self, lsid: bytes, txn_number: int) -> Prepared:
        """Log the changes and keep their locks, to be committed or aborted later.

        The returned object replaces this unit, which has ended. Like a commit it cannot be cancelled.
        """
        await self._end_by(lambda: self._run_prepare(lsid, txn_number))
        if self.prepared is None:
            raise RuntimeError("a transaction was prepared that had ended")
        return self.prepared

    async def _end_by(self, end: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(end())
            self._ending.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._ending)

    async def _run_commit(self, lsid: bytes, txn_number: int) -> None:
        if not self._changes:
            self.abort()
            return
        effects = self._effects()

        def job(writer: WriteUnit) -> None:
            # The commit must not meet its own locks; no other job runs in between in this thread.
            writer.locks.release(self)
            commit_changes(writer, self._changes, effects, SessionWrites(lsid, txn_number))

        try:
            await self._store.write(job)
        except BaseException:
            self.abort()
            raise
        self.is_over = True
        self._pinned.close()
        self._ended.set()

    async def _run_prepare(self, lsid: bytes, txn_number: int) -> None:
        effects = self._effects()

        def job(writer: WriteUnit) -> Prepared:
            session = SessionWrites(lsid, txn_number)
            prepared = prepare_changes(self._store, writer, self._changes, effects, session)
            # The writer may run this job again, so the locks are handed over after it has committed.
            locked, used = writer.locks.held(self)
            writer.put_prepared(session_key(lsid), prepared.to_bson(locked, used))
            self._store.prepared.add(prepared)
            return prepared

        self._has_locks = True
        try:
            prepared = self.prepared = await self._store.write(job)
        except BaseException:
            self._store.prepared.remove(lsid)
            self.abort()
            raise
        # Writes that wait for this unit are woken after that, and then wait for the prepared transaction.
        self._store.submit(lambda writer: writer.locks.hand_over(self, prepared), self._ended.set)
        self.is_over = True
        self._pinned.close()

    def _effects(self) -> Effects:
        created = [c for c in map(self._catalog.by_uuid, self._locks.created) if c is not None]
        return Effects.of(created, self._overlays.values())

    @property
    def has_changes(self) -> bool:
        """Whether a commit would write anything."""
        return bool(self._changes)

    def abort(self) -> None:
        """Discard all changes and release the locks. Does nothing if the transaction has ended."""
        if self.is_over:
            return
        self.is_over = True
        if self._has_locks:
            # A cancelled statement may still run in the writer's thread; it finishes before this job.
            self._store.submit(lambda writer: writer.locks.release(self), self._pinned.close)
        else:
            self._pinned.close()
        self._ended.set()

    async def wait_ended(self, deadline: float | None) -> None:
        await wait_until(self._ended, deadline)

    @property
    def rules(self) -> CatalogRules:
        return self._store.rules

    @property
    def clock(self) -> ClusterClock:
        return self._store.clock

    # -- documents --------------------------------------------------------------------------------------

    def insert(self, collection: Collection, document: bytes, *, stmt_id: int | None = None) -> bytes:
        """Store a document that has its `_id`; returns its record key.

        Raises DuplicateKey (11000) for a key in the snapshot, WriteConflict (112) for one added since.
        """
        overlay = self._opened(collection)
        by_id = collection.id_key(document)
        if by_id is None:
            raise CommandError(ErrorCode.BadValue, f"a document of {collection.ns} has no _id")
        if collection.is_clustered:
            self._locks.lock_record(overlay, by_id)
            if self.record(collection, by_id) is not None:
                raise duplicate_key(collection, ID_INDEX, document)
        self._locks.lock_new_keys(overlay, unique_keys(collection.indexes, document), document)
        key = by_id if collection.is_clustered else self._new_record_key(overlay)
        overlay.put(key, None, document)
        self._change("i", collection, document, collection.document_key(document), stmt_id=stmt_id)
        return key

    def update(
        self,
        collection: Collection,
        key: bytes,
        before: bytes,
        after: bytes,
        o: bytes,
        *,
        stmt_id: int | None = None,
        retry_image: str | None = None,
    ) -> None:
        overlay = self._opened(collection)
        self._locks.lock_record(overlay, key)
        for index in collection.indexes:
            if not index.allows_duplicates and not index.is_id:
                old, new = all_index_keys(index, before), all_index_keys(index, after)
                self._locks.lock_new_keys(overlay, [(index, k) for k in new if k not in old], after)
                self._locks.lock_keys(collection, [(index, k) for k in old if k not in new])
        overlay.put(key, before, after)
        image = before if retry_image == "preImage" else after
        key_document = collection.document_key(before)
        self._change(
            "u", collection, o, key_document, before, stmt_id=stmt_id, retry_image=retry_image, image=image
        )

    def delete(
        self,
        collection: Collection,
        key: bytes,
        before: bytes,
        *,
        stmt_id: int | None = None,
        retry_image: str | None = None,
        grouped: bool = False,  # noqa: ARG002 - all of a transaction's operations share entries
    ) -> None:
        overlay = self._opened(collection)
        self._locks.lock_record(overlay, key)
        self._locks.lock_keys(collection, unique_keys(collection.indexes, before))
        overlay.put(key, before, None)
        key_document = collection.document_key(before)
        self._change(
            "d",
            collection,
            key_document,
            None,
            before,
            stmt_id=stmt_id,
            retry_image=retry_image,
            image=before,
        )

    def _change(
        self,
        op: str,
        collection: Collection,
        o: bytes,
        o2: bytes | None,
        before: bytes | None = None,
        *,
        stmt_id: int | None = None,
        retry_image: str | None = None,
        image: bytes | None = None,
    ) -> None:
        """Add an operation; ``stmt_id`` is set if a router runs a retryable write as a transaction."""
        operation = Operation(
            op,
            collection.ns,
            o,
            collection.uuid,
            o2,
            needs_retry_image=retry_image,
            statement_ids=() if stmt_id is None else (stmt_id,),
        )
        pre_image = before if collection.records_images else None
        self._changes.append(Change(operation, pre_image, image if retry_image is not None else None))

    def _opened(self, collection: Collection) -> Overlay:
        """The overlay of a collection; the first call locks the collection's use."""
        overlay = self._overlays.get(collection.ident)
        if overlay is None:
            _check_writable(collection)
            self._locks.use_collection(collection)
            overlay = self._overlays[collection.ident] = Overlay(collection)
        return overlay

    def _new_record_key(self, overlay: Overlay) -> bytes:
        if overlay.collection.uuid not in self._locks.created:
            return self._locks.current.new_record_key(overlay.collection)
        last = overlay.records.next_key(None, reverse=True)
        return pack_time(1 if last is None else int.from_bytes(last, "big") + 1)

    # -- the catalog ------------------------------------------------------------------------------------

    def new_ident(self) -> int:
        """A temporary number for a collection or an index that the transaction creates."""
        return next(self._idents)

    def put_collection(self, collection: Collection) -> None:
        """Add a new collection, or an index to an empty collection that the transaction has created."""
        known = self._catalog.by_uuid(collection.uuid)
        if known is None:
            if collection.is_timeseries:
                raise _not_supported(
                    f"Cannot create a time-series collection in a multi-document transaction: {collection.ns}"
                )
            self._locks.lock_name(collection)
        elif collection.uuid not in self._locks.created:
            raise _not_supported(
                f"Cannot create new indexes on existing collection {collection.ns} "
                "in a multi-document transaction"
            )
        elif self.count(known)[0]:
            raise _not_supported(
                f"Cannot create new indexes on non-empty collection {collection.ns} "
                "in a multi-document transaction"
            )
        else:
            self._overlays.pop(known.ident, None)
        self._catalog = self._catalog.with_collection(collection)

    def log(self, operation: Operation) -> None:
        self._changes.append(Change(operation, None))


def _check_writable(collection: Collection) -> None:
    """Refuse (263) a collection that transactions cannot write to."""
    if collection.database in _REFUSED_DATABASES or collection.is_internal:
        raise _not_supported(f"Cannot write to {collection.ns} in a multi-document transaction")
    if collection.name.startswith("system."):
        raise _not_supported(f"Cannot write to the system collection {collection.ns} in a transaction")
    if collection.is_capped:
        raise _not_supported(
            f"Collection '{collection.ns}' is a capped collection. Writes in transactions are "
            "not allowed on capped collections."
        )
    if collection.is_timeseries:
        raise _not_supported(
            f"Cannot write to the time-series collection {collection.ns} in a multi-document transaction"
        )


def _not_supported(reason: str) -> CommandError:
    return CommandError(ErrorCode.OperationNotSupportedInTransaction, reason)
