"""Documents and pre-images are asked of the source for many events at once, and are those that it shows."""

from collections.abc import Iterator
from typing import Any

import pytest
from bson import Decimal128, Int64, Timestamp
from pymongo import MongoClient
from pymongo.collation import Collation
from pymongo.collection import Collection

from tailrace.testing.replica_set import ReplicaSet
from tests.oracle.replay.real_streams import RealStreams
from tests.oracle.replay.stream_case import Part, StreamCase
from tests.support.fronted import Fronted

Document = dict[str, Any]
UPDATES = 300
FEW = 12
"""Look-ups of so many updates; what opens and reads a stream is included."""
IMAGES: Document = {"changeStreamPreAndPostImages": {"enabled": True}}


@pytest.fixture(scope="module")
def source() -> Iterator[ReplicaSet]:
    with ReplicaSet() as found:
        yield found


@pytest.fixture(scope="module")
def front(source: ReplicaSet) -> Iterator[Fronted]:
    with Fronted(source.uri) as found:
        yield found


def note(client: "MongoClient[Document]") -> Timestamp:
    time: Timestamp = client.admin.command("appendOplogNote", data={"note": 1})["operationTime"]
    return time


def finds(source: ReplicaSet) -> int:
    return int(source.client().admin.command("serverStatus")["metrics"]["commands"]["find"]["total"])


def both(source: ReplicaSet, front: Fronted, case: StreamCase) -> tuple[Part, Part]:
    end = note(source.client())
    return RealStreams(source.client(), end).read(case), RealStreams(front.client(), end).read(case)


@pytest.mark.parametrize(
    "options",
    [{"fullDocument": "updateLookup"}, {"fullDocument": "required", "fullDocumentBeforeChange": "required"}],
    ids=["documents", "images"],
)
def test_a_stream_that_catches_up_asks_once_for_many_updates(
    source: ReplicaSet, front: Fronted, options: Document
) -> None:
    database = source.client()[f"many_{options['fullDocument']}"]
    database.create_collection("orders", **IMAGES)
    database.orders.insert_many([{"_id": number, "a": 0} for number in range(UPDATES)])
    start = note(source.client())
    for number in range(UPDATES):
        database.orders.update_one({"_id": number}, {"$inc": {"a": 1}})
    case = StreamCase(database.name, "orders", {**options, "startAtOperationTime": start})
    end = note(source.client())
    real = RealStreams(source.client(), end).read(case)
    before = finds(source)
    ours = RealStreams(front.client(), end).read(case)
    assert ours == real
    assert len(real.events) == UPDATES
    assert 0 < finds(source) - before <= FEW


def write_keys(orders: "Collection[Document]") -> int:
    """Updates of documents, some of which other documents replace with equal keys; returns the events."""
    keys = [1, 1.5, Int64(2), Decimal128("3"), "a", None, {"a": 1}, {"a": "x"}, b"b", True]
    for key in keys:
        orders.insert_one({"_id": key})
        orders.update_one({"_id": key}, {"$set": {"b": 1}})
    orders.delete_many({"_id": {"$in": [1, "a", {"a": "x"}, b"b"]}})
    for other in (1.0, "A", {"a": "X"}):
        orders.insert_one({"_id": other})
        orders.update_one({"_id": other}, {"$set": {"b": 2}})
    return 2 * len(keys) + 4 + 6


def test_keys_find_the_documents_that_are_equal_to_them(source: ReplicaSet, front: Fronted) -> None:
    start = note(source.client())
    written = write_keys(source.client().keys.plain)
    case = StreamCase("keys", "plain", {"fullDocument": "updateLookup", "startAtOperationTime": start})
    real, ours = both(source, front, case)
    assert ours == real
    assert len(real.events) == written


def test_keys_that_a_collation_makes_equal(source: ReplicaSet, front: Fronted) -> None:
    """As a real server shows it (6.0.27)."""
    database = source.client().keys
    database.create_collection("collated", collation=Collation("en", strength=2))
    start = note(source.client())
    written = write_keys(database.collated)
    shown = {}
    with front.client().keys.collated.watch(
        full_document="updateLookup", start_at_operation_time=start
    ) as stream:
        for event in (next(stream) for _ in range(written)):
            if event["operationType"] == "update":
                shown[repr(event["documentKey"]["_id"])] = event["fullDocument"]
    assert shown["'a'"] == shown["'A'"] == {"_id": "A", "b": 2}
    assert shown["{'a': 'x'}"] == shown["{'a': 'X'}"] == {"_id": {"a": "X"}, "b": 2}
    assert shown["1"] == shown["1.0"] == {"_id": 1.0, "b": 2}
    assert shown["b'b'"] is None


def test_a_collection_with_another_uuid_shows_nothing(source: ReplicaSet, front: Fronted) -> None:
    orders = source.client().again.orders
    start = note(source.client())
    for _ in range(2):
        orders.insert_one({"_id": 1})
        orders.update_one({"_id": 1}, {"$set": {"b": 1}})
        orders.drop()
    orders.insert_one({"_id": 1})
    orders.update_one({"_id": 1}, {"$set": {"b": 2}})
    for options in ({}, {"matchCollectionUUIDForUpdateLookup": True}):
        asked = {"fullDocument": "updateLookup", "startAtOperationTime": start, **options}
        real, ours = both(source, front, StreamCase("again", None, asked))
        assert ours == real
        assert len(real.events) == 8


def test_pre_images_of_transactions_and_of_several_collections(source: ReplicaSet, front: Fronted) -> None:
    client = source.client()
    database = client.several
    for name in ("one", "two"):
        database.create_collection(name, **IMAGES)
        database[name].insert_many([{"_id": number, "a": name} for number in range(10)])
    database.create_collection("without")
    database.without.insert_one({"_id": 1})
    start = note(client)
    with client.start_session() as session, session.start_transaction():
        for number in range(10):
            for name in ("one", "two"):
                database[name].update_one({"_id": number}, {"$set": {"b": number}}, session=session)
    database.without.update_one({"_id": 1}, {"$set": {"b": 1}})
    database.one.delete_many({})
    for image in ("whenAvailable", "required"):
        options = {"fullDocument": image, "fullDocumentBeforeChange": image, "startAtOperationTime": start}
        real, ours = both(source, front, StreamCase("several", None, options))
        assert ours == real
        assert (real.error is None) == (image == "whenAvailable")
        assert len(real.events) == (31 if image == "whenAvailable" else 20)
