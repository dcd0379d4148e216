"""Prepared transactions: logged and durable, but not visible until they are committed.

A transaction over several shards is prepared on each of them first; then all commit, or all abort. Once
prepared, only that decision ends it: not a time limit, the end of its session, or the end of the process. So
everything that a commit needs is stored in the same LMDB transaction as the prepare entry: the changes, the
images and the locks. A store that is opened reads these records and takes the locks again.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from bson import Int64

from tailrace.bson import documents
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import from_timestamp, to_timestamp
from tailrace.events.commit_entry import COMMIT, COMMIT_TIMESTAMP
from tailrace.events.entry_bytes import command
from tailrace.events.oplog_entry import OpTime
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.reader import TableReader
from tailrace.mongod.store.tables import TIME
from tailrace.mongod.store.transactions.locks import wait_until
from tailrace.mongod.store.transactions.sessions import (
    ABORTED,
    COMMITTED,
    PREPARED,
    SessionWrites,
    session_key,
)
from tailrace.mongod.store.transactions.transaction_log import (
    TRANSIENT,
    Change,
    Effects,
    Images,
    PreImage,
    RetryImage,
    log_changes,
)
from tailrace.mongod.store.write_unit import WriteUnit

if TYPE_CHECKING:
    from tailrace.mongod.store.store import Store


class Prepared:
    """One prepared transaction. It holds the locks of the original transaction until it has ended."""

    def __init__(
        self,
        store: "Store",
        session: SessionWrites,
        effects: Effects,
        images: Images,
        namespaces: Sequence[str],
        wall: int,
    ) -> None:
        self._store = store
        self.lsid = session.lsid
        self.txn_number = session.txn_number
        self.time = session.last
        """The time of the prepare entry"""
        self.first = session.start or session.last
        """The time of its first entry: the oplog keeps all entries from there on"""
        self.namespaces = namespaces
        """The namespaces it has changed, sorted"""
        self.state = PREPARED
        self._effects = effects
        self._images = images
        self._wall = wall
        self._lock = asyncio.Lock()
        self._ending: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()

    # -- its end ----------------------------------------------------------------------------------------

    async def commit(self, commit_time: int) -> None:
        """Make the changes visible; ``commit_time`` is the same on all shards.

        Does nothing if it is committed already. If the commit cannot be written, it stays prepared.
        """

        def job(writer: WriteUnit) -> None:
            # The entry's own time must be after the common one, on whichever shard that was taken.
            writer.clock.advance_to(commit_time)
            self._effects.apply(writer)
            writer.undo.all_at(commit_time)
            self._images.put(writer, SessionWrites(self.lsid, self.txn_number), self._wall)
            self._log_end(writer, COMMITTED, {COMMIT: 1, COMMIT_TIMESTAMP: to_timestamp(commit_time)})

        await self._end_as(COMMITTED, job)

    async def abort(self) -> None:
        """Discard the changes; does nothing if it is aborted already."""
        await self._end_as(ABORTED, lambda writer: self._log_end(writer, ABORTED, {"abortTransaction": 1}))

    async def wait_ended(self, deadline: float | None) -> None:
        await wait_until(self._ended, deadline)

    async def _end_as(self, state: str, job: Callable[[WriteUnit], None]) -> None:
        async with self._lock:
            if self.state == PREPARED:
                # A queued end is carried out even if the caller is cancelled.
                self._ending = asyncio.get_running_loop().create_task(self._write_end(state, job))
                await asyncio.shield(self._ending)
            if self.state != state:
                raise self._is_over()

    async def _write_end(self, state: str, job: Callable[[WriteUnit], None]) -> None:
        def on_behalf(writer: WriteUnit) -> None:
            writer.on_behalf_of = self
            job(writer)

        await self._store.write(on_behalf)
        self.state = state
        self._store.prepared.remove(self.lsid, ended=self._store.last_committed)
        # After the commit: the locks must remain if it fails.
        self._store.submit(lambda writer: writer.locks.release(self), self._ended.set)

    def _is_over(self) -> CommandError:
        if self.state == COMMITTED:
            return CommandError(
                ErrorCode.TransactionCommitted, f"Transaction {self.txn_number} has been committed."
            )
        reason = f"Transaction {self.txn_number} has been aborted."
        return CommandError(ErrorCode.NoSuchTransaction, reason, [TRANSIENT])

    def _log_end(self, writer: WriteUnit, state: str, o: dict[str, Any]) -> None:
        session = SessionWrites(self.lsid, self.txn_number, self.time, state)
        writer.log(command("admin", o), session=session)
        writer.put_session(session)
        writer.put_prepared(session_key(self.lsid), None)

    # -- on disk ----------------------------------------------------------------------------------------

    def to_bson(self, locked: Sequence[bytes], used: Sequence[bytes]) -> bytes:
        """The record from which it can be committed or aborted after a restart."""
        retry = self._images.retry
        return documents.encode(
            {
                "lsid": documents.decode(self.lsid),
                "txnNumber": Int64(self.txn_number),
                "prepare": {"ts": to_timestamp(self.time.ts), "t": Int64(self.time.term)},
                "first": {"ts": to_timestamp(self.first.ts), "t": Int64(self.first.term)},
                "namespaces": list(self.namespaces),
                "wall": Int64(self._wall),
                "created": [collection.to_bson() for collection in self._effects.created],
                "records": [
                    {"uuid": uuid, "key": key, "document": document}
                    for uuid, records in self._effects.records.items()
                    for key, document in records
                ],
                "images": [
                    {"uuid": i.uuid, "ts": to_timestamp(i.ts), "position": i.position, "document": i.document}
                    for i in self._images.before
                ],
                "retryImage": None if retry is None else {**retry._asdict(), "ts": to_timestamp(retry.ts)},
                "locked": list(locked),
                "used": list(used),
            }
        )

    @classmethod
    def from_bson(cls, store: "Store", raw: bytes) -> tuple["Prepared", Sequence[bytes], Sequence[bytes]]:
        """A transaction prepared before the store was opened, its locks, and the collections it uses."""
        found = documents.decode(raw)
        session = SessionWrites(
            documents.encode(found["lsid"]),
            int(found["txnNumber"]),
            OpTime(from_timestamp(found["prepare"]["ts"]), int(found["prepare"]["t"])),
            start=OpTime(from_timestamp(found["first"]["ts"]), int(found["first"]["t"])),
        )
        records: dict[bytes, list[tuple[bytes, bytes | None]]] = {}
        for record in found["records"]:
            records.setdefault(record["uuid"], []).append((record["key"], record["document"]))
        effects = Effects([Collection.from_bson(stored) for stored in found["created"]], records)
        before = [
            PreImage(image["uuid"], from_timestamp(image["ts"]), image["position"], image["document"])
            for image in found["images"]
        ]
        image = found["retryImage"]
        retry = image and RetryImage(from_timestamp(image["ts"]), image["kind"], image["document"])
        prepared = cls(
            store, session, effects, Images(before, retry), found["namespaces"], int(found["wall"])
        )
        return prepared, found["locked"], found["used"]

    def reserved_keys(self) -> Iterator[tuple[bytes, int]]:
        """The highest number among its record keys, by UUID of the collection; these keys are taken."""
        for uuid, records in self._effects.records.items():
            numbers = [int(TIME.unpack(key)[0]) for key, _ in records if len(key) == TIME.size]
            if numbers:
                yield uuid, max(numbers)


class PreparedTransactions:
    """The prepared transactions of a store."""

    def __init__(self) -> None:
        self._by_session: dict[bytes, Prepared] = {}
        self._ended: deque[tuple[int, int]] = deque()
        """Begin and end of ended transactions that the history may not hold yet, sorted by their ends"""

    def __iter__(self) -> Iterator[Prepared]:
        return iter(list(self._by_session.values()))

    def __len__(self) -> int:
        return len(self._by_session)

    def of_session(self, lsid: bytes) -> Prepared | None:
        """The prepared transaction of a session, which has one at most."""
        return self._by_session.get(session_key(lsid))

    def add(self, prepared: Prepared) -> None:
        self._by_session[session_key(prepared.lsid)] = prepared

    def remove(self, lsid: bytes, *, ended: int | None = None) -> None:
        """Remove that of a session; ``ended`` is the time of its end, None if it was never logged."""
        prepared = self._by_session.pop(session_key(lsid), None)
        if prepared is not None and ended is not None:
            self.note_ended(prepared.first.ts, ended)

    def note_ended(self, began: int, ended: int) -> None:
        """Note one that has ended: a reader of its end needs the entries from its beginning on."""
        self._ended.append((began, ended))

    def oldest_needed(self, held_through: int | None) -> int | None:
        """The cluster time from which on no oplog entry may be removed; None if any may."""
        needed = [prepared.first.ts for prepared in self]
        while self._ended and (held_through is None or self._ended[0][1] < held_through):
            self._ended.popleft()
        if held_through is not None:
            needed += [held_through, *(began for began, _ in list(self._ended))]
        return min(needed, default=None)

    def restore(self, store: "Store", reader: TableReader, next_keys: dict[int, int]) -> None:
        """Restore the transactions that were prepared before the store was opened, and their locks.

        No job has run yet, so this thread may use the lock table.
        """
        for raw in reader.prepared_records():
            prepared, locked, used = Prepared.from_bson(store, raw)
            for key in locked:
                store.locks.lock(key, prepared)
            for prefix in used:
                store.locks.use(prefix, prepared)
            for uuid, number in prepared.reserved_keys():
                collection = reader.catalog.by_uuid(uuid)
                if collection is not None and not collection.is_clustered:
                    last = next(reader.records(collection, reverse=True), None)
                    there = 0 if last is None else int(TIME.unpack(last[0])[0])
                    known = next_keys.get(collection.ident, 1)
                    next_keys[collection.ident] = max(known, there + 1, number + 1)
            self.add(prepared)


def prepare_changes(
    store: "Store", writer: WriteUnit, changes: Sequence[Change], effects: Effects, session: SessionWrites
) -> Prepared:
    """Log a transaction as prepared; part of a job.

    ``session`` is new. The caller stores the record and hands the locks over.
    """
    images = log_changes(writer, changes, session, prepares=True)
    session.state = PREPARED
    writer.put_session(session)
    namespaces = sorted({change.namespace for change in changes})
    return Prepared(store, session, effects, images, namespaces, writer.wall)
