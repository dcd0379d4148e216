"""No command holds up another one, and every command can be ended, whatever it computes."""

import threading
from uuid import uuid4

import pytest
from bson import Binary, Int64, decode
from pymongo import MongoClient
from pymongo.database import Database

from tests.mongod.server.endless import COMMANDS, ENDLESS, Running, computing, counting, operations, prepare
from tests.mongod.server.raw_client import RawClient, raw_client
from tests.mongod.server.running import Document, RunningServer, wait_for

Db = Database[Document]
INTERRUPTED = 11601
OUT_OF_TIME = 50
CURSOR_KILLED = 237


@pytest.fixture
def prepared(database: Db) -> Db:
    prepare(database)
    return database


@pytest.mark.parametrize("name", COMMANDS)
def test_others_are_answered_while_a_command_computes_and_kill_op_ends_it(
    client: MongoClient[Document], uri: str, prepared: Db, name: str
) -> None:
    with computing(client, uri, prepared.name, COMMANDS[name]) as command:
        for number in range(5):
            assert client.admin.command("ping")["ok"] == 1
            prepared.others.insert_one({"_id": number})
            prepared.others.update_one({"_id": number}, {"$set": {"x": 1}})
            assert prepared.others.find_one({"_id": number}) == {"_id": number, "x": 1}
        (operation,) = operations(client, prepared.name)
        client.admin.command("killOp", op=operation["opid"])
        assert command.join() == INTERRUPTED
    assert prepared.strict.find_one() is None
    assert list(prepared.c.find()) == [{"_id": 1}, {"_id": 2}, {"_id": 3}]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_time_limit_ends_a_computation(uri: str, prepared: Db, name: str) -> None:
    command = Running(uri, prepared.name, {**COMMANDS[name], "maxTimeMS": 100})
    assert command.join() == OUT_OF_TIME
    command.client.close()


@pytest.mark.parametrize("name", ["find", "project", "update"])
def test_a_computation_ends_with_its_client(
    client: MongoClient[Document], server: RunningServer, prepared: Db, name: str
) -> None:
    with raw_client(server) as other:
        other.send({**COMMANDS[name], "$db": prepared.name})
        wait_for(lambda: bool(operations(client, prepared.name)))
        # When others can write, the writer has given an update back.
        prepared.others.insert_one({})
    wait_for(lambda: not operations(client, prepared.name))


def test_kill_cursors_ends_a_get_more(client: MongoClient[Document], raw: RawClient, prepared: Db) -> None:
    value = {"$cond": [{"$eq": ["$_id", 1]}, 1, ENDLESS]}
    opening = {"aggregate": "c", "pipeline": [{"$project": {"r": value}}], "cursor": {"batchSize": 1}}
    cursor_id = raw.call({**opening, "$db": prepared.name})["cursor"]["id"]
    raw.send({"getMore": Int64(cursor_id), "collection": "c", "$db": prepared.name})
    wait_for(lambda: bool(operations(client, prepared.name)))
    prepared.command("killCursors", "c", cursors=[Int64(cursor_id)])
    assert decode(raw.receive().document)["code"] == CURSOR_KILLED


@pytest.mark.parametrize("place", ["$_id", "$fullDocument._id"])
def test_the_filter_of_a_stream_holds_up_nobody(
    client: MongoClient[Document], prepared: Db, place: str
) -> None:
    heavy = counting(10_000, counting(10_000, counting(10_000, {"$size": [[place]]})))
    # A cursor belongs to its session; without this one, another thread may take the implicit one.
    session = client.start_session()
    opened = prepared.command(
        "aggregate",
        "c",
        pipeline=[{"$changeStream": {}}, {"$match": {"$expr": {"$gt": [heavy, 0]}}}],
        cursor={},
        session=session,
    )
    more = {"getMore": Int64(opened["cursor"]["id"]), "collection": "c", "maxTimeMS": 60_000}
    codes: list[int | None] = []

    def read() -> None:
        try:
            prepared.command(more, session=session)
        except Exception as error:
            codes.append(getattr(error, "code", None))

    reading = threading.Thread(target=read)
    reading.start()
    wait_for(lambda: bool(operations(client, prepared.name)))
    for number in range(10, 15):
        prepared.c.insert_one({"_id": number})
        assert client.admin.command("ping")["ok"] == 1
    (operation,) = operations(client, prepared.name)
    client.admin.command("killOp", op=operation["opid"])
    reading.join()
    session.end_session()
    assert codes == [INTERRUPTED]


class TestRehearsedWrites:
    """Writes that compute for so long that the writer gives them back."""

    def test_no_change_of_another_client_is_lost(self, prepared: Db) -> None:
        work = counting(120, counting(120, 1))
        changes = 40

        def compute() -> None:
            for _ in range(4):
                prepared.c.update_one({"_id": 1}, [{"$set": {"work": work, "seen": "$n"}}])

        computing_thread = threading.Thread(target=compute)
        computing_thread.start()
        for _ in range(changes):
            prepared.c.update_one({"_id": 1}, {"$inc": {"n": 1}})
        computing_thread.join()
        found = prepared.c.find_one({"_id": 1})
        assert found is not None
        assert (found["n"], found["work"]) == (changes, 120 * 120)

    def test_a_document_that_no_longer_matches_is_not_changed(self, prepared: Db) -> None:
        """As in a queue, where several clients take the next free document."""
        slow = {"$gt": [counting(80, counting(80, "$_id")), 0]}
        prepared.queue.insert_many([{"_id": number, "free": True} for number in range(1, 9)])
        taken: list[int] = []

        def take() -> None:
            for _ in range(4):
                found = prepared.queue.find_one_and_update(
                    {"free": True, "$expr": slow}, {"$set": {"free": False}}
                )
                assert found is not None
                taken.append(found["_id"])

        takers = [threading.Thread(target=take) for _ in range(2)]
        for taker in takers:
            taker.start()
        for taker in takers:
            taker.join()
        assert sorted(taken) == list(range(1, 9))

    def test_later_statements_see_the_changes_of_earlier_ones(self, prepared: Db) -> None:
        work = counting(100, counting(100, 1))
        statements = [
            {"q": {"_id": 9}, "u": [{"$set": {"a": work}}], "upsert": True},
            {"q": {"a": 100 * 100}, "u": [{"$set": {"b": {"$add": [work, "$a"]}}}]},
            {"q": {"b": {"$gt": 1}}, "u": {"$inc": {"c": 1}}, "multi": True},
        ]
        reply = prepared.command("update", "c", updates=statements)
        assert (reply["n"], reply["nModified"]) == (3, 2)
        assert prepared.c.find_one({"_id": 9}) == {"_id": 9, "a": 10_000, "b": 20_000, "c": 1}

    def test_later_statements_do_not_see_what_earlier_ones_have_deleted(self, prepared: Db) -> None:
        slow = {"$expr": {"$gt": [counting(100, counting(100, "$_id")), 0]}}
        queries: list[Document] = [{"_id": 1, **slow}, slow, {"_id": 2, **slow}]
        reply = prepared.command("delete", "c", deletes=[{"q": query, "limit": 1} for query in queries])
        assert reply["n"] == 2
        assert list(prepared.c.find()) == [{"_id": 3}]

    def test_in_a_transaction(self, client: MongoClient[Document], prepared: Db) -> None:
        work = counting(100, counting(100, "$_id"))
        with client.start_session() as session, session.start_transaction():
            prepared.c.update_one({"_id": 2}, {"$set": {"x": 5}}, session=session)
            prepared.c.update_many({}, [{"$set": {"r": {"$add": [work, "$x"]}}}], session=session)
            assert prepared.c.find_one({"_id": 2}, session=session) == {"_id": 2, "x": 5, "r": 20_005}
        assert prepared.c.find_one({"_id": 3}) == {"_id": 3, "r": None}

    def test_a_retryable_write_is_executed_once(self, raw: RawClient, prepared: Db) -> None:
        work = counting(100, counting(100, 1))
        command = {
            "update": "c",
            "updates": [{"q": {"_id": 1}, "u": [{"$set": {"n": {"$add": [{"$ifNull": ["$n", 0]}, work]}}}]}],
            "lsid": {"id": Binary(uuid4().bytes, 4)},
            "txnNumber": Int64(1),
            "$db": prepared.name,
        }
        for _ in range(2):
            assert raw.call(command)["nModified"] == 1
        assert prepared.c.find_one({"_id": 1}) == {"_id": 1, "n": 10_000}

    def test_a_validator_decides_as_always(self, server: RunningServer, database: Db) -> None:
        work = counting(80, counting(80, 1))
        database.create_collection(
            "v", validator={"$expr": {"$eq": [{"$mod": [{"$add": [work, "$n"]}, 2]}, 0]}}
        )
        database.v.insert_one({"n": 2})
        reply = database.command("insert", "v", documents=[{"n": 3}])
        assert [error["code"] for error in reply["writeErrors"]] == [121]
        reply = database.command("update", "v", updates=[{"q": {"n": 2}, "u": {"$inc": {"n": 1}}}])
        assert [error["code"] for error in reply["writeErrors"]] == [121]
        assert [found["n"] for found in database.v.find()] == [2]
