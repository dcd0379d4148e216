"""Cursors: batches, ends, checks and administration."""

import threading
from typing import Any

import pytest
from bson import Binary, Int64
from pymongo import AsyncMongoClient, CursorType, MongoClient
from pymongo.database import Database
from pymongo.errors import CursorNotFound

from tailrace.bson.documents import decode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tests.mongod.server.raw_client import RawClient, raw_client
from tests.mongod.server.running import Document, RunningServer, connected, running, wait_for

Db = Database[Document]
SIXTEEN_MB = 16 * 1024 * 1024


@pytest.fixture
def ten(database: Db) -> Db:
    database.c.insert_many([{"_id": i} for i in range(10)])
    return database


def opened(raw: RawClient, database: Db, **options: Any) -> int:
    """The id of a cursor without a session."""
    reply = raw.call({"find": "c", "batchSize": 2, "$db": database.name, **options})
    assert reply["ok"] == 1, reply
    cursor_id: int = reply["cursor"]["id"]
    return cursor_id


def get_more(raw: RawClient, database: Db, cursor_id: int, **options: Any) -> Document:
    command = {"getMore": Int64(cursor_id), "collection": "c", "$db": database.name, **options}
    return raw.call(command)


def waiting_get_more(raw: RawClient, server: RunningServer, database: Db) -> int:
    """Send a `getMore` that waits on a capped collection; returns the cursor's id when it is in use."""
    database.create_collection("c", capped=True, size=100_000)
    database.c.insert_one({"_id": 1})
    cursor_id = opened(raw, database, tailable=True, awaitData=True)
    raw.send({"getMore": Int64(cursor_id), "collection": "c", "$db": database.name, "maxTimeMS": 60_000})
    wait_for(lambda: any(entry.user for entry in server.server.first.cursors))
    return cursor_id


class TestBatches:
    def test_the_first_batch_has_101_documents(self, database: Db) -> None:
        database.c.insert_many([{"_id": i} for i in range(150)])
        reply = database.command({"find": "c"})["cursor"]
        assert len(reply["firstBatch"]) == 101
        assert list(reply) == ["firstBatch", "id", "ns"]
        assert reply["id"] > 0
        more = database.command({"getMore": reply["id"], "collection": "c"})["cursor"]
        assert list(more) == ["nextBatch", "id", "ns"]
        assert [d["_id"] for d in more["nextBatch"]] == list(range(101, 150))
        assert more["id"] == 0

    def test_a_batch_size_of_zero_only_opens(self, ten: Db) -> None:
        reply = ten.command({"find": "c", "batchSize": 0})["cursor"]
        assert reply["firstBatch"] == []
        more = ten.command({"getMore": reply["id"], "collection": "c", "batchSize": 0})["cursor"]
        assert len(more["nextBatch"]) == 10

    @pytest.mark.parametrize("size", [1, 2, 3, 9, 10, 11])
    def test_every_batch_size_returns_everything(self, ten: Db, size: int) -> None:
        for query in ({}, {"_id": {"$gte": 0}}, {"$expr": True}):
            assert [d["_id"] for d in ten.c.find(query, batch_size=size)] == list(range(10))
            assert [d["_id"] for d in ten.c.find(query, batch_size=size).sort("$natural", -1)] == [
                *range(9, -1, -1)
            ]
        assert [d["_id"] for d in ten.c.aggregate([{"$match": {}}], batchSize=size)] == list(range(10))

    def test_a_limit_ends_the_cursor_with_its_last_document(self, ten: Db) -> None:
        reply = ten.command({"find": "c", "limit": 4, "batchSize": 3})["cursor"]
        assert reply["id"] != 0
        more = ten.command({"getMore": reply["id"], "collection": "c"})["cursor"]
        assert [d["_id"] for d in more["nextBatch"]] == [3]
        assert more["id"] == 0
        assert ten.command({"find": "c", "limit": 4, "batchSize": 4})["cursor"]["id"] == 0

    def test_sorted_results_end_with_their_last_document(self, ten: Db) -> None:
        reply = ten.command({"find": "c", "sort": {"x": 1}, "batchSize": 10})["cursor"]
        assert reply["id"] == 0

    def test_a_look_up_by_id_leaves_no_cursor(self, ten: Db) -> None:
        assert ten.command({"find": "c", "filter": {"_id": 1}, "batchSize": 1})["cursor"]["id"] == 0

    def test_a_batch_has_at_most_16_mb(self, database: Db) -> None:
        database.c.insert_many([{"_id": i, "x": "x" * 3_000_000} for i in range(12)])
        for query in ({}, {"$expr": True}):
            reply = database.command({"find": "c", "filter": query})["cursor"]
            assert len(reply["firstBatch"]) == 5
            more = database.command({"getMore": reply["id"], "collection": "c"})["cursor"]
            assert [d["_id"] for d in more["nextBatch"]] == [5, 6, 7, 8, 9]
            last = database.command({"getMore": reply["id"], "collection": "c"})["cursor"]
            assert [d["_id"] for d in last["nextBatch"]] == [10, 11]
            assert last["id"] == 0

    def test_the_largest_document_fits_alone(self, database: Db) -> None:
        space = SIXTEEN_MB - 4 - (1 + 4 + 4) - (1 + 2 + 4 + 1) - 1
        for number in range(2):
            database.c.insert_one({"_id": number, "x": "x" * space})
        found = [len(d["x"]) for d in database.c.find()]
        assert found == [space, space]

    def test_raw_batches(self, ten: Db) -> None:
        batches = list(ten.c.find_raw_batches(batch_size=4))
        assert len(batches) == 3

    def test_exhaust(self, ten: Db) -> None:
        """Further batches come without requests."""
        found = list(ten.c.find(cursor_type=CursorType.EXHAUST, batch_size=3))
        assert [d["_id"] for d in found] == list(range(10))

    async def read_async(self, uri: str, name: str) -> list[int]:
        async with AsyncMongoClient[Document](uri) as client:
            return [d["_id"] async for d in client[name].c.find(batch_size=3)]

    def test_async_clients(self, server: RunningServer, ten: Db) -> None:
        assert server.call(self.read_async(server.uri, ten.name)) == list(range(10))


class TestChecks:
    def test_an_unknown_cursor(self, database: Db) -> None:
        with pytest.raises(CursorNotFound) as failure:
            database.command({"getMore": Int64(12345), "collection": "c"})
        assert failure.value.code == 43

    def test_another_collection(self, raw: RawClient, ten: Db) -> None:
        cursor_id = opened(raw, ten)
        assert get_more(raw, ten, cursor_id, collection="d")["code"] == 13
        assert get_more(raw, ten, cursor_id)["ok"] == 1

    @pytest.mark.parametrize(
        ("fields", "code"),
        [
            ({"getMore": "x"}, 14),
            ({"batchSize": -1}, 2),
            ({"collection": 1}, 14),
            ({"collection": ""}, 73),
            ({"maxTimeMS": 5}, 2),
            ({"unknown": 5}, 40415),
        ],
    )
    def test_wrong_fields_leave_the_cursor_open(
        self, raw: RawClient, ten: Db, fields: Document, code: int
    ) -> None:
        cursor_id = opened(raw, ten)
        assert get_more(raw, ten, cursor_id, **fields)["code"] == code
        assert get_more(raw, ten, cursor_id)["ok"] == 1

    def test_sessions_do_not_mix(self, raw: RawClient, ten: Db) -> None:
        one, two = {"id": Binary(b"a" * 16, 4)}, {"id": Binary(b"b" * 16, 4)}
        outside, inside = opened(raw, ten), opened(raw, ten, lsid=one)
        assert get_more(raw, ten, outside, lsid=one)["code"] == 50736
        assert get_more(raw, ten, inside)["code"] == 50737
        assert get_more(raw, ten, inside, lsid=two)["code"] == 50738
        transaction = {"lsid": one, "txnNumber": Int64(1), "autocommit": False}
        opened(raw, ten, **transaction, startTransaction=True)
        assert get_more(raw, ten, inside, **transaction)["code"] == 50739
        assert get_more(raw, ten, inside, lsid=one)["ok"] == 1

    def test_transactions_do_not_mix(self, raw: RawClient, ten: Db) -> None:
        lsid = {"id": Binary(b"c" * 16, 4)}
        first = {"lsid": lsid, "txnNumber": Int64(1), "autocommit": False}
        cursor_id = opened(raw, ten, **first, startTransaction=True)
        assert get_more(raw, ten, cursor_id, lsid=lsid)["code"] == 50740
        assert len(get_more(raw, ten, cursor_id, **first, batchSize=3)["cursor"]["nextBatch"]) == 3
        assert raw.call({"commitTransaction": 1, **first, "$db": "admin"})["ok"] == 1
        assert get_more(raw, ten, cursor_id, lsid=lsid)["code"] == 43

    def test_api_parameters_stay_the_same(self, raw: RawClient, ten: Db) -> None:
        cursor_id = opened(raw, ten, apiVersion="1")
        assert get_more(raw, ten, cursor_id)["code"] == 347
        assert get_more(raw, ten, cursor_id, apiVersion="1")["ok"] == 1

    def test_a_cursor_in_use(self, server: RunningServer, database: Db) -> None:
        with raw_client(server) as one, raw_client(server) as two:
            cursor_id = waiting_get_more(one, server, database)
            assert get_more(two, database, cursor_id, maxTimeMS=60_000)["code"] == 143
            database.c.insert_one({"_id": 2})
            assert one.receive().document


class TestEnds:
    def test_kill_cursors(self, raw: RawClient, ten: Db) -> None:
        cursor_id = opened(raw, ten)
        reply = raw.call({"killCursors": "c", "cursors": [Int64(cursor_id), Int64(7)], "$db": ten.name})
        assert reply["cursorsKilled"] == [cursor_id]
        assert reply["cursorsNotFound"] == [7]
        assert reply["cursorsAlive"] == reply["cursorsUnknown"] == []
        assert get_more(raw, ten, cursor_id)["code"] == 43

    @pytest.mark.parametrize(("cursors", "code"), [(["x"], 14), ([5], 14), (5, 14), (None, 10065)])
    def test_refused_kill_cursors(self, raw: RawClient, ten: Db, cursors: Any, code: int) -> None:
        assert raw.call({"killCursors": "c", "cursors": cursors, "$db": ten.name})["code"] == code

    def test_a_waiting_get_more_is_woken_when_its_cursor_is_killed(
        self, server: RunningServer, database: Db
    ) -> None:
        with raw_client(server) as waiting:
            cursor_id = waiting_get_more(waiting, server, database)
            reply = database.command({"killCursors": "c", "cursors": [Int64(cursor_id)]})
            assert reply["cursorsKilled"] == [cursor_id]
            assert get_code(waiting) == 237
            assert get_more(waiting, database, cursor_id)["code"] == 43

    def test_a_waiting_get_more_ends_when_its_client_disconnects(
        self, server: RunningServer, database: Db
    ) -> None:
        with raw_client(server) as waiting:
            cursor_id = waiting_get_more(waiting, server, database)
        wait_for(lambda: server.server.first.cursors.get(cursor_id) is None)

    def test_a_dropped_collection(self, raw: RawClient, ten: Db) -> None:
        cursor_id = opened(raw, ten)
        ten.c.drop()
        assert get_more(raw, ten, cursor_id)["code"] == 175
        assert get_more(raw, ten, cursor_id)["code"] == 43

    def test_a_renamed_collection(self, raw: RawClient, ten: Db) -> None:
        cursor_id = opened(raw, ten)
        ten.c.rename("d")
        assert get_more(raw, ten, cursor_id)["code"] == 175

    def test_a_dropped_index(self, raw: RawClient, ten: Db) -> None:
        ten.c.create_index("x")
        cursor_id = opened(raw, ten, hint="x_1")
        ten.c.drop_index("x_1")
        assert get_more(raw, ten, cursor_id)["code"] == 175

    def test_the_end_of_a_session(self, client: MongoClient[Document], ten: Db) -> None:
        with client.start_session() as session:
            cursor = ten.c.find(batch_size=2, session=session)
            next(cursor)
            client.admin.command({"killSessions": [session.session_id]})
            with pytest.raises(CursorNotFound):
                list(cursor)

    def test_the_next_get_more_gets_the_error_that_ended_the_cursor(self, own_server: RunningServer) -> None:
        with connected(own_server) as client, raw_client(own_server) as raw:
            database = client.shop
            database.c.insert_many([{"_id": i} for i in range(10)])
            cursor_id = opened(raw, database)

            async def fail() -> None:
                error = CommandError(ErrorCode.InterruptedDueToReplStateChange, "stepped down")
                own_server.server.first.cursors.fail_all(error)

            own_server.call(fail())
            assert get_more(raw, database, cursor_id)["code"] == 11602
            assert get_more(raw, database, cursor_id)["code"] == 43

    def test_the_time_of_a_find_counts_for_its_get_mores(self, raw: RawClient, database: Db) -> None:
        database.c.insert_many([{"_id": i, "a": list(range(300))} for i in range(1000)])
        slow = {"$gt": [{"$sum": {"$map": {"input": "$a", "in": {"$add": ["$$this", 1]}}}}, 0]}
        found = {"$expr": {"$or": [{"$lt": ["$_id", 2]}, slow]}}
        cursor_id = opened(raw, database, filter=found, maxTimeMS=60)
        codes: list[int] = []
        while not codes:
            reply = get_more(raw, database, cursor_id, batchSize=50)
            if reply["ok"] != 1:
                codes.append(reply["code"])
            elif reply["cursor"]["id"] == 0:
                pytest.fail("the scan was not slow enough to run out of time")
        assert codes == [50]


class TestIdleness:
    def test_idle_cursors_time_out(self) -> None:
        with running() as server, connected(server) as client, raw_client(server) as raw:
            database = client.shop
            database.c.insert_many([{"_id": i} for i in range(10)])
            plain = opened(raw, database)
            kept = opened(raw, database, noCursorTimeout=True)
            lsid = {"id": Binary(b"s" * 16, 4)}
            in_session = opened(raw, database, lsid=lsid)

            async def pass_time(seconds: float) -> int:
                server.server.wall.advance(seconds)
                return server.server.first.cursors.reap()

            assert server.call(pass_time(599)) == 0
            assert server.call(pass_time(2)) == 1
            assert get_more(raw, database, plain)["code"] == 43
            assert get_more(raw, database, kept, batchSize=1)["ok"] == 1
            assert get_more(raw, database, in_session, batchSize=1, lsid=lsid)["ok"] == 1
            client.admin.command({"setParameter": 1, "enableTimeoutOfInactiveSessionCursors": True})
            assert server.call(pass_time(601)) == 1
            assert get_more(raw, database, in_session, lsid=lsid)["code"] == 43

    def test_the_timeout_can_be_set(self) -> None:
        with running() as server, connected(server) as client, raw_client(server) as raw:
            client.shop.c.insert_many([{"_id": i} for i in range(10)])
            client.admin.command({"setParameter": 1, "cursorTimeoutMillis": 1000})
            opened(raw, client.shop)

            async def pass_time() -> int:
                server.server.wall.advance(2)
                return server.server.first.cursors.reap()

            assert server.call(pass_time()) == 1


class TestAdministration:
    def test_current_op_shows_idle_cursors(self, client: MongoClient[Document], ten: Db) -> None:
        cursor = ten.c.find({"_id": {"$gte": 0}}, batch_size=2)
        next(cursor)
        shown = [
            operation
            for operation in client.admin.aggregate([{"$currentOp": {"idleCursors": True}}])
            if operation.get("type") == "idleCursor" and operation["ns"] == f"{ten.name}.c"
        ]
        assert len(shown) == 1
        details = shown[0]["cursor"]
        assert details["cursorId"] == cursor.cursor_id
        assert details["nDocsReturned"] == 2
        assert details["nBatchesReturned"] == 1
        assert details["tailable"] is details["awaitData"] is details["noCursorTimeout"] is False
        assert details["originatingCommand"]["filter"] == {"_id": {"$gte": 0}}
        assert details["planSummary"] == "IXSCAN { _id: 1 }"
        cursor.close()

    def test_server_status_counts(self, client: MongoClient[Document], ten: Db) -> None:
        def counts() -> Document:
            found: Document = client.admin.command("serverStatus")["metrics"]["cursor"]
            return found

        before = counts()
        cursor = ten.c.find(batch_size=2)
        next(cursor)
        after = counts()
        assert after["open"]["total"] == before["open"]["total"] + 1
        assert after["totalOpened"] == before["totalOpened"] + 1
        cursor.close()
        assert counts()["open"]["total"] == before["open"]["total"]


def test_writes_while_a_cursor_is_read(database: Db) -> None:
    """A slow reader and a busy writer: documents that existed at the start are returned exactly once."""
    database.c.insert_many([{"_id": i} for i in range(2000)])
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            database.c.insert_one({"_id": f"new {number}"})
            database.c.delete_one({"_id": f"new {number - 5}"})
            database.c.update_one({"_id": number % 2000}, {"$set": {"x": "y" * (number % 50)}})
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        found = [d["_id"] for d in database.c.find(batch_size=100) if isinstance(d["_id"], int)]
    finally:
        stop.set()
        writer.join()
    assert found == list(range(2000))


def get_code(raw: RawClient) -> int:
    code: int = decode(raw.receive().document)["code"]
    return code
