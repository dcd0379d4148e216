"""Prepared transactions in the store: after a restart, their ends, and the entries that stay for them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tailrace.bson import documents
from tailrace.errors import CommandError
from tailrace.events.oplog_entry import OpTime
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.transactions.prepared import Prepared, PreparedTransactions
from tailrace.mongod.store.transactions.sessions import NO_USER, SessionWrites, session_key
from tailrace.mongod.store.transactions.transaction import TransactionUnit
from tailrace.mongod.store.transactions.transaction_log import Effects, Images
from tailrace.mongod.store.unit_of_work import UnitOfWork
from tailrace.mongod.store.write_unit import WriteUnit
from tests.mongod.store.opening import opened
from tests.support.oplog_writer import session_id

LSID = session_id(bytes(range(16)), NO_USER)
OTHER = session_id(bytes(range(1, 17)), NO_USER)
IMAGES = {"changeStreamPreAndPostImages": {"enabled": True}}


def bson(**fields: Any) -> bytes:
    return documents.encode({"_id" if name == "id" else name: value for name, value in fields.items()})


def found(store: Store, name: str) -> Collection:
    collection = store.catalog.collection(f"shop.{name}")
    assert collection is not None
    return collection


def contents(store: Store, name: str) -> list[Any]:
    with store.snapshot() as snapshot:
        return [documents.decode(raw) for _, raw in snapshot.records(found(store, name))]


async def prepare(store: Store) -> Prepared:
    """Prepare a transaction that inserts, updates and deletes, and creates a collection."""

    def setup(unit: WriteUnit) -> None:
        collection = unit.create_collection("shop", "c", IMAGES)
        for n in range(4):
            unit.insert(collection, bson(id=n, x=0))

    await store.write(setup)
    transaction = TransactionUnit(store)

    def work(unit: UnitOfWork) -> None:
        collection = found(store, "c")
        records = list(unit.records(collection))
        after = bson(id=1, x=1)
        unit.update(collection, *records[1], after, after, stmt_id=0, retry_image="postImage")
        unit.delete(collection, *records[2])
        unit.insert(collection, bson(id=10))
        unit.insert(collection, bson(id=11))
        unit.insert(unit.create_collection("shop", "made"), bson(id=5))

    await transaction.write(work)
    return await transaction.prepare(LSID, 7)


@pytest.mark.parametrize("restarts", [True, False])
@pytest.mark.parametrize("commits", [True, False])
def test_a_prepared_transaction_is_committed_or_aborted_after_a_restart(
    tmp_path: Path, commits: bool, restarts: bool
) -> None:
    async def first() -> None:
        with opened(tmp_path) as store:
            store.attach(asyncio.get_running_loop())
            await end(store, await prepare(store)) if not restarts else await prepare(store)

    async def second() -> None:
        with opened(tmp_path) as store:
            store.attach(asyncio.get_running_loop())
            (prepared,) = store.prepared
            assert store.prepared.of_session(LSID) is prepared
            assert store.prepared.of_session(OTHER) is None
            await end(store, prepared)

    async def end(store: Store, prepared: Prepared) -> None:
        assert (prepared.txn_number, list(prepared.namespaces), prepared.state) == (
            7, ["shop.c", "shop.made"], "prepared",
        )  # fmt: skip
        assert prepared.first == prepared.time
        assert [document["_id"] for document in contents(store, "c")] == [0, 1, 2, 3]
        # Its locks are held, and its record keys are taken.
        blocked = asyncio.create_task(store.write(lambda unit: unit.insert(found(store, "c"), bson(id=10))))
        await asyncio.sleep(0)
        await store.write(lambda unit: unit.insert(found(store, "c"), bson(id=20)))
        assert not blocked.done()
        if commits:
            await prepared.commit(store.last_committed)
            await prepared.commit(store.last_committed)
            with pytest.raises(CommandError) as caught:
                await prepared.abort()
            assert (caught.value.code, caught.value.labels) == (256, ())
            with pytest.raises(CommandError) as caught:
                await blocked
            assert caught.value.code == 11000
        else:
            await prepared.abort()
            await prepared.abort()
            with pytest.raises(CommandError) as caught:
                await prepared.commit(store.last_committed)
            assert (caught.value.code, caught.value.labels) == (251, ("TransientTransactionError",))
            await blocked
        await prepared.wait_ended(None)
        assert not list(store.prepared)
        assert not await store.write(lambda unit: bool(unit.locks))
        shown = [(document["_id"], document.get("x")) for document in contents(store, "c")]
        if not commits:
            assert shown == [(0, 0), (1, 0), (2, 0), (3, 0), (20, None), (10, None)]
            assert store.catalog.collection("shop.made") is None
            return
        assert shown == [(0, 0), (1, 1), (3, 0), (10, None), (11, None), (20, None)]
        assert contents(store, "made") == [{"_id": 5}]
        with store.snapshot() as snapshot:
            uuid, ts = found(store, "c").uuid, prepared.time.ts
            entry = documents.decode(next(raw for time, raw in snapshot.entries() if time == ts))
            operations = [operation["op"] for operation in entry["o"]["applyOps"]]
            images = {
                operations[place]: documents.decode(raw)["preImage"]
                for place in range(len(operations))
                if (raw := snapshot.pre_image(uuid, ts, place)) is not None
            }
            assert images == {"u": {"_id": 1, "x": 0}, "d": {"_id": 2, "x": 0}}
            image = snapshot.image_record(session_key(LSID))
            assert image is not None
            stored = documents.decode(image)
            assert (stored["imageKind"], stored["image"], stored["txnNum"]) == (
                "postImage",
                {"_id": 1, "x": 1},
                7,
            )

    asyncio.run(first())
    if restarts:
        asyncio.run(second())


def test_the_entries_that_stay_for_prepared_transactions(store: Store) -> None:
    def prepared(lsid: bytes, first: int) -> Prepared:
        session = SessionWrites(lsid, 1, OpTime(first + 5, 1), start=OpTime(first, 1))
        return Prepared(store, session, Effects([], {}), Images([], None), [], 0)

    all_of = PreparedTransactions()
    assert all_of.oldest_needed(None) is None
    assert all_of.oldest_needed(100) == 100
    all_of.add(prepared(LSID, 50))
    all_of.add(prepared(OTHER, 40))
    assert len(all_of) == 2
    assert all_of.oldest_needed(None) == 40
    assert all_of.oldest_needed(100) == 40
    assert all_of.oldest_needed(30) == 30
    all_of.remove(OTHER)
    assert all_of.oldest_needed(100) == 50
    # One that has ended is needed until the history holds its end.
    all_of.remove(LSID, ended=90)
    assert len(all_of) == 0
    assert all_of.oldest_needed(80) == 50
    assert all_of.oldest_needed(90) == 50
    assert all_of.oldest_needed(91) == 91
    assert all_of.oldest_needed(80) == 80
    all_of.note_ended(10, 200)
    assert all_of.oldest_needed(100) == 10
    assert all_of.oldest_needed(None) is None
    assert all_of.oldest_needed(100) == 100
    all_of.remove(LSID, ended=300)
    assert all_of.oldest_needed(100) == 100
