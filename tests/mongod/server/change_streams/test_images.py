"""Documents before and after a change: stored, computed, looked up, expired."""

from typing import Any

import pytest
from bson import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import OperationFailure

from tailrace.bson.raw import elements
from tests.mongod.server.change_streams.stream_commands import Document, now, one, take
from tests.mongod.server.running import RunningServer


@pytest.fixture
def recorded(database: Database[Document]) -> Collection[Document]:
    """A collection that stores pre-images."""
    return database.create_collection("recorded", changeStreamPreAndPostImages={"enabled": True})


def test_images_of_every_change(recorded: Collection[Document]) -> None:
    with recorded.watch(full_document="required", full_document_before_change="required") as stream:
        recorded.insert_one({"_id": 1, "a": 1})
        recorded.update_one({"_id": 1}, {"$set": {"a": 2}})
        recorded.replace_one({"_id": 1}, {"b": 1})
        recorded.delete_one({"_id": 1})
        insert, update, replace, delete = take(stream, 4)
    assert "fullDocumentBeforeChange" not in insert
    assert update["fullDocumentBeforeChange"] == {"_id": 1, "a": 1}
    assert update["fullDocument"] == {"_id": 1, "a": 2}
    assert replace["fullDocumentBeforeChange"] == {"_id": 1, "a": 2}
    assert replace["fullDocument"] == {"_id": 1, "b": 1}
    assert delete["fullDocumentBeforeChange"] == {"_id": 1, "b": 1}
    assert "fullDocument" not in delete


def names(document: RawBSONDocument) -> list[str]:
    """The names of its fields, also of one that it has twice."""
    return [name.decode() for _, name, _, _ in elements(bytes(document.raw), 0)]


def test_a_field_that_an_update_moves_is_at_the_end_or_twice(recorded: Collection[Document]) -> None:
    """As on a real 6.0.27: a diff, or a part of one, that only inserts is appended blindly."""
    pad = "x" * 100
    recorded.insert_one({"_id": 1, "pad": pad, "a": {"p": 1, "pad": pad}, "b": 2, "c": 3})
    moved = {"pad": "$pad", "a": {"pad": "$a.pad", "p": "$a.p"}, "c": "$c", "b": 5, "new": "!"}
    raw: CodecOptions[RawBSONDocument] = CodecOptions(document_class=RawBSONDocument)
    with recorded.with_options(codec_options=raw).watch(full_document="whenAvailable") as stream:
        recorded.update_one({"_id": 1}, [{"$replaceWith": {"_id": "$_id", **moved}}])
        image = next(stream)["fullDocument"]
    assert names(image) == ["_id", "pad", "a", "c", "b", "new"]
    assert names(image["a"]) == ["p", "pad", "p"]
    assert list(recorded.find_one({}) or {}) == ["_id", "pad", "a", "c", "b", "new"]


def test_images_in_transactions_and_batches(
    client: MongoClient[Document], recorded: Collection[Document]
) -> None:
    recorded.insert_many([{"_id": number, "a": number} for number in range(4)])
    with recorded.watch(full_document_before_change="required") as stream:
        with client.start_session() as session, session.start_transaction():
            recorded.update_one({"_id": 0}, {"$set": {"a": 10}}, session=session)
            recorded.delete_one({"_id": 1}, session=session)
        recorded.delete_many({"_id": {"$gte": 2}})
        events = take(stream, 4)
    assert [event["fullDocumentBeforeChange"] for event in events[:2]] == [
        {"_id": 0, "a": 0},
        {"_id": 1, "a": 1},
    ]
    for event in events[2:]:
        number = event["documentKey"]["_id"]
        assert event["fullDocumentBeforeChange"] == {"_id": number, "a": number}


def test_without_recording_there_are_no_images(database: Database[Document]) -> None:
    plain = database.plain
    plain.insert_one({"_id": 1})
    with plain.watch(full_document="whenAvailable", full_document_before_change="whenAvailable") as stream:
        plain.update_one({"_id": 1}, {"$set": {"a": 1}})
        event = one(stream)
        assert event["fullDocumentBeforeChange"] is None
        assert event["fullDocument"] is None
    options: list[dict[str, Any]] = [
        {"full_document_before_change": "required"},
        {"full_document": "required"},
    ]
    for option in options:
        with plain.watch(**option) as stream:
            plain.update_one({"_id": 1}, {"$inc": {"a": 1}})
            with pytest.raises(OperationFailure) as caught:
                stream.try_next()
            assert caught.value.code == 47


def test_recording_is_switched_on_and_off(database: Database[Document]) -> None:
    plain = database.plain
    plain.insert_one({"_id": 1, "a": 0})
    with plain.watch(full_document_before_change="whenAvailable") as stream:
        plain.update_one({"_id": 1}, {"$inc": {"a": 1}})
        database.command("collMod", "plain", changeStreamPreAndPostImages={"enabled": True})
        plain.update_one({"_id": 1}, {"$inc": {"a": 1}})
        database.command("collMod", "plain", changeStreamPreAndPostImages={"enabled": False})
        plain.update_one({"_id": 1}, {"$inc": {"a": 1}})
        images = [event["fullDocumentBeforeChange"] for event in take(stream, 3)]
    assert images == [None, {"_id": 1, "a": 1}, None]


def test_update_lookup_shows_the_current_document(database: Database[Document]) -> None:
    c = database.c
    c.insert_many([{"_id": 1}, {"_id": 2}])
    with c.watch(full_document="updateLookup") as stream:
        c.update_one({"_id": 1}, {"$set": {"a": 1}})
        c.update_one({"_id": 1}, {"$set": {"a": 2}})
        c.update_one({"_id": 2}, {"$set": {"a": 1}})
        c.delete_one({"_id": 2})
        events = take(stream, 4)
    assert [event.get("fullDocument") for event in events] == [
        {"_id": 1, "a": 2},
        {"_id": 1, "a": 2},
        None,
        None,
    ]
    assert "fullDocument" in events[2]
    assert "fullDocument" not in events[3]


@pytest.mark.parametrize("match_uuid", [False, True])
def test_update_lookup_and_a_collection_of_the_same_name(
    database: Database[Document], match_uuid: bool
) -> None:
    c = database.c
    c.insert_one({"_id": 1, "old": True})
    start = now(database)
    c.update_one({"_id": 1}, {"$set": {"a": 1}})
    c.drop()
    c.insert_one({"_id": 1, "new": True})
    spec: Document = {"fullDocument": "updateLookup", "startAtOperationTime": start}
    if match_uuid:
        spec["matchCollectionUUIDForUpdateLookup"] = True
    reply = database.command(
        "aggregate", 1, pipeline=[{"$changeStream": spec}, {"$match": {"operationType": "update"}}], cursor={}
    )
    (update,) = reply["cursor"]["firstBatch"]
    assert update["fullDocument"] == (None if match_uuid else {"_id": 1, "new": True})


def test_images_expire(own_server: RunningServer, own_client: MongoClient[Document]) -> None:
    c = own_client.shop.create_collection("c", changeStreamPreAndPostImages={"enabled": True})
    own_client.admin.command(
        {"setClusterParameter": {"changeStreamOptions": {"preAndPostImages": {"expireAfterSeconds": 100}}}}
    )
    c.insert_one({"_id": 1, "a": 0})
    with c.watch(full_document_before_change="whenAvailable") as stream:
        token = stream._resume_token
        c.update_one({"_id": 1}, {"$inc": {"a": 1}})
        assert one(stream)["fullDocumentBeforeChange"] == {"_id": 1, "a": 0}
    assert own_client.config["system.preimages"].count_documents({}) == 1
    own_server.call(own_server.server.advance_clock(200))
    c.update_one({"_id": 1}, {"$inc": {"a": 1}})
    own_server.call(own_server.server.advance_clock(1))
    with c.watch(full_document_before_change="whenAvailable", resume_after=token) as stream:
        assert one(stream)["fullDocumentBeforeChange"] is None
        assert one(stream)["fullDocumentBeforeChange"] == {"_id": 1, "a": 1}


def test_the_stored_images_can_be_read(recorded: Collection[Document], client: MongoClient[Document]) -> None:
    recorded.insert_one({"_id": 1, "a": 0})
    recorded.delete_one({"_id": 1})
    (image,) = (
        client.config["system.preimages"]
        .find({"preImage.a": 0, "preImage._id": 1})
        .sort("_id.ts", -1)
        .limit(1)
    )
    assert list(image) == ["_id", "operationTime", "preImage"]
    assert list(image["_id"]) == ["nsUUID", "ts", "applyOpsIndex"]


FAULTS: list[tuple[int, Any]] = [
    (40414, {}),
    (40415, {"enabled": True, "extra": 1}),
    (14, {"enabled": "yes"}),
    (14, True),
]


@pytest.mark.parametrize(("code", "option"), FAULTS)
def test_faulty_options_are_refused(database: Database[Document], code: int, option: Any) -> None:
    with pytest.raises(OperationFailure) as caught:
        database.command("create", "c", changeStreamPreAndPostImages=option)
    assert caught.value.code == code
    database.command("create", "d")
    with pytest.raises(OperationFailure) as caught:
        database.command("collMod", "d", changeStreamPreAndPostImages=option)
    assert caught.value.code == code
