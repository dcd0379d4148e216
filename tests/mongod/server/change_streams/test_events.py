"""Every event of a replica set, written and watched with a driver."""

from collections.abc import Iterator
from typing import Any

import pytest
from bson import DatetimeMS, Int64
from pymongo import MongoClient
from pymongo.change_stream import ChangeStream
from pymongo.collection import Collection
from pymongo.database import Database

from tests.mongod.server.change_streams.stream_commands import Document, get_more, one, open_stream, take


@pytest.fixture
def orders(database: Database[Document]) -> Collection[Document]:
    return database.orders


@pytest.fixture
def stream(orders: Collection[Document]) -> Iterator[ChangeStream[Document]]:
    with orders.watch() as opened:
        yield opened


@pytest.fixture
def expanded(database: Database[Document]) -> Iterator[ChangeStream[Document]]:
    with database.watch(show_expanded_events=True) as opened:
        yield opened


def shown(event: Document, *names: str) -> Document:
    return {name: event[name] for name in names if name in event}


def test_insert(orders: Collection[Document], stream: ChangeStream[Document]) -> None:
    orders.insert_one({"_id": 1, "item": "lamp"})
    event = one(stream)
    assert list(event) == [
        "_id", "operationType", "clusterTime", "wallTime", "fullDocument", "ns", "documentKey",
    ]  # fmt: skip
    assert shown(event, "operationType", "fullDocument", "ns", "documentKey") == {
        "operationType": "insert",
        "fullDocument": {"_id": 1, "item": "lamp"},
        "ns": {"db": orders.database.name, "coll": "orders"},
        "documentKey": {"_id": 1},
    }


def test_update_replace_delete(orders: Collection[Document], stream: ChangeStream[Document]) -> None:
    orders.insert_one({"_id": 1, "a": 1, "list": [1, 2, 3], "gone": 1})
    orders.update_one({"_id": 1}, {"$set": {"a": 2}, "$unset": {"gone": 1}, "$pop": {"list": 1}})
    orders.replace_one({"_id": 1}, {"b": 1})
    orders.delete_one({"_id": 1})
    _, update, replace, delete = take(stream, 4)
    assert update["operationType"] == "update"
    assert update["updateDescription"] == {
        "updatedFields": {"a": 2, "list": [1, 2]},
        "removedFields": ["gone"],
        "truncatedArrays": [],
    }
    assert "fullDocument" not in update
    assert shown(replace, "operationType", "fullDocument") == {
        "operationType": "replace",
        "fullDocument": {"_id": 1, "b": 1},
    }
    assert shown(delete, "operationType", "documentKey") == {
        "operationType": "delete",
        "documentKey": {"_id": 1},
    }
    assert stream.try_next() is None


def test_writes_that_change_nothing_show_nothing(
    orders: Collection[Document], stream: ChangeStream[Document]
) -> None:
    orders.insert_one({"_id": 1, "a": 1})
    orders.update_one({"_id": 1}, {"$set": {"a": 1}})
    orders.delete_one({"_id": 2})
    assert one(stream)["operationType"] == "insert"
    assert stream.try_next() is None


def test_many_documents_at_once(orders: Collection[Document], stream: ChangeStream[Document]) -> None:
    orders.insert_many([{"_id": number} for number in range(1200)])
    orders.update_many({"_id": {"$lt": 3}}, {"$set": {"x": 1}})
    orders.delete_many({"_id": {"$lt": 600}})
    events = take(stream, 1200 + 3 + 600)
    assert [event["documentKey"]["_id"] for event in events[:1200]] == list(range(1200))
    assert {event["operationType"] for event in events[1200:1203]} == {"update"}
    assert {event["documentKey"]["_id"] for event in events[1203:]} == set(range(600))
    tokens = [event["_id"]["_data"] for event in events]
    assert tokens == sorted(set(tokens))
    assert all("txnNumber" not in event for event in events)


def test_transaction(
    client: MongoClient[Document], orders: Collection[Document], stream: ChangeStream[Document]
) -> None:
    orders.insert_one({"_id": 0})
    with client.start_session() as session, session.start_transaction():
        lsid = session.session_id["id"]
        orders.insert_one({"_id": 1}, session=session)
        orders.update_one({"_id": 0}, {"$set": {"x": 1}}, session=session)
        orders.delete_one({"_id": 1}, session=session)
        assert one(stream)["documentKey"] == {"_id": 0}
        assert stream.try_next() is None
    events = take(stream, 3)
    assert [event["operationType"] for event in events] == ["insert", "update", "delete"]
    assert len({event["clusterTime"] for event in events}) == 1
    assert len({event["txnNumber"] for event in events}) == 1
    assert events[0]["lsid"]["id"] == lsid
    assert stream.try_next() is None


def test_large_transactions_are_one_transaction(
    client: MongoClient[Document], orders: Collection[Document], stream: ChangeStream[Document]
) -> None:
    text = "x" * 1_000_000
    orders.database.create_collection("orders")
    with client.start_session() as session, session.start_transaction():
        lsid = session.session_id["id"]
        for number in range(20):
            orders.insert_one({"_id": number, "text": text}, session=session)
    entries = list(client.local["oplog.rs"].find({"lsid.id": lsid, "o.applyOps.0.ns": orders.full_name}))
    assert [entry["o"].get("partialTxn") for entry in entries][:-1] == [True] * (len(entries) - 1)
    assert entries[-1]["o"]["count"] == Int64(20)
    events = take(stream, 20)
    assert [event["documentKey"]["_id"] for event in events] == list(range(20))
    assert len({event["clusterTime"] for event in events}) == 1


def test_drop_ends_a_collection_stream(orders: Collection[Document], stream: ChangeStream[Document]) -> None:
    orders.insert_one({"_id": 1})
    orders.drop()
    assert [event["operationType"] for event in take(stream, 3)] == ["insert", "drop", "invalidate"]
    assert stream.try_next() is None
    assert not stream.alive


def test_rename_ends_both_collections(database: Database[Document]) -> None:
    database.a.insert_one({"_id": 1})
    database.b.insert_one({"_id": 1})
    with database.a.watch() as source, database.b.watch() as target:
        database.a.rename("b", dropTarget=True)
        event = one(source)
        assert shown(event, "operationType", "ns", "to") == {
            "operationType": "rename",
            "ns": {"db": database.name, "coll": "a"},
            "to": {"db": database.name, "coll": "b"},
        }
        assert one(source)["operationType"] == "invalidate"
        assert [event["operationType"] for event in take(target, 2)] == ["rename", "invalidate"]


def test_drop_database(client: MongoClient[Document], database: Database[Document]) -> None:
    database.a.insert_one({"_id": 1})
    database.b.insert_one({"_id": 1})
    with database.watch() as stream, client.watch([{"$match": {"ns.db": database.name}}]) as cluster:
        client.drop_database(database.name)
        events = take(stream, 4)
        assert [event["operationType"] for event in events] == ["drop", "drop", "dropDatabase", "invalidate"]
        assert events[2]["ns"] == {"db": database.name}
        assert not stream.alive
        assert [event["operationType"] for event in take(cluster, 3)] == ["drop", "drop", "dropDatabase"]
        assert cluster.alive


def test_expanded_events(database: Database[Document], expanded: ChangeStream[Document]) -> None:
    database.create_collection("c", capped=True, size=4096)
    database.c.create_index("x", name="by_x")
    database.c.insert_one({"_id": 1, "x": 1})
    database.c.create_index("y", name="by_y")
    database.command("collMod", "c", index={"name": "by_x", "hidden": True})
    database.command("collMod", "c", changeStreamPreAndPostImages={"enabled": True})
    database.c.drop_index("by_x")
    database.c.rename("d")
    events = take(expanded, 8)
    assert [event["operationType"] for event in events] == [
        "create", "createIndexes", "insert", "createIndexes", "modify", "modify", "dropIndexes", "rename",
    ]  # fmt: skip
    create, first_index = events[:2]
    uuid = create["collectionUUID"]
    assert create["operationDescription"]["capped"] is True
    assert create["operationDescription"]["idIndex"] == {"v": 2, "key": {"_id": 1}, "name": "_id_"}
    assert create["nsType"] == "collection"
    assert all(event["collectionUUID"] == uuid for event in events)
    assert first_index["operationDescription"] == {"indexes": [{"v": 2, "key": {"x": 1}, "name": "by_x"}]}
    assert events[4]["operationDescription"]["index"] == {"name": "by_x", "hidden": True}
    assert events[4]["stateBeforeChange"]["indexOptions"] == {"hidden": False}
    assert events[6]["operationDescription"]["indexes"][0]["name"] == "by_x"
    assert events[7]["operationDescription"]["to"] == {"db": database.name, "coll": "d"}


def test_views(database: Database[Document], expanded: ChangeStream[Document]) -> None:
    database.create_collection("v", viewOn="c", pipeline=[{"$match": {"a": 1}}])
    database.command("collMod", "v", viewOn="d", pipeline=[])
    database.v.drop()
    events = take(expanded, 3)
    assert [event["operationType"] for event in events] == ["create", "modify", "drop"]
    assert all(event["ns"] == {"db": database.name, "coll": "v"} for event in events)
    view = events[0]
    assert view["operationDescription"] == {"viewOn": "c", "pipeline": [{"$match": {"a": 1}}]}
    assert view["nsType"] == "view"


def test_time_series_are_views_on_buckets(database: Database[Document]) -> None:
    expanded = {"showExpandedEvents": True}
    cursors = [
        database.command("aggregate", 1, pipeline=[{"$changeStream": spec}], cursor={})["cursor"]
        for spec in ({}, expanded, {**expanded, "showSystemEvents": True})
    ]
    database.create_collection("ts", timeseries={"timeField": "t", "metaField": "m"})
    database.ts.insert_one({"t": DatetimeMS(1_700_000_000_000), "m": 1})
    database.drop_collection("ts")
    plain, views, everything = [get_more(database, cursor)["nextBatch"] for cursor in cursors]
    assert plain == []
    assert [(event["operationType"], event["ns"]["coll"]) for event in views] == [
        ("create", "ts"),
        ("drop", "ts"),
    ]
    assert "collectionUUID" not in views[0]
    assert views[0]["nsType"] == "timeseries"
    assert views[0]["operationDescription"]["viewOn"] == "system.buckets.ts"
    assert [(event["operationType"], event["ns"]["coll"]) for event in everything] == [
        ("create", "system.buckets.ts"),
        ("create", "system.views"),
        ("create", "ts"),
        ("insert", "system.buckets.ts"),
        ("drop", "ts"),
        ("drop", "system.buckets.ts"),
    ]


def test_collections_created_in_transactions(
    client: MongoClient[Document], database: Database[Document], expanded: ChangeStream[Document]
) -> None:
    with client.start_session() as session, session.start_transaction():
        database.create_collection("c", session=session)
        database.c.insert_one({"_id": 1}, session=session)
    events = take(expanded, 2)
    assert [event["operationType"] for event in events] == ["create", "insert"]
    assert events[0]["clusterTime"] == events[1]["clusterTime"]


def test_an_unseen_namespace_shows_nothing(
    database: Database[Document], stream: ChangeStream[Document]
) -> None:
    database.other.insert_one({"_id": 1})
    database["system.js"].insert_one({"_id": "f"})
    assert stream.try_next() is None


USER_STAGES: list[tuple[list[Document], Any]] = [
    ([{"$match": {"fullDocument.n": {"$gt": 1}}}, {"$project": {"documentKey": 1}}], {"_id": 2}),
    ([{"$addFields": {"documentKey": "$fullDocument.n"}}, {"$match": {"documentKey": 2}}], 2),
    ([{"$match": {"$expr": {"$eq": ["$fullDocument.n", 2]}}}], {"_id": 2}),
]


@pytest.mark.parametrize(("pipeline", "expected"), USER_STAGES)
def test_pipelines(orders: Collection[Document], pipeline: list[Document], expected: Any) -> None:
    with orders.watch(pipeline) as stream:
        orders.insert_many([{"_id": 1, "n": 1}, {"_id": 2, "n": 2}])
        assert one(stream)["documentKey"] == expected
        assert stream.try_next() is None


def test_the_collation_applies_to_the_users_stages(database: Database[Document]) -> None:
    cursor = open_stream(
        database,
        "orders",
        {},
        {"$match": {"fullDocument.name": "LAMP"}},
        collation={"locale": "en", "strength": 2},
    )
    database.orders.insert_many([{"_id": 1, "name": "lamp"}, {"_id": 2, "name": "lump"}])
    (event,) = get_more(database, cursor)["nextBatch"]
    assert event["documentKey"] == {"_id": 1}


def test_large_events_are_split(orders: Collection[Document]) -> None:
    orders.database.create_collection("orders", changeStreamPreAndPostImages={"enabled": True})
    orders.insert_one({"_id": 1, "text": "x" * 9_000_000})
    stages: list[Document] = [{"$changeStreamSplitLargeEvent": {}}]
    with orders.watch(stages, full_document_before_change="required") as stream:
        orders.replace_one({"_id": 1}, {"text": "y" * 9_000_000})
        first, second = one(stream), one(stream)
    assert first["splitEvent"] == {"fragment": 1, "of": 2}
    assert second["splitEvent"] == {"fragment": 2, "of": 2}
    with orders.watch(stages, full_document_before_change="required", resume_after=first["_id"]) as resumed:
        assert one(resumed) == second
