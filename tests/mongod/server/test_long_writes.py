"""Commands that write much let others write meanwhile, and can be ended."""

import threading
from typing import Any
from uuid import uuid4

import pytest
from bson import Binary, Int64, decode
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import BulkWriteError, OperationFailure

from tests.mongod.server.endless import Running, counting, operations
from tests.mongod.server.oplog import commands, entries
from tests.mongod.server.raw_client import RawClient
from tests.mongod.server.running import Document, RunningServer, wait_for

Db = Database[Document]
INTERRUPTED = 11601
OUT_OF_TIME = 50
SLOW = counting(25, counting(25, 1))
"""About a millisecond for each document."""


def written(server: RunningServer, database: Db) -> str:
    """The namespaces of the operations that were logged, one letter for each collection, in order."""
    found = []
    for entry in entries(server, database.name):
        found += [each["ns"] for each in entry["o"].get("applyOps", [entry])]
    return "".join(ns.partition(".")[2] for ns in found if not ns.endswith(".$cmd"))


class Meanwhile:
    """Another client, which inserts into the collection `o` until the end of the block."""

    def __init__(self, uri: str, database: Db) -> None:
        self._client = MongoClient[Document](uri)
        self._others = self._client[database.name].o
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._ended.is_set():
            self._others.insert_one({})

    def __enter__(self) -> None:
        self._others.insert_one({})
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._client.close()


def kill(client: MongoClient[Document], database: Db) -> None:
    for operation in operations(client, database.name):
        client.admin.command("killOp", op=operation["opid"])


def test_others_write_between_the_documents_of_an_insert(
    server: RunningServer, uri: str, database: Db
) -> None:
    with Meanwhile(uri, database):
        database.c.insert_many([{"_id": n} for n in range(8000)])
    assert [document["_id"] for document in database.c.find()] == list(range(8000))
    order = written(server, database)
    assert order.count("c") == 8000
    assert "o" in order.strip("o")
    # Those of a batch share an entry, also if others write.
    assert {
        len(entry["o"]["applyOps"]) for entry in entries(server, database.name) if "applyOps" in entry["o"]
    } == {500}


def test_others_write_between_the_documents_of_an_update(
    server: RunningServer, uri: str, database: Db
) -> None:
    database.c.insert_many([{"_id": n, "n": 0} for n in range(5000)])
    database.c.create_index("n")
    before = len(written(server, database))
    with Meanwhile(uri, database):
        outcome = database.c.update_many({"n": {"$gte": 0}}, {"$inc": {"n": 1}})
    assert (outcome.matched_count, outcome.modified_count) == (5000, 5000)
    # An update moves a document forward in the index, where it is not met again.
    assert database.c.count_documents({"n": 1}) == 5000
    order = written(server, database)[before:]
    assert order.count("c") == 5000
    assert "o" in order.strip("o")


def test_others_write_between_the_documents_of_a_delete(
    server: RunningServer, uri: str, database: Db
) -> None:
    database.c.insert_many([{"_id": n} for n in range(8000)])
    before = len(written(server, database))
    with Meanwhile(uri, database):
        assert database.c.delete_many({"_id": {"$gte": 10}}).deleted_count == 7990
    assert [document["_id"] for document in database.c.find()] == list(range(10))
    assert "o" in written(server, database)[before:].strip("o")


def test_statements_of_a_long_bulk_see_those_before_them(uri: str, database: Db) -> None:
    with Meanwhile(uri, database):
        reply = database.client.admin.command(
            "bulkWrite",
            1,
            ops=[
                *({"insert": 0, "document": {"_id": n, "n": 0}} for n in range(6000)),
                {"insert": 0, "document": {"_id": 0}},
                {"update": 0, "filter": {}, "updateMods": {"$inc": {"n": 1}}, "multi": True},
                {"delete": 0, "filter": {"n": 1}, "multi": True},
            ],
            nsInfo=[{"ns": f"{database.name}.c"}],
            ordered=False,
            errorsOnly=True,
        )
    assert (reply["nInserted"], reply["nModified"], reply["nDeleted"]) == (6000, 6000, 6000)
    assert [(error["idx"], error["code"]) for error in reply["cursor"]["firstBatch"]] == [(6000, 11000)]


def test_errors_of_a_long_insert(uri: str, database: Db) -> None:
    database.c.insert_many([{"_id": 7}, {"_id": 9000}])
    with Meanwhile(uri, database), pytest.raises(BulkWriteError) as failure:
        database.c.insert_many([{"_id": n} for n in range(10_000)], ordered=False)
    assert [error["index"] for error in failure.value.details["writeErrors"]] == [7, 9000]
    assert failure.value.details["nInserted"] == 9998
    with pytest.raises(BulkWriteError) as failure:
        database.c.insert_many([{"_id": n} for n in (*range(10_000, 12_000), 7, 30_000)])
    assert failure.value.details["nInserted"] == 2000


@pytest.mark.parametrize(("limit", "code"), [({}, INTERRUPTED), ({"maxTimeMS": 300}, OUT_OF_TIME)])
def test_an_update_that_is_ended_has_changed_some_documents(
    client: MongoClient[Document], server: RunningServer, uri: str, database: Db, limit: Document, code: int
) -> None:
    database.c.insert_many([{"_id": n} for n in range(10_000)])
    update = {"q": {}, "u": [{"$set": {"work": SLOW}}], "multi": True}
    command = Running(uri, database.name, {"update": "c", "updates": [update], **limit})
    if not limit:
        wait_for(lambda: database.c.find_one({"work": 625}) is not None)
        kill(client, database)
    assert command.join() == code
    command.client.close()
    changed = database.c.count_documents({"work": 625})
    assert changed < 10_000
    assert changed or limit, "a busy machine may change none within the limit"
    assert len([entry for entry in entries(server, database.name) if entry["op"] == "u"]) == changed


def test_a_retry_inserts_the_rest_of_an_insert_that_was_ended(
    client: MongoClient[Document], raw: RawClient, database: Db
) -> None:
    database.create_collection("c", validator={"$expr": {"$gt": [SLOW, 0]}})
    insert: dict[str, Any] = {
        "insert": "c",
        "documents": [{"_id": n} for n in range(3000)],
        "lsid": {"id": Binary(uuid4().bytes, 4)},
        "txnNumber": Int64(1),
        "$db": database.name,
    }
    raw.send(insert)
    wait_for(lambda: database.c.find_one() is not None)
    kill(client, database)
    assert decode(raw.receive().document)["code"] == INTERRUPTED
    before = database.c.count_documents({})
    assert 0 < before < 3000
    database.command("collMod", "c", validator={})
    reply = raw.call(insert)
    assert reply["n"] == 3000
    assert reply["retriedStmtIds"] == list(range(before))
    assert [document["_id"] for document in database.c.find()] == list(range(3000))


def test_an_update_whose_collection_is_dropped_ends(uri: str, database: Db) -> None:
    database.c.insert_many([{"_id": n} for n in range(10_000)])
    update = {"q": {}, "u": [{"$set": {"work": SLOW}}], "multi": True}
    command = Running(uri, database.name, {"update": "c", "updates": [update]})
    wait_for(lambda: database.c.find_one({"work": 625}) is not None)
    database.c.drop()
    assert command.join() is None  # the error is that of the statement
    command.client.close()
    assert "c" not in database.list_collection_names()


def test_an_update_in_a_transaction_is_one_commit(
    client: MongoClient[Document], uri: str, database: Db
) -> None:
    database.c.insert_many([{"_id": n, "n": 0} for n in range(3000)])
    with Meanwhile(uri, database), client.start_session() as session, session.start_transaction():
        database.c.update_many({}, {"$inc": {"n": 1}}, session=session)
        assert database.c.count_documents({"n": 1}) == 0
    assert database.c.count_documents({"n": 1}) == 3000


def test_others_write_while_results_are_written(server: RunningServer, uri: str, database: Db) -> None:
    database.c.insert_many([{"_id": n} for n in range(3000)])
    database.t.insert_one({"_id": "old"})
    database.t.create_index("x")
    with Meanwhile(uri, database):
        database.c.aggregate([{"$set": {"x": "$_id"}}, {"$out": "t"}])
        assert database.t.count_documents({}) == 3000
    logged = [entry for entry in entries(server, database.name) if "tmp.agg_out" in str(entry["o"])]
    names = [next(iter(entry["o"])) for entry in logged]
    assert names == ["create", "createIndexes", *["applyOps"] * 6, "renameCollection"]
    between = [
        entry for entry in entries(server, database.name) if logged[0]["ts"] < entry["ts"] < logged[-1]["ts"]
    ]
    assert any(entry["ns"].endswith(".o") for entry in between)
    assert database.t.find_one({"x": 2999}) == {"_id": 2999, "x": 2999}
    assert sorted(database.t.index_information()) == ["_id_", "x_1"]


def test_results_that_fail_leave_nothing(server: RunningServer, database: Db) -> None:
    database.c.insert_many([{"_id": n, "d": 2999 - n} for n in range(3000)])
    database.t.insert_one({"_id": "old"})
    with pytest.raises(OperationFailure, match="divide by zero"):
        database.c.aggregate([{"$set": {"x": {"$divide": [1, "$d"]}}}, {"$out": "t"}])
    assert list(database.t.find()) == [{"_id": "old"}]
    assert sorted(database.list_collection_names()) == ["c", "t"]
    assert [next(iter(o)) for o in commands(server, database.name)][-2:] == ["create", "drop"]
