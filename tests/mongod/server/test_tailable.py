"""Tailable cursors: following capped collections and the oplog."""

import threading
import time
from typing import Any

import pytest
from bson import Int64
from pymongo import CursorType, MongoClient
from pymongo.database import Database
from pymongo.errors import OperationFailure

from tailrace.bson.documents import decode
from tests.mongod.server.raw_client import RawClient
from tests.mongod.server.running import Document, RunningServer, connected, wait_for

Db = Database[Document]


@pytest.fixture
def capped(database: Db) -> Db:
    database.create_collection("c", capped=True, size=1_000_000)
    database.c.insert_many([{"_id": i, "k": i % 2} for i in range(4)])
    return database


def opened(raw: RawClient, database: Db, **options: Any) -> Document:
    reply = raw.call({"find": "c", "tailable": True, "$db": database.name, **options})
    assert reply["ok"] == 1, reply
    cursor: Document = reply["cursor"]
    return cursor


def get(database: Db, cursor_id: int, **options: Any) -> Document:
    return {"getMore": Int64(cursor_id), "collection": "c", "$db": database.name, **options}


def ids(cursor: Document) -> list[Any]:
    return [d["_id"] for d in cursor["nextBatch" if "nextBatch" in cursor else "firstBatch"]]


def test_it_stays_open_at_the_end_and_continues_with_new_documents(capped: Db) -> None:
    cursor = capped.c.find(cursor_type=CursorType.TAILABLE)
    assert [next(cursor)["_id"] for _ in range(4)] == [0, 1, 2, 3]
    assert cursor.alive
    capped.c.insert_many([{"_id": 4}, {"_id": 5}])
    assert [next(cursor)["_id"] for _ in range(2)] == [4, 5]
    cursor.close()


def test_without_await_data_an_empty_batch_is_returned_at_once(raw: RawClient, capped: Db) -> None:
    cursor_id = opened(raw, capped)["id"]
    started = time.monotonic()
    cursor = raw.call(get(capped, cursor_id))["cursor"]
    assert cursor["nextBatch"] == []
    assert cursor["id"] == cursor_id
    assert time.monotonic() - started < 0.9
    assert raw.call(get(capped, cursor_id, maxTimeMS=5))["code"] == 2


@pytest.mark.parametrize("query", [{}, {"k": 1}])
def test_await_data_waits_for_the_next_document(
    server: RunningServer, raw: RawClient, capped: Db, query: Document
) -> None:
    cursor_id = opened(raw, capped, awaitData=True, filter=query)["id"]
    raw.send(get(capped, cursor_id, maxTimeMS=60_000))
    wait_for(lambda: any(entry.user for entry in server.server.first.cursors))
    capped.c.insert_one({"_id": "even", "k": 0})
    capped.c.insert_one({"_id": "odd", "k": 1})
    found = ids(decode(raw.receive().document)["cursor"])
    assert found[0] == ("odd" if query else "even")


def test_await_data_ends_after_its_time(raw: RawClient, capped: Db) -> None:
    cursor_id = opened(raw, capped, awaitData=True)["id"]
    started = time.monotonic()
    reply = raw.call(get(capped, cursor_id, maxTimeMS=60))
    assert reply["cursor"]["nextBatch"] == []
    assert reply["cursor"]["id"] == cursor_id
    assert 0.05 <= time.monotonic() - started < 0.9


def test_await_data_waits_for_a_second_by_default(raw: RawClient, capped: Db) -> None:
    cursor_id = opened(raw, capped, awaitData=True)["id"]
    started = time.monotonic()
    assert raw.call(get(capped, cursor_id))["cursor"]["nextBatch"] == []
    assert time.monotonic() - started >= 0.95


def test_find_itself_never_waits(raw: RawClient, capped: Db) -> None:
    started = time.monotonic()
    cursor = opened(raw, capped, awaitData=True, filter={"k": "none"})
    assert cursor["firstBatch"] == []
    assert cursor["id"] != 0
    assert time.monotonic() - started < 0.9


def test_projection_skip_limit_and_batches(raw: RawClient, capped: Db) -> None:
    cursor = opened(
        raw, capped, filter={"_id": {"$gt": -1}}, skip=1, limit=4, batchSize=2, projection={"k": 0}
    )
    assert cursor["firstBatch"] == [{"_id": 1}, {"_id": 2}]
    assert ids(raw.call(get(capped, cursor["id"]))["cursor"]) == [3]
    capped.c.insert_many([{"_id": 4}, {"_id": 5}])
    last = raw.call(get(capped, cursor["id"]))["cursor"]
    assert ids(last) == [4]
    assert last["id"] == 0


def test_limits_of_plain_tails(raw: RawClient, capped: Db) -> None:
    cursor = opened(raw, capped, limit=5, batchSize=10)
    assert ids(cursor) == [0, 1, 2, 3]
    capped.c.insert_many([{"_id": 4}, {"_id": 5}])
    last = raw.call(get(capped, cursor["id"]))["cursor"]
    assert ids(last) == [4]
    assert last["id"] == 0


def test_a_missing_or_empty_collection(raw: RawClient, database: Db) -> None:
    assert opened(raw, database)["id"] == 0
    database.create_collection("c", capped=True, size=1000)
    assert opened(raw, database)["id"] == 0


def test_only_capped_collections_can_be_followed(database: Db) -> None:
    database.c.insert_one({})
    with pytest.raises(OperationFailure) as failure:
        next(database.c.find(cursor_type=CursorType.TAILABLE))
    assert failure.value.code == 2
    assert "tailable cursor requested on non capped collection" in str(failure.value)


@pytest.mark.parametrize("options", [{"sort": {"_id": 1}}, {"sort": {"$natural": -1}}, {"singleBatch": True}])
def test_options_that_exclude_tailable(raw: RawClient, capped: Db, options: Document) -> None:
    assert raw.call({"find": "c", "tailable": True, "$db": capped.name, **options})["code"] == 2


def test_a_cursor_whose_position_was_removed_is_lost(raw: RawClient, database: Db) -> None:
    database.create_collection("c", capped=True, size=4096, max=3)
    database.c.insert_many([{"_id": i} for i in range(3)])
    cursor_id = opened(raw, database, batchSize=1)["id"]
    database.c.insert_many([{"_id": i} for i in range(3, 9)])
    assert raw.call(get(database, cursor_id))["code"] == 136


def test_a_dropped_collection_ends_a_waiting_cursor(
    server: RunningServer, raw: RawClient, capped: Db
) -> None:
    cursor_id = opened(raw, capped, awaitData=True)["id"]
    raw.send(get(capped, cursor_id, maxTimeMS=60_000))
    wait_for(lambda: any(entry.user for entry in server.server.first.cursors))
    capped.c.drop()
    assert decode(raw.receive().document)["code"] == 175


class TestOplog:
    def test_new_entries_are_returned_as_they_are_written(
        self, client: MongoClient[Document], database: Db
    ) -> None:
        oplog = client.local["oplog.rs"]
        newest = oplog.find_one(sort=[("$natural", -1)])
        assert newest is not None
        query = {"ts": {"$gt": newest["ts"]}, "ns": f"{database.name}.c"}
        cursor = oplog.find(query, cursor_type=CursorType.TAILABLE_AWAIT, oplog_replay=True)
        cursor.max_await_time_ms(100)
        writer = threading.Thread(target=lambda: [database.c.insert_one({"_id": i}) for i in range(20)])
        writer.start()
        found: list[int] = []
        while len(found) < 20:  # PyMongo stops at an empty batch, though the cursor is still open
            assert cursor.alive
            found += [entry["o"]["_id"] for entry in cursor if entry["op"] == "i"]
        writer.join()
        cursor.close()
        assert found == list(range(20))

    def test_raw_tails(self, client: MongoClient[Document], database: Db) -> None:
        """With a filter on time only, entries are passed through unchanged."""
        oplog = client.local["oplog.rs"]
        newest = oplog.find_one(sort=[("$natural", -1)])
        assert newest is not None
        cursor = oplog.find({"ts": {"$gte": newest["ts"]}}, cursor_type=CursorType.TAILABLE_AWAIT)
        cursor.max_await_time_ms(100)
        assert next(cursor) == newest
        database.c.insert_one({"_id": "x"})
        names: list[str] = []
        while f"{database.name}.c" not in names:
            assert cursor.alive
            names += [entry["ns"] for entry in cursor]
        assert [name for name in names if name] == [f"{database.name}.$cmd", f"{database.name}.c"]
        cursor.close()

    def test_a_reader_whose_position_was_truncated_is_lost(self, own_server: RunningServer) -> None:
        with connected(own_server) as client:
            client.shop.c.insert_many([{"_id": i} for i in range(10)])
            for number in range(20):
                client.shop.d.insert_one({"_id": number})
            tail = client.local["oplog.rs"].find(cursor_type=CursorType.TAILABLE, batch_size=2)
            plain = client.local["oplog.rs"].find(batch_size=2)
            next(tail)
            next(plain)
            store = own_server.server.store
            own_server.call(store.write(store.truncate_oplog(store.last_committed)))
            with pytest.raises(OperationFailure) as failure:
                list(plain)
            assert failure.value.code == 136
            # For a tailable cursor PyMongo takes the same error as its end.
            assert len(list(tail)) == 1
            assert not tail.alive
