"""`delete` over the wire."""

import bson
import pytest
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import OperationFailure, WriteError

from tests.mongod.server.running import Document
from tests.mongod.server.writing import entries_of


@pytest.fixture
def things(database: Database[Document]) -> Database[Document]:
    """A database with five things in it."""
    database.things.insert_many([{"_id": n, "a": n % 2, "b": chr(ord("a") + n)} for n in range(5)])
    return database


def test_one_document_is_deleted(things: Database[Document]) -> None:
    assert things.things.delete_one({"a": 1}).deleted_count == 1
    assert [found["_id"] for found in things.things.find()] == [0, 2, 3, 4]
    entry = entries_of(things)[-1]
    assert (entry["op"], entry["o"]) == ("d", {"_id": 1})
    assert "o2" not in entry


def test_many_documents_are_deleted_in_one_entry(things: Database[Document]) -> None:
    assert things.things.delete_many({"a": 0}).deleted_count == 3
    assert [found["_id"] for found in things.things.find()] == [1, 3]
    entry = entries_of(things)[-1]
    assert [inner["o"]["_id"] for inner in entry["o"]["applyOps"]] == [4, 2, 0]
    assert not {"lsid", "txnNumber", "prevOpTime", "multiOpType"} & set(entry)


def test_a_group_of_one_is_a_plain_entry(things: Database[Document]) -> None:
    things.things.delete_many({"_id": 3})
    assert entries_of(things)[-1]["op"] == "d"


def test_more_documents_than_are_read_at_once_are_deleted(database: Database[Document]) -> None:
    database.things.create_index("a")
    database.things.insert_many([{"_id": n, "a": n % 3} for n in range(1500)])
    assert database.things.delete_many({"a": 1}).deleted_count == 500
    assert database.things.delete_many({}).deleted_count == 1000
    assert database.things.count_documents({}) == 0
    assert database.command("validate", "things")["valid"] is True


def test_deleting_from_a_missing_collection(database: Database[Document]) -> None:
    assert database.things.delete_many({}).deleted_count == 0
    assert database.things.delete_one({"_id": 1}).deleted_count == 0
    assert entries_of(database) == []


def test_pre_images_of_a_group_are_stored_by_position(database: Database[Document]) -> None:
    database.create_collection("things", changeStreamPreAndPostImages={"enabled": True})
    database.things.insert_many([{"_id": n, "a": n} for n in range(3)])
    database.things.delete_many({})
    entry = entries_of(database)[-1]
    images = database.client.config["system.preimages"].find({"_id.ts": entry["ts"]})
    kept = {image["_id"]["applyOpsIndex"]: image["preImage"] for image in images}
    deleted = [inner["o"]["_id"] for inner in entry["o"]["applyOps"]]
    assert kept == {index: {"_id": n, "a": n} for index, n in enumerate(deleted)}


def test_collation_hint_and_variables(things: Database[Document]) -> None:
    collation = {"locale": "en", "strength": 2}
    assert things.things.delete_many({"b": "C"}, collation=collation).deleted_count == 1
    statement = {"q": {"$expr": {"$eq": ["$_id", "$$wanted"]}}, "limit": 0}
    assert things.command("delete", "things", deletes=[statement], let={"wanted": 3})["n"] == 1
    reply = things.command("delete", "things", deletes=[{"q": {}, "limit": 1, "hint": "none"}])
    assert [error["code"] for error in reply["writeErrors"]] == [2]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"delete": "things", "deletes": [{"q": {}, "limit": 2}]}, 9),
        ({"delete": "things", "deletes": [{"q": {}}]}, 40414),
        ({"delete": "things", "deletes": [{"q": 1, "limit": 1}]}, 14),
        ({"delete": "things", "deletes": [{"q": {}, "limit": 1, "x": 1}]}, 40415),
        ({"delete": "things", "deletes": []}, 16),
        ({"delete": "things"}, 40414),
    ],
)
def test_wrong_commands_are_refused(database: Database[Document], command: Document, code: int) -> None:
    with pytest.raises(OperationFailure) as failure:
        database.command(command)
    assert failure.value.code == code


def test_ordered_and_unordered(things: Database[Document]) -> None:
    deletes = [{"q": {"$x": 1}, "limit": 1}, {"q": {"_id": 1}, "limit": 1}]
    ordered = things.command("delete", "things", deletes=deletes)
    assert (ordered["n"], [error["index"] for error in ordered["writeErrors"]]) == (0, [0])
    unordered = things.command("delete", "things", deletes=deletes, ordered=False)
    assert (unordered["n"], [error["index"] for error in unordered["writeErrors"]]) == (1, [0])


def test_views_and_internal_collections_are_refused(
    database: Database[Document], client: MongoClient[Document]
) -> None:
    database.create_collection("seen", viewOn="things", pipeline=[])
    with pytest.raises(WriteError) as failure:
        database.seen.delete_one({})
    assert failure.value.code == 166
    with pytest.raises(OperationFailure) as refused:
        client.local["oplog.rs"].delete_many({})
    assert refused.value.code == 73


def test_capped_collections_and_measurements_can_be_deleted(database: Database[Document]) -> None:
    database.create_collection("log", capped=True, size=4096)
    database.log.insert_many([{"_id": 1}, {"_id": 2}])
    assert database.log.delete_one({"_id": 1}).deleted_count == 1
    database.create_collection("weather", timeseries={"timeField": "t", "metaField": "m"})
    moment = bson.DatetimeMS(1_700_000_000_000)
    database.weather.insert_many([{"t": moment, "m": n, "v": n} for n in range(3)])
    assert database.weather.delete_many({"m": {"$gte": 1}}).deleted_count == 2
    assert entries_of(database)[-1]["o"]["applyOps"][0]["ns"].endswith(".system.buckets.weather")
