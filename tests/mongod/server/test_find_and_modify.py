"""`findAndModify` over the wire."""

from typing import Any

import pytest
from bson import ObjectId
from pymongo import ReturnDocument
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError, OperationFailure

from tests.mongod.server.running import Document
from tests.mongod.server.writing import entries_of


@pytest.fixture
def things(database: Database[Document]) -> Database[Document]:
    """A database with three things in it."""
    database.things.insert_many([{"_id": n, "a": n, "tags": ["x", "y", "z"]} for n in (1, 2, 3)])
    return database


def modified(database: Database[Document], **fields: Any) -> Document:
    """The reply to a findAndModify on `things`."""
    reply = database.command("findAndModify", "things", **fields)
    return {name: reply[name] for name in ("lastErrorObject", "value")}


def test_the_old_document(things: Database[Document]) -> None:
    assert modified(things, query={"_id": 2}, update={"$set": {"a": 5}, "$unset": {"tags": ""}}) == {
        "lastErrorObject": {"n": 1, "updatedExisting": True},
        "value": {"_id": 2, "a": 2, "tags": ["x", "y", "z"]},
    }
    assert things.things.find_one({"_id": 2}) == {"_id": 2, "a": 5}


def test_the_new_document(things: Database[Document]) -> None:
    found = things.things.find_one_and_update(
        {"a": {"$gt": 1}},
        {"$inc": {"a": 10}},
        sort=[("a", -1)],
        projection={"a": 1, "_id": 0},
        return_document=ReturnDocument.AFTER,
    )
    assert found == {"a": 13}


def test_nothing_matches(things: Database[Document]) -> None:
    assert modified(things, query={"_id": 9}, update={"$set": {"a": 5}}) == {
        "lastErrorObject": {"n": 0, "updatedExisting": False},
        "value": None,
    }
    assert modified(things, query={"_id": 9}, remove=True) == {"lastErrorObject": {"n": 0}, "value": None}


def test_an_upsert_returns_the_id(database: Database[Document]) -> None:
    assert modified(database, query={"_id": 7}, update={"$set": {"a": 1}}, upsert=True) == {
        "lastErrorObject": {"n": 1, "updatedExisting": False, "upserted": 7},
        "value": None,
    }
    new = modified(database, query={"b": 1}, update={"c": 1}, upsert=True, new=True)
    assert isinstance(new["lastErrorObject"]["upserted"], ObjectId)
    assert new["value"] == {"_id": new["lastErrorObject"]["upserted"], "c": 1}


def test_a_document_is_removed(things: Database[Document]) -> None:
    found = things.things.find_one_and_delete({}, sort=[("_id", -1)], projection={"tags": {"$slice": 1}})
    assert found == {"_id": 3, "a": 3, "tags": ["x"]}
    assert things.things.count_documents({}) == 2
    assert entries_of(things)[-1]["o"] == {"_id": 3}


def test_replacements_pipelines_and_array_filters(things: Database[Document]) -> None:
    assert things.things.find_one_and_replace({"_id": 1}, {"z": 1}, return_document=True) == {
        "_id": 1,
        "z": 1,
    }
    pipeline: list[Document] = [{"$set": {"a": {"$multiply": ["$a", 2]}}}, {"$unset": "tags"}]
    assert things.things.find_one_and_update({"_id": 2}, pipeline, return_document=True) == {"_id": 2, "a": 4}
    found = things.things.find_one_and_update(
        {"_id": 3}, {"$set": {"tags.$[t]": "Y"}}, array_filters=[{"t": "y"}], return_document=True
    )
    assert found == {"_id": 3, "a": 3, "tags": ["x", "Y", "z"]}


def test_a_positional_projection(things: Database[Document]) -> None:
    found = things.things.find_one_and_update(
        {"_id": 1, "tags": "y"}, {"$set": {"a": 9}}, projection={"tags.$": 1}
    )
    assert found == {"_id": 1, "tags": ["y"]}


def test_collation_hint_and_variables(database: Database[Document]) -> None:
    database.things.insert_one({"_id": "A", "n": 1})
    found = database.things.find_one_and_update(
        {"_id": "a"}, {"$inc": {"n": 1}}, collation={"locale": "en", "strength": 2}
    )
    assert found == {"_id": "A", "n": 1}
    reply = modified(
        database,
        query={"$expr": {"$eq": ["$n", "$$two"]}},
        update=[{"$set": {"n": "$$three"}}],
        let={"two": 2, "three": 3},
        new=True,
    )
    assert reply["value"] == {"_id": "A", "n": 3}
    with pytest.raises(OperationFailure) as failure:
        modified(database, query={}, update={"$set": {"a": 1}}, hint="none")
    assert failure.value.code == 2


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"update": {"a": 1}, "remove": True}, 9),
        ({"remove": True, "upsert": True}, 9),
        ({"remove": True, "new": True}, 9),
        ({"remove": True, "arrayFilters": []}, 9),
        ({}, 9),
        ({"update": 5}, 9),
        ({"update": {"$x": {"a": 1}}}, 9),
        ({"update": {"$set": {"_id": 5}}, "query": {}}, 66),
        ({"update": {"$set": {"a": 1}}, "query": 5}, 14),
        ({"update": {"$set": {"a": 1}}, "unknown": 5}, 40415),
        ({"update": {"$set": {"a": 1}}, "fields": {"a": 1, "b": 0}}, 31254),
    ],
)
def test_wrong_commands_are_refused(things: Database[Document], fields: Document, code: int) -> None:
    before = list(things.things.find())
    with pytest.raises(OperationFailure) as failure:
        modified(things, **fields)
    assert failure.value.code == code
    assert list(things.things.find()) == before


def test_errors_of_the_change_are_errors_of_the_command(database: Database[Document]) -> None:
    database.things.create_index("a", unique=True)
    database.things.insert_many([{"_id": 1, "a": 1}, {"_id": 2, "a": 2}])
    with pytest.raises(DuplicateKeyError) as duplicate:
        database.things.find_one_and_update({"_id": 1}, {"$set": {"a": 2}})
    assert duplicate.value.details is not None
    assert duplicate.value.details["keyValue"] == {"a": 2}
    database.create_collection("strict", validator={"a": 1})
    with pytest.raises(OperationFailure) as failure:
        database.strict.find_one_and_update({"_id": 1}, {"$set": {"a": 2}}, upsert=True)
    assert failure.value.code == 121
    database.create_collection("seen", viewOn="things", pipeline=[])
    with pytest.raises(OperationFailure) as failure:
        database.seen.find_one_and_delete({})
    assert failure.value.code == 166
