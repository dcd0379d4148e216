"""Event records, and events that the server split."""

from typing import Any

import bson
import pytest
from bson import SON, Timestamp
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.database import Database

from tailrace import EventRecord, watch
from tailrace.client.events import EventNamespace, UpdateDescription
from tailrace.client.fragments import merged
from tailrace.testing.replica_set import ReplicaSet
from tests.client.shells import opened

Event = dict[str, Any]

SPLIT: list[Event] = [{"$changeStreamSplitLargeEvent": {}}]
MEGABYTE = 1 << 20


def test_an_update_has_its_fields(tailrace_database: Database[Event]) -> None:
    orders = tailrace_database.orders
    orders.insert_one({"_id": 1, "a": 1, "b": 1, "list": [1, 2, 3]})
    with watch(orders, full_document="updateLookup") as stream:
        orders.update_one({"_id": 1}, {"$set": {"a": 2}, "$unset": {"b": 1}})
        document = next(stream)
        event = EventRecord.of(document)
    assert event.document is document
    assert event.token == document["_id"]
    assert event.operation_type == "update"
    assert event.namespace == EventNamespace(tailrace_database.name, "orders")
    assert str(event.namespace) == f"{tailrace_database.name}.orders"
    assert event.document_key == {"_id": 1}
    assert event.update_description == UpdateDescription({"a": 2}, ("b",), ())
    assert event.full_document == {"_id": 1, "a": 2, "list": [1, 2, 3]}
    assert event.full_document_before_change is None
    assert isinstance(event.cluster_time, Timestamp)
    assert event.wall_time is not None


def test_a_rename_has_two_namespaces(tailrace_database: Database[Event]) -> None:
    tailrace_database.old.insert_one({})
    with watch(tailrace_database, show_expanded_events=True) as stream:
        tailrace_database.old.rename("new")
        event = EventRecord.of(next(stream))
    assert (event.operation_type, event.to) == ("rename", EventNamespace(tailrace_database.name, "new"))
    assert event.update_description is None
    assert event.operation_description is not None
    assert event.collection_uuid is not None


@pytest.fixture
def large(server: ReplicaSet) -> Event:
    """A document that fits into an event; an event of its update does not."""
    database = server.client().large
    database.drop_collection("events")
    database.create_collection("events", changeStreamPreAndPostImages={"enabled": True})
    document = {"_id": 1, "a": "x" * 7 * MEGABYTE}
    database.events.insert_one(document)
    return document


def change(server: ReplicaSet) -> None:
    server.client().large.events.update_one({"_id": 1}, {"$set": {"a": "y" * 7 * MEGABYTE}})


IMAGES: Event = {"full_document": "required", "full_document_before_change": "required"}


def test_a_split_event_comes_as_one(server: ReplicaSet, shell: str, large: Event) -> None:
    with opened(
        shell, server.uri, "large.events", SPLIT, merge_fragments=True, batch_size=1, **IMAGES
    ) as stream:
        before = stream.resume_token
        change(server)
        server.client().large.events.insert_one({"_id": 2})
        # The first fragment has arrived when the connection breaks.
        assert stream.try_next() is None
        assert stream.resume_token == before
        data = {"failCommands": ["getMore"], "closeConnection": True}
        with server.fail_point(mode={"times": 1}, data=data):
            event = stream.next()
        assert event["operationType"] == "update"
        assert "splitEvent" not in event
        assert event["fullDocumentBeforeChange"] == large
        assert event["fullDocument"]["a"][0] == "y"
        assert event["updateDescription"]["updatedFields"]["a"][0] == "y"
        assert stream.resume_token == event["_id"]
        assert stream.next()["documentKey"] == {"_id": 2}


def test_a_stream_can_resume_after_a_split_event(server: ReplicaSet, large: Event) -> None:
    client: MongoClient[RawBSONDocument] = MongoClient(server.uri, document_class=RawBSONDocument)
    with client:
        events = client.large.events
        with watch(events, SPLIT, merge_fragments=True, **IMAGES) as stream:
            change(server)
            event = next(stream)
            assert isinstance(event, RawBSONDocument)
            assert "splitEvent" not in event
            token = event["_id"]
        server.client().large.events.delete_one({"_id": 1})
        with watch(events, SPLIT, merge_fragments=True, resume_after=token, **IMAGES) as stream:
            assert next(stream)["operationType"] == "delete"


def test_descriptions_have_what_an_event_has() -> None:
    assert UpdateDescription.of(None) is None
    assert UpdateDescription.of({}) == UpdateDescription({}, (), (), None)
    truncated = [{"field": "a", "newSize": 1}]
    full = {
        "updatedFields": {"a": 1},
        "removedFields": ["b"],
        "truncatedArrays": truncated,
        "disambiguatedPaths": {"c.0": ["c", "0"]},
    }
    found = UpdateDescription.of(full)
    assert found == UpdateDescription({"a": 1}, ("b",), tuple(truncated), {"c.0": ["c", "0"]})


@pytest.mark.parametrize("kind", [dict, SON, RawBSONDocument])
def test_a_merged_event_has_the_class_of_its_fragments(kind: Any) -> None:
    parts: list[Event] = [
        {"_id": 1, "splitEvent": {"fragment": 1, "of": 2}, "a": 1},
        {"_id": 2, "splitEvent": {"fragment": 2, "of": 2}, "b": 2},
    ]
    made = [kind(bson.encode(part)) if kind is RawBSONDocument else kind(part) for part in parts]
    found = merged(made)
    assert type(found) is kind
    assert dict(found) == {"_id": 2, "a": 1, "b": 2}
