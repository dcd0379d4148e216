"""Building an index while others write, and builds that end early."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import OperationFailure

from tests.mongod.server.endless import Running, operations
from tests.mongod.server.oplog import commands, entries
from tests.mongod.server.running import Document, RunningServer, wait_for

Db = Database[Document]
INTERRUPTED = 11601
INDEX_BUILD_ABORTED = 276
DUPLICATE_KEY = 11000
INDEX = {"key": {"list": 1, "n": 1}, "name": "lists"}


@pytest.fixture
def filled(database: Db) -> Db:
    """A collection whose index on `list` takes about a second to build."""
    database.c.insert_many([{"_id": n, "n": n, "list": list(range(n, n + 200))} for n in range(300)])
    return database


@contextmanager
def building(server: RunningServer, uri: str, database: Db, **index: object) -> Iterator[Running]:
    """A build that has begun, and has to end in the block."""
    command = Running(uri, database.name, {"createIndexes": "c", "indexes": [{**INDEX, **index}]})
    wait_for(lambda: names(server, database)[-1:] == ["startIndexBuild"])
    try:
        yield command
    finally:
        command.join()
        command.client.close()


def names(server: RunningServer, database: Db) -> list[str]:
    return [next(iter(o)) for o in commands(server, database.name)]


def indexes(database: Db) -> list[str]:
    return sorted(database.c.index_information())


def test_others_write_while_an_index_is_built(server: RunningServer, uri: str, filled: Db) -> None:
    with building(server, uri, filled) as command:
        for n in range(300, 320):
            filled.c.insert_one({"_id": n, "n": n, "list": [n, -n]})
            filled.c.update_one({"_id": n - 200}, {"$push": {"list": -1}})
            filled.c.update_one({"_id": n - 300}, {"$set": {"n": -n}})
            filled.c.delete_one({"_id": n - 100})
        assert "lists" not in filled.c.index_information()
    assert command.code is None
    assert indexes(filled) == ["_id_", "lists"]
    checked = filled.command("validate", "c", full=True)
    assert (checked["valid"], checked["nInvalidDocuments"]) == (True, 0)
    found = filled.c.find({"list": -1}).hint("lists")
    assert sorted(document["_id"] for document in found) == list(range(100, 120))
    order = [
        next(iter(entry["o"])) if entry["op"] == "c" else entry["op"]
        for entry in entries(server, filled.name)
    ]
    assert {"i", "u", "d"} <= set(order[order.index("startIndexBuild") : order.index("commitIndexBuild")])


def test_kill_op_ends_a_build_and_leaves_nothing(
    client: MongoClient[Document], server: RunningServer, uri: str, filled: Db
) -> None:
    with building(server, uri, filled) as command:
        (operation,) = operations(client, filled.name)
        client.admin.command("killOp", op=operation["opid"])
        assert command.join() == INTERRUPTED
    assert indexes(filled) == ["_id_"]
    start, abort = [o for o in commands(server, filled.name) if "IndexBuild" in next(iter(o))]
    assert abort == {
        "abortIndexBuild": "c",
        "indexBuildUUID": start["indexBuildUUID"],
        "indexes": start["indexes"],
        "cause": {
            "ok": False,
            "code": INTERRUPTED,
            "codeName": "Interrupted",
            "errmsg": abort["cause"]["errmsg"],
        },
    }
    filled.c.create_index("n")
    assert indexes(filled) == ["_id_", "n_1"]


def test_the_same_index_is_built_once(server: RunningServer, uri: str, filled: Db) -> None:
    with building(server, uri, filled):
        reply = filled.command("createIndexes", "c", indexes=[INDEX])
    assert reply["note"] == "all indexes already exist"
    assert reply["numIndexesBefore"] == 2
    assert names(server, filled).count("startIndexBuild") == 1


def test_dropping_the_collection_ends_a_build(server: RunningServer, uri: str, filled: Db) -> None:
    with building(server, uri, filled) as command:
        filled.c.drop()
        assert command.join() == INDEX_BUILD_ABORTED
    assert filled.list_collection_names() == []
    filled.c.insert_one({"list": [1]})
    assert indexes(filled) == ["_id_"]


def test_a_collection_that_is_renamed_keeps_its_build(server: RunningServer, uri: str, filled: Db) -> None:
    with building(server, uri, filled) as command:
        filled.c.rename("d")
        assert command.join() is None
    assert sorted(filled.d.index_information()) == ["_id_", "lists"]


def test_duplicates_that_are_gone_at_the_end_do_not_matter(
    server: RunningServer, uri: str, filled: Db
) -> None:
    filled.c.update_many({"_id": {"$in": [0, 299]}}, {"$set": {"list": [1], "n": -1}})
    with building(server, uri, filled, unique=True) as command:
        filled.c.insert_one({"_id": "again", "list": [1], "n": -1})
        filled.c.delete_one({"_id": 0})
        filled.c.delete_one({"_id": 299})
    assert command.code is None
    assert [document["_id"] for document in filled.c.find({"list": 1, "n": -1}).hint("lists")] == ["again"]
    with pytest.raises(OperationFailure) as failure:
        filled.c.insert_one({"list": 1, "n": -1})
    assert failure.value.code == DUPLICATE_KEY


def test_a_duplicate_at_the_end_is_the_error_of_the_build(
    server: RunningServer, uri: str, filled: Db
) -> None:
    with building(server, uri, filled, unique=True) as command:
        filled.c.insert_one({"_id": "first", "list": [9, 7], "n": -1})
        filled.c.insert_one({"_id": "second", "list": [9, 7, 8], "n": -1})
        assert command.join() == DUPLICATE_KEY
    assert indexes(filled) == ["_id_"]
    cause = commands(server, filled.name)[-1]["cause"]
    assert (cause["code"], cause["keyValue"]) == (DUPLICATE_KEY, {"list": 7, "n": -1})
    assert filled.c.count_documents({"n": -1}) == 2


def test_a_document_that_cannot_be_indexed_is_the_error_of_the_build(
    server: RunningServer, uri: str, filled: Db
) -> None:
    with building(server, uri, filled) as command:
        filled.c.insert_one({"_id": "parallel", "list": [1, 2], "n": [1, 2]})
        assert command.join() == 171
    assert indexes(filled) == ["_id_"]
    assert filled.c.find_one("parallel") is not None


def test_an_open_transaction_is_waited_for(
    client: MongoClient[Document], server: RunningServer, uri: str, filled: Db
) -> None:
    with client.start_session() as session, building(server, uri, filled, unique=True) as command:
        session.start_transaction()
        filled.c.insert_one({"_id": "new", "list": [-5], "n": -5}, session=session)
        waiting = threading.Event()

        def commit() -> None:
            wait_for(lambda: any(o.get("waitingForLock") for o in operations(client, filled.name)))
            waiting.set()
            session.commit_transaction()

        committing = threading.Thread(target=commit)
        committing.start()
        assert command.join() is None
        committing.join()
        assert waiting.is_set()
    assert filled.c.find_one({"list": -5}, hint="lists") == {"_id": "new", "list": [-5], "n": -5}


@pytest.mark.parametrize("size", [1, 1 << 20], ids=["at once", "in pieces"])
@pytest.mark.parametrize(("value", "is_multikey"), [(3, False), ([3, 4], True)])
def test_an_index_is_multikey_if_a_document_has_several_keys(
    database: Db, size: int, value: object, is_multikey: bool
) -> None:
    database.c.insert_many([{"n": n, "pad": bytes(size)} for n in (1, 2, value)])
    database.c.create_index("n")
    explained = database.command("explain", {"find": "c", "filter": {"n": 3}}, verbosity="queryPlanner")
    assert explained["queryPlanner"]["winningPlan"]["inputStage"]["isMultiKey"] is is_multikey
