"""Transactions on the store: reads, locks, commits and aborts."""

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import lmdb
import pytest
from bson import Int64, Timestamp

from tailrace.bson import documents
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.indexes.id_keys import id_key_of
from tailrace.mongod.store.reader import Reader, TableReader
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.transactions.sessions import NO_USER, SessionWrites, session_key
from tailrace.mongod.store.transactions.transaction import TransactionUnit
from tailrace.mongod.store.unit_of_work import UnitOfWork
from tailrace.mongod.store.write_unit import WriteUnit
from tests.mongod.store.opening import opened
from tests.support.oplog_writer import session_id

T = TypeVar("T")
LSID = session_id(bytes(range(16)), NO_USER)
UNIQUE = {"v": 2, "key": {"u": 1}, "name": "u_1", "unique": True}
TAGS = {"v": 2, "key": {"tags": 1}, "name": "tags_1"}


def run(path: Path, scenario: Callable[[Store], Awaitable[T]]) -> T:
    """Run a scenario on a store in an event loop, as the server does."""

    async def main() -> T:
        with opened(path) as store:
            store.attach(asyncio.get_running_loop())
            return await scenario(store)

    return asyncio.run(main())


def bson(**fields: Any) -> bytes:
    return documents.encode({"_id" if name == "id" else name: value for name, value in fields.items()})


async def make(store: Store, *specs: dict[str, Any], **options: Any) -> Collection:
    """A collection `shop.c` with these indexes."""

    def job(unit: WriteUnit) -> Collection:
        collection = unit.create_collection("shop", "c", options)
        for spec in specs:
            collection = unit.add_index(collection, spec)
        return collection

    return await store.write(job)


async def fill(store: Store, collection: Collection, *raw: bytes) -> list[bytes]:
    return await store.write(lambda unit: [unit.insert(collection, document) for document in raw])


async def tried(store: Store, work: Callable[[WriteUnit], T]) -> "asyncio.Task[T]":
    """Start a write; when this returns, it was tried once, and is done or waits."""
    task = asyncio.create_task(store.write(work))
    await asyncio.sleep(0)
    await store.write(lambda _: None)
    return task


def everything(reader: Reader, collection: Collection) -> list[Any]:
    """All documents of a collection, read in every way."""
    seen: list[Any] = [
        list(reader.records(collection)),
        list(reader.records(collection, reverse=True)),
        reader.count(collection),
    ]
    for key, document in seen[0]:
        by_id = id_key_of(document)
        assert by_id is not None
        seen.append((reader.record_key(collection, by_id), reader.record(collection, key)))
    for index in collection.indexes:
        for lower, upper in ((b"", b"\xff"), (b"\x2b\x08", b"\x2b\x20"), (b"\x3c", b"\x3c")):
            forward = list(reader.index_entries(collection, index, lower, upper))
            seen.append(forward)
            seen.append(list(reader.index_records(collection, index, lower, upper)))
            seen.append(list(reader.index_entries(collection, index, lower, upper, reverse=True)))
            for place, _ in forward[:3]:
                rest = reader.index_entries(collection, index, lower, upper, after=place)
                before = reader.index_entries(collection, index, lower, upper, after=place, reverse=True)
                seen.append((list(rest), list(before)))
    return seen


def ids(reader: Reader, collection: Collection) -> list[Any]:
    return [documents.decode(document)["_id"] for _, document in reader.records(collection)]


def code_of(error: pytest.ExceptionInfo[CommandError]) -> int:
    return error.value.code


class TestReading:
    @pytest.mark.parametrize("seed", range(12))
    def test_a_transaction_reads_the_state_that_its_commit_writes(self, tmp_path: Path, seed: int) -> None:
        rng = random.Random(seed)
        clustered = {"clusteredIndex": {"v": 2, "key": {"_id": 1}, "name": "_id_", "unique": True}}

        async def scenario(store: Store) -> None:
            collection = await make(store, UNIQUE, TAGS, **(clustered if seed % 3 == 0 else {}))
            base = [bson(id=n, u=n, tags=["a", n]) for n in range(20)]
            await fill(store, collection, *base)
            transaction = TransactionUnit(store)
            for _ in range(rng.randrange(1, 8)):
                await transaction.write(lambda unit: some_changes(unit, collection, rng))
                everything(transaction, collection)
            own = everything(transaction, collection)
            with store.snapshot() as snapshot:
                assert list(map(documents.encode, map(documents.decode, base))) == [
                    document for _, document in snapshot.records(collection)
                ]
            await transaction.commit(LSID, 1)
            with store.snapshot() as snapshot:
                assert everything(snapshot, collection) == own

        run(tmp_path, scenario)

    def test_a_scan_continues_after_changes(self, tmp_path: Path) -> None:
        async def scenario(store: Store) -> None:
            collection = await make(store)
            await fill(store, collection, *(bson(id=n) for n in range(6)))
            transaction = TransactionUnit(store)
            await transaction.write(lambda unit: unit.insert(collection, bson(id=6)))
            scan = transaction.records(collection)
            seen = [documents.decode(next(scan)[1])["_id"] for _ in range(3)]

            def change(unit: UnitOfWork) -> None:
                records = list(unit.records(collection))
                unit.delete(collection, *records[0])
                unit.delete(collection, *records[4])
                key, before = records[3]
                unit.update(collection, key, before, bson(id=3, x=1), bson(id=3, x=1))

            await transaction.write(change)
            rest = [documents.decode(document) for _, document in scan]
            assert seen == [0, 1, 2]
            assert rest == [{"_id": 3, "x": 1}, {"_id": 5}, {"_id": 6}]
            transaction.abort()

        run(tmp_path, scenario)

    def test_the_snapshot_does_not_change(self, tmp_path: Path) -> None:
        async def scenario(store: Store) -> None:
            collection = await make(store)
            await fill(store, collection, bson(id=1))
            transaction = TransactionUnit(store)
            await fill(store, collection, bson(id=2))
            await store.write(lambda unit: unit.create_collection("shop", "later"))
            assert ids(transaction, collection) == [1]
            assert transaction.catalog.collection("shop.later") is None
            transaction.abort()

        run(tmp_path, scenario)


def some_changes(unit: UnitOfWork, collection: Collection, rng: random.Random) -> None:
    """Some inserts, updates and deletes; documents sometimes exchange their unique values."""
    for _ in range(rng.randrange(1, 6)):
        records = list(unit.records(collection))
        roll = rng.random()
        if roll < 0.4 or len(records) < 2:
            number = 1000 + rng.randrange(1_000_000)
            unit.insert(collection, bson(id=number, u=number, tags=rng.sample(range(30), 2)))
        elif roll < 0.6:
            unit.delete(collection, *rng.choice(records))
        elif roll < 0.8:
            key, before = rng.choice(records)
            after = documents.encode({**documents.decode(before), "tags": rng.sample(range(30), 2)})
            unit.update(collection, key, before, after, after)
        else:
            (one, first), (two, second) = rng.sample(records, 2)
            a, b = documents.decode(first), documents.decode(second)
            away = documents.encode({**a, "u": -1})
            unit.update(collection, one, first, away, away)
            swapped = documents.encode({**b, "u": a["u"]})
            unit.update(collection, two, second, swapped, swapped)
            swapped = documents.encode({**a, "u": b["u"]})
            unit.update(collection, one, away, swapped, swapped)


class TestConflicts:
    def conflict(
        self, path: Path, first: Callable[[UnitOfWork], Any], second: Callable[[UnitOfWork], Any]
    ) -> None:
        """The second of two open transactions fails, the first one commits."""

        async def scenario(store: Store) -> None:
            collection = await make(store, UNIQUE)
            await fill(store, collection, bson(id=1, u=1), bson(id=2, u=2))
            winner, loser = TransactionUnit(store), TransactionUnit(store)
            await winner.write(first)
            with pytest.raises(CommandError) as raised:
                await loser.write(second)
            assert code_of(raised) == ErrorCode.WriteConflict
            assert raised.value.labels == ("TransientTransactionError",)
            loser.abort()
            await winner.commit(LSID, 1)

        run(path, scenario)

    def test_two_updates_of_one_document(self, tmp_path: Path) -> None:
        self.conflict(tmp_path, set_x(1, 10), set_x(1, 20))

    def test_an_update_and_a_delete(self, tmp_path: Path) -> None:
        self.conflict(tmp_path, remove(1), set_x(1, 20))

    def test_two_inserts_of_one_id(self, tmp_path: Path) -> None:
        self.conflict(tmp_path, add(id=3, u=3), add(id=3, u=4))

    def test_two_inserts_of_one_unique_value(self, tmp_path: Path) -> None:
        self.conflict(tmp_path, add(id=3, u=3), add(id=4, u=3))

    def test_a_unique_value_that_another_transaction_removes(self, tmp_path: Path) -> None:
        self.conflict(tmp_path / "deleted", remove(1), add(id=3, u=1))
        self.conflict(tmp_path / "changed", set_field(1, u=9), add(id=3, u=1))

    def test_a_change_committed_since_the_snapshot(self, tmp_path: Path) -> None:
        async def scenario(store: Store) -> None:
            collection = await make(store)
            await fill(store, collection, bson(id=1))
            transaction = TransactionUnit(store)
            await store.write(set_x(1, 5))
            with pytest.raises(CommandError) as raised:
                await transaction.write(set_x(1, 6))
            assert code_of(raised) == ErrorCode.WriteConflict
            transaction.abort()

        run(tmp_path, scenario)

    def test_a_key_committed_since_the_snapshot(self, tmp_path: Path) -> None:
        async def scenario(store: Store) -> None:
            collection = await make(store, UNIQUE)
            transaction = TransactionUnit(store)
            await fill(store, collection, bson(id=1, u=1))
            with pytest.raises(CommandError) as raised:
                await transaction.write(add(id=2, u=1))
            assert code_of(raised) == ErrorCode.WriteConflict
            transaction.abort()

        run(tmp_path, scenario)

    def test_a_conflict_is_raised_even_if_a_statement_catches_it(self, tmp_path: Path) -> None:
        async def scenario(store: Store) -> None:
            collection = await make(store)
            await fill(store, collection, bson(id=1))
            first, second = TransactionUnit(store), TransactionUnit(store)
            await first.write(set_x(1, 1))

            def swallow(unit: UnitOfWork) -> str:
                try:
                    set_x(1, 2)(unit)
                except CommandError:
                    return "went on"
                return "no conflict"

            with pytest.raises(CommandError) as raised:
                await second.write(swallow)
            assert code_of(raised) == ErrorCode.WriteConflict
            first.abort()
            second.abort()

        run(tmp_path, scenario)

    def test_keys_in_the_snapshot_are_duplicates(self, tmp_path: Path) -> None:
        async def scenario(store: Store) -> None:
            collection = await make(store, UNIQUE)
            await fill(store, collection, bson(id=1, u=1))
            transaction = TransactionUnit(store)
            await transaction.write(add(id=2, u=2))
            for document in ({"id": 1, "u": 9}, {"id": 2, "u": 9}, {"id": 9, "u": 1}, {"id": 9, "u": 2}):
                with pytest.raises(CommandError) as raised:
                    await transaction.write(add(**document))
                assert code_of(raised) == ErrorCode.DuplicateKey
            await transaction.write(remove(1))
            await transaction.write(add(id=1, u=1, again=True))
            await transaction.commit(LSID, 1)
            with store.snapshot() as snapshot:
                assert [documents.decode(raw) for _, raw in snapshot.records(collection)] == [
                    {"_id": 2, "u": 2},
                    {"_id": 1, "u": 1, "again": True},
                ]

        run(tmp_path, scenario)

    def test_an_index_with_prepare_unique_counts_as_unique(self, tmp_path: Path) -> None:
        to_become_unique = {"v": 2, "key": {"u": 1}, "name": "u_1", "prepareUnique": True}

        async def scenario(store: Store) -> None:
            collection = await make(store, to_become_unique)
            await fill(store, collection, bson(id=1, u=1))
            first, second = TransactionUnit(store), TransactionUnit(store)
            await first.write(add(id=2, u=2))
            for document in ({"id": 3, "u": 1}, {"id": 3, "u": 2}):
                with pytest.raises(CommandError) as raised:
                    await first.write(add(**document))
                assert code_of(raised) == ErrorCode.DuplicateKey
            with pytest.raises(CommandError) as raised:
                await second.write(add(id=4, u=2))
            assert code_of(raised) == ErrorCode.WriteConflict
            second.abort()
            await first.write(remove(1))
            await first.write(add(id=3, u=1))
            await first.commit(LSID, 1)
            with store.snapshot() as snapshot:
                assert ids(snapshot, collection) == [2, 3]

        run(tmp_path, scenario)

    def test_other_documents_do_not_conflict(self, tmp_path: Path) -> None:
        async def scenario(store: Store) -> list[Any]:
            collection = await make(store, UNIQUE)
            await fill(store, collection, bson(id=1, u=1), bson(id=2, u=2))
            first, second = TransactionUnit(store), TransactionUnit(store)
            await first.write(set_x(1, 1))
            await second.write(set_x(2, 2))
            await second.write(add(id=3, u=3))
            await first.commit(LSID, 1)
            await second.commit(session_id(bytes(16), NO_USER), 1)
            with store.snapshot() as snapshot:
                return [documents.decode(raw).get("x") for _, raw in snapshot.records(collection)]

        assert run(tmp_path, scenario) == [1, 2, None]


class TestOtherWrites:
    def test_a_write_outside_continues_when_the_transaction_ends(self, tmp_path: Path) -> None:
        async def scenario(store: Store) -> list[Any]:
            collection = await make(store)
            await fill(store, collection, bson(id=1, x=0))
            transaction = TransactionUnit(store)
            await transaction.write(set_x(1, 1))
            outside = await tried(store, add_to_x(1, 10))
            assert not outside.done()
            await transaction.commit(LSID, 1)
            await outside
            with store.snapshot() as snapshot:
                return [documents.decode(raw).get("x") for _, raw in snapshot.records(collection)]

        assert run(tmp_path, scenario) == [11]

    def test_an_insert_waits_for_a_key_and_is_then_a_duplicate(self, tmp_path: Path) -> None:
        async def scenario(store: Store) -> None:
            collection = await make(store, UNIQUE)
            transaction = TransactionUnit(store)
            await transaction.write(add(id=1, u=1))
            outside = await tried(store, lambda unit: unit.insert(collection, bson(id=2, u=1)))
            assert not outside.done()
            await transaction.commit(LSID, 1)
            with pytest.raises(CommandError) as raised:
                await outside
            assert code_of(raised) == ErrorCode.DuplicateKey

        run(tmp_path, scenario)

    def test_a_write_waits_until_its_deadline(self, tmp_path: Path) -> None:
        async def scenario(store: Store) -> None:
            collection = await make(store)
            await fill(store, collection, bson(id=1))
            transaction = TransactionUnit(store)
            await transaction.write(set_x(1, 1))
            deadline = asyncio.get_running_loop().time() + 0.01
            with pytest.raises(CommandError) as raised:
                await store.write(set_x(1, 2), deadline=deadline)
            assert code_of(raised) == ErrorCode.MaxTimeMSExpired
            transaction.abort()
            await store.write(set_x(1, 3))

        run(tmp_path, scenario)

    def test_a_drop_waits_for_transactions_that_write(self, tmp_path: Path) -> None:
        async def scenario(store: Store) -> None:
            collection = await make(store)
            await fill(store, collection, bson(id=1))
            transaction = TransactionUnit(store)
            await transaction.write(set_x(1, 1))
            drop = await tried(store, lambda unit: unit.remove_collection(collection))
            assert not drop.done()
            transaction.abort()
            await drop
            assert list(store.catalog.collections("shop")) == []

        run(tmp_path, scenario)

    def test_other_transactions_fail_while_a_drop_waits(self, tmp_path: Path) -> None:
        async def scenario(store: Store) -> None:
            collection = await make(store)
            await fill(store, collection, bson(id=1), bson(id=2))
            first, second = TransactionUnit(store), TransactionUnit(store)
            await first.write(set_x(1, 1))
            drop = await tried(store, lambda unit: unit.remove_collection(collection))
            with pytest.raises(CommandError) as raised:
                await second.write(set_x(2, 1))
            assert code_of(raised) == ErrorCode.LockTimeout
            assert raised.value.labels == ("TransientTransactionError",)
            second.abort()
            await first.write(set_x(2, 2))
            await first.commit(LSID, 1)
            await drop

        run(tmp_path, scenario)

    def test_a_dropped_collection_cannot_be_written(self, tmp_path: Path) -> None:
        async def scenario(store: Store) -> None:
            collection = await make(store)
            await fill(store, collection, bson(id=1))
            transaction = TransactionUnit(store)
            await store.write(lambda unit: unit.remove_collection(collection))
            assert ids(transaction, collection) == [1]
            with pytest.raises(CommandError) as raised:
                await transaction.write(add(id=2))
            assert code_of(raised) == ErrorCode.WriteConflict
            transaction.abort()

        run(tmp_path, scenario)


class TestTheWriter:
    def test_a_statement_that_runs_again_has_its_effect_once(self, tmp_path: Path) -> None:
        async def scenario(store: Store) -> None:
            collection = await make(store)
            await fill(store, collection, bson(id=1, x=0))
            transaction = TransactionUnit(store)
            await transaction.write(add_to_x(1, 1))
            runs = []
            go_on = threading.Event()

            def statement(unit: UnitOfWork) -> None:
                runs.append(unit)
                add_to_x(1, 10)(unit)
                created = unit.create_collection("shop", f"made{len(runs)}")
                unit.insert(created, bson(id=len(runs)))

            def fail(unit: WriteUnit) -> None:
                unit.insert(collection, bson(id=7))
                raise CommandError(ErrorCode.BadValue, "this job fails with a change made")

            # The writer is blocked until both jobs are queued, so that they share a commit.
            held = asyncio.create_task(store.write(lambda _: go_on.wait()))
            await asyncio.sleep(0)
            written = asyncio.create_task(transaction.write(statement))
            failed = asyncio.create_task(store.write(fail))
            await asyncio.sleep(0)
            go_on.set()
            await held
            await written
            with pytest.raises(CommandError):
                await failed
            assert len(runs) == 2
            await transaction.commit(LSID, 1)
            with store.snapshot() as snapshot:
                assert [documents.decode(raw) for _, raw in snapshot.records(collection)] == [
                    {"_id": 1, "x": 11}
                ]
                assert snapshot.catalog.collection("shop.made1") is None
                made = snapshot.catalog.collection("shop.made2")
                assert made is not None
                assert ids(snapshot, made) == [2]
                assert len(newest(snapshot)["o"]["applyOps"]) == 4

        run(tmp_path, scenario)

    def test_a_commit_continues_when_its_caller_is_cancelled(self, tmp_path: Path) -> None:
        async def scenario(store: Store) -> None:
            collection = await make(store)
            transaction = TransactionUnit(store)
            await transaction.write(add(id=1))
            waiting = asyncio.create_task(transaction.commit(LSID, 1))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await transaction.commit(LSID, 1)
            with store.snapshot() as snapshot:
                assert ids(snapshot, collection) == [1]
                assert sum(b"applyOps" in entry for _, entry in snapshot.entries()) == 1

        run(tmp_path, scenario)


class TestTheLog:
    def test_a_transaction_is_one_entry(self, tmp_path: Path) -> None:
        async def scenario(store: Store) -> None:
            collection = await make(store, changeStreamPreAndPostImages={"enabled": True})
            await fill(store, collection, bson(id=1, x=0))
            transaction = TransactionUnit(store)
            await transaction.write(add(id=2))
            await transaction.write(set_x(1, 5))
            await transaction.write(set_x(1, 6))
            await transaction.write(remove(2))
            await transaction.commit(LSID, 3)
            with store.snapshot() as snapshot:
                entry = newest(snapshot)
                assert list(entry) == [
                    "lsid", "txnNumber", "op", "ns", "o", "ts", "t", "v", "wall", "prevOpTime",
                ]  # fmt: skip
                assert documents.encode(entry["lsid"]) == LSID
                assert entry["txnNumber"] == Int64(3)
                assert entry["ns"] == "admin.$cmd"
                assert list(entry["o"]) == ["applyOps"]
                assert entry["prevOpTime"] == {"ts": Timestamp(0, 0), "t": Int64(-1)}
                inner = entry["o"]["applyOps"]
                assert [operation["op"] for operation in inner] == ["i", "u", "u", "d"]
                assert list(inner[0]) == ["op", "ns", "ui", "o", "o2"]
                assert list(inner[3]) == ["op", "ns", "ui", "o"]
                assert bytes(inner[0]["ui"]) == collection.uuid
                images = [snapshot.pre_image(collection.uuid, newest_time(snapshot), n) for n in range(4)]
                assert images[0] is None
                assert [documents.decode(raw)["preImage"] for raw in images[1:] if raw is not None] == [
                    {"_id": 1, "x": 0},
                    {"_id": 1, "x": 5},
                    {"_id": 2},
                ]
                record = snapshot.session_record(session_key(LSID))
                assert record is not None
                writes = SessionWrites.from_bson(record)
                assert (writes.txn_number, writes.state) == (3, "committed")
                assert writes.last.ts == newest_time(snapshot)

        run(tmp_path, scenario)

    def test_a_large_transaction_is_a_chain_of_entries(self, tmp_path: Path) -> None:
        async def scenario(store: Store) -> None:
            collection = await make(store)
            transaction = TransactionUnit(store)
            filler = "x" * (3 << 20)
            for number in range(12):
                await transaction.write(add(id=number, filler=filler))
            before = store.last_committed
            await transaction.commit(LSID, 1)
            with store.snapshot() as snapshot:
                chain = [documents.decode(raw) for _, raw in snapshot.entries(before)]
                times = [ts for ts, _ in snapshot.entries(before)]
                assert [len(entry["o"]["applyOps"]) for entry in chain] == [5, 5, 2]
                assert [entry["o"].get("partialTxn") for entry in chain] == [True, True, None]
                assert [entry["o"].get("count") for entry in chain] == [None, None, Int64(12)]
                assert [entry["prevOpTime"]["ts"] for entry in chain] == [
                    Timestamp(0, 0), chain[0]["ts"], chain[1]["ts"],
                ]  # fmt: skip
                assert times == list(range(times[0], times[0] + 3))
                assert snapshot.count(collection)[0] == 12

        run(tmp_path, scenario)

    def test_no_entry_without_changes(self, tmp_path: Path) -> None:
        async def scenario(store: Store) -> None:
            collection = await make(store)
            before = store.clock.now
            transaction = TransactionUnit(store)
            assert ids(transaction, collection) == []
            await transaction.commit(LSID, 1)
            with store.snapshot() as snapshot:
                assert list(snapshot.entries(before)) == []
                assert snapshot.session_record(session_key(LSID)) is None

        run(tmp_path, scenario)

    def test_an_abort_has_no_effect_and_releases_all_locks(self, tmp_path: Path) -> None:
        async def scenario(store: Store) -> None:
            collection = await make(store)
            await fill(store, collection, bson(id=1, x=0))
            transaction = TransactionUnit(store)
            await transaction.write(set_x(1, 1))
            await transaction.write(add(id=2))
            await transaction.write(lambda unit: unit.create_collection("shop", "made"))
            before = store.last_committed
            transaction.abort()
            transaction.abort()
            with store.snapshot() as snapshot:
                assert [documents.decode(raw) for _, raw in snapshot.records(collection)] == [
                    {"_id": 1, "x": 0}
                ]
                assert list(snapshot.entries(before)) == []
                assert snapshot.catalog.collection("shop.made") is None
            await fill(store, collection, bson(id=2))
            await store.write(lambda unit: unit.create_collection("shop", "made"))
            assert not await store.write(lambda unit: bool(unit.locks))

        run(tmp_path, scenario)

    @pytest.mark.parametrize("writes", [True, False], ids=["with changes", "without changes"])
    @pytest.mark.parametrize("end", ["commit", "prepare", "abort"])
    def test_each_end_is_final(self, tmp_path: Path, end: str, writes: bool) -> None:
        async def scenario(store: Store) -> None:
            collection = await make(store)
            transaction = TransactionUnit(store)
            assert [transaction.is_over, transaction.has_changes] == [False, False]
            if writes:
                await transaction.write(add(id=1))
            assert [transaction.is_over, transaction.has_changes] == [False, writes]
            if end == "commit":
                await transaction.commit(LSID, 1)
            elif end == "prepare":
                prepared = await transaction.prepare(LSID, 1)
            else:
                transaction.abort()
            assert transaction.is_over
            await transaction.wait_ended(None)
            transaction.abort()
            await store.write(lambda _: None)  # the locks are released before the next job
            with pytest.raises(lmdb.Error):
                transaction.record(collection, b"")  # its snapshot is closed
            if end == "prepare":
                await prepared.commit(store.last_committed)
            with store.snapshot() as snapshot:
                assert ids(snapshot, collection) == ([1] if writes and end != "abort" else [])
            assert not await store.write(lambda unit: bool(unit.locks))

        run(tmp_path, scenario)


class TestIndexesOfArrays:
    @pytest.mark.parametrize("in_transaction", [True, False])
    def test_an_index_is_multikey_once_a_document_has_several_keys(
        self, tmp_path: Path, in_transaction: bool
    ) -> None:
        async def scenario(store: Store) -> None:
            collection = await make(store, TAGS)
            index = collection.indexes[1]
            await fill(store, collection, bson(id=1, tags=["a"]), bson(id=2, tags="b"), bson(id=3, tags=[]))

            async def write(work: Callable[[UnitOfWork], Any]) -> tuple[bool, bool]:
                """Whether the index is multikey for this write, and for others."""
                if in_transaction:
                    transaction = TransactionUnit(store)
                    await transaction.write(work)
                    own = transaction.is_multikey(index)
                    await transaction.commit(LSID, next(numbers))
                else:
                    own = await store.write(lambda unit: (work(unit), unit.is_multikey(index))[1])
                with store.snapshot() as snapshot:
                    return own, snapshot.is_multikey(index)

            numbers = iter(range(1, 9))
            assert await write(set_field(1, tags=["c"])) == (False, False)
            assert await write(set_field(2, tags="c")) == (False, False)
            assert await write(add(id=4, tags="d")) == (False, False)
            assert await write(set_field(3, tags=["x", "y"])) == (True, True)
            assert await write(set_field(3, tags="x")) == (True, True)

        run(tmp_path, scenario)


class TestTheCatalog:
    def test_a_collection_with_an_index_created_in_a_transaction(self, tmp_path: Path) -> None:
        async def scenario(store: Store) -> None:
            transaction = TransactionUnit(store)

            def create(unit: UnitOfWork) -> Collection:
                return unit.add_index(unit.create_collection("shop", "made"), UNIQUE)

            made = await transaction.write(create)
            await transaction.write(lambda unit: unit.insert(made, bson(id=1, u=1)))
            with pytest.raises(CommandError) as raised:
                await transaction.write(lambda unit: unit.insert(made, bson(id=2, u=1)))
            assert code_of(raised) == ErrorCode.DuplicateKey
            assert store.catalog.collection("shop.made") is None
            await transaction.commit(LSID, 1)
            committed = store.catalog.collection("shop.made")
            assert committed is not None
            assert committed.uuid == made.uuid
            assert [index.name for index in committed.indexes] == ["_id_", "u_1"]
            with store.snapshot() as snapshot:
                assert ids(snapshot, committed) == [1]
                inner = newest(snapshot)["o"]["applyOps"]
                assert [next(iter(operation["o"])) for operation in inner] == [
                    "create",
                    "createIndexes",
                    "_id",
                ]
                assert [operation["ns"] for operation in inner] == ["shop.$cmd", "shop.$cmd", "shop.made"]
                assert {bytes(operation["ui"]) for operation in inner} == {made.uuid}
            with pytest.raises(CommandError):
                await fill(store, committed, bson(id=3, u=1))
            await fill(store, committed, bson(id=3, u=3))

        run(tmp_path, scenario)

    def test_an_index_on_a_collection_that_was_emptied_again(self, tmp_path: Path) -> None:
        async def scenario(store: Store) -> None:
            transaction = TransactionUnit(store)

            def fill_and_empty(unit: UnitOfWork) -> Collection:
                made = unit.create_collection("shop", "c")
                key = unit.insert(made, bson(id=1, u=1))
                unit.delete(made, key, bson(id=1, u=1))
                return unit.add_index(made, UNIQUE)

            made = await transaction.write(fill_and_empty)
            await transaction.write(lambda unit: unit.insert(made, bson(id=2, u=1)))
            index = made.indexes[1]
            assert [key for key, _ in transaction.index_records(made, index, b"", b"\xff")]
            with pytest.raises(CommandError) as error:
                await transaction.write(lambda unit: unit.insert(made, bson(id=3, u=1)))
            assert code_of(error) == 11000
            await transaction.write(lambda unit: unit.insert(made, bson(id=4, u=4)))
            with pytest.raises(CommandError) as error:
                await transaction.write(lambda unit: unit.add_index(made, TAGS))
            assert code_of(error) == 263
            await transaction.commit(LSID, 1)
            with store.snapshot() as snapshot:
                found = snapshot.catalog.collection("shop.c")
                assert found is not None
                assert ids(snapshot, found) == [2, 4]
                listed = snapshot.index_records(found, found.indexes[1], b"", b"\xff")
                assert [documents.decode(raw)["_id"] for _, raw in listed] == [2, 4]

        run(tmp_path, scenario)

    def test_two_transactions_create_a_collection_of_one_name(self, tmp_path: Path) -> None:
        async def scenario(store: Store) -> None:
            first, second = TransactionUnit(store), TransactionUnit(store)
            await first.write(lambda unit: unit.create_collection("shop", "made"))
            with pytest.raises(CommandError) as raised:
                await second.write(lambda unit: unit.create_collection("shop", "made"))
            assert code_of(raised) == ErrorCode.WriteConflict
            second.abort()
            outside = await tried(store, lambda unit: unit.create_collection("shop", "made"))
            assert not outside.done()
            first.abort()
            assert (await outside).name == "made"

        run(tmp_path, scenario)

    def test_indexes_on_existing_collections_are_refused(self, tmp_path: Path) -> None:
        async def scenario(store: Store) -> None:
            collection = await make(store)
            transaction = TransactionUnit(store)
            with pytest.raises(CommandError) as raised:
                await transaction.write(lambda unit: unit.add_index(collection, UNIQUE))
            assert code_of(raised) == ErrorCode.OperationNotSupportedInTransaction

            def on_documents(unit: UnitOfWork) -> None:
                made = unit.create_collection("shop", "made")
                unit.insert(made, bson(id=1))
                unit.add_index(made, UNIQUE)

            with pytest.raises(CommandError) as raised:
                await transaction.write(on_documents)
            assert code_of(raised) == ErrorCode.OperationNotSupportedInTransaction
            transaction.abort()

        run(tmp_path, scenario)

    def test_capped_collections_cannot_be_written(self, tmp_path: Path) -> None:
        async def scenario(store: Store) -> None:
            await make(store, capped=True, size=Int64(4096))
            transaction = TransactionUnit(store)
            with pytest.raises(CommandError) as raised:
                await transaction.write(add(id=1))
            assert code_of(raised) == ErrorCode.OperationNotSupportedInTransaction
            transaction.abort()

        run(tmp_path, scenario)


def found(unit: UnitOfWork, number: int) -> tuple[Collection, bytes, dict[str, Any]]:
    collection = unit.catalog.collection("shop.c")
    assert collection is not None
    by_id = id_key_of(bson(id=number))
    assert by_id is not None
    record = unit.find_id(collection, by_id)
    assert record is not None
    return collection, record[0], documents.decode(record[1])


def set_field(number: int, **fields: Any) -> Callable[[UnitOfWork], None]:
    """A statement that sets fields of a document of `shop.c`."""

    def work(unit: UnitOfWork) -> None:
        collection, key, document = found(unit, number)
        after = documents.encode({**document, **fields})
        unit.update(collection, key, documents.encode(document), after, after)

    return work


def set_x(number: int, value: int) -> Callable[[UnitOfWork], None]:
    return set_field(number, x=value)


def add_to_x(number: int, more: int) -> Callable[[UnitOfWork], None]:
    def work(unit: UnitOfWork) -> None:
        set_x(number, found(unit, number)[2]["x"] + more)(unit)

    return work


def remove(number: int) -> Callable[[UnitOfWork], None]:
    def work(unit: UnitOfWork) -> None:
        collection, key, document = found(unit, number)
        unit.delete(collection, key, documents.encode(document))

    return work


def add(**fields: Any) -> Callable[[UnitOfWork], bytes]:
    def work(unit: UnitOfWork) -> bytes:
        collection = unit.catalog.collection("shop.c")
        assert collection is not None
        return unit.insert(collection, bson(**fields))

    return work


def newest_time(reader: TableReader) -> int:
    return max(ts for ts, _ in reader.entries())


def newest(reader: TableReader) -> dict[str, Any]:
    entry = reader.entry(newest_time(reader))
    assert entry is not None
    return documents.decode(entry)
