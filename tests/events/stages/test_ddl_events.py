"""Events of commands: their exact fields, with and without expanded events, and their tokens."""

from typing import Any

import pytest
from bson import Int64

from tailrace.bson.documents import decode, encode
from tailrace.errors import CommandError
from tailrace.events.resume_token import ResumeToken
from tests.events.stages.streams import OTHER_UUID, UUID, command, entry, stream

ALL = {"showExpandedEvents": True, "showSystemEvents": True}
INDEX: dict[str, Any] = {"v": 2, "key": {"a": 1.0}, "name": "a_1"}
OTHER_INDEX: dict[str, Any] = {"v": 2, "key": {"b": -1}, "name": "b_-1"}
BUILD: dict[str, Any] = {"indexBuildUUID": OTHER_UUID, "indexes": [INDEX, OTHER_INDEX]}
OPTIONS: dict[str, Any] = {"capped": True, "size": Int64(4096), "idIndex": {"v": 2, "key": {"_id": 1}}}
TO = {"db": "shop", "coll": "archive"}

# o, o2, operation type, operationDescription, fields after it
SHAPES: list[tuple[dict[str, Any], Any, str, Any, dict[str, Any]]] = [
    ({"drop": "orders"}, {"numRecords": Int64(3)}, "drop", None, {}),
    ({"create": "orders", **OPTIONS}, {"ident": "x"}, "create", OPTIONS, {"nsType": "collection"}),
    ({"create": "orders"}, None, "create", {}, {"nsType": "collection"}),
    (
        {"create": "orders", "timeseries": {"timeField": "t"}},
        None, "create", {"timeseries": {"timeField": "t"}}, {"nsType": "timeseries"},
    ),
    ({"createIndexes": "orders", **INDEX}, None, "createIndexes", {"indexes": [INDEX]}, {}),
    ({"commitIndexBuild": "orders", **BUILD}, None, "createIndexes", {"indexes": BUILD["indexes"]}, {}),
    ({"startIndexBuild": "orders", **BUILD}, None, "startIndexBuild", {"indexes": BUILD["indexes"]}, {}),
    (
        {"abortIndexBuild": "orders", **BUILD, "cause": {"ok": False, "code": 11000}},
        None, "abortIndexBuild", {"indexes": BUILD["indexes"]}, {},
    ),
    ({"dropIndexes": "orders", "index": "a_1"}, INDEX, "dropIndexes", {"indexes": [INDEX]}, {}),
    (
        {"collMod": "orders", "index": {"name": "a_1", "hidden": True}},
        {"collectionOptions_old": {"uuid": UUID}, "indexOptions_old": {"hidden": False}},
        "modify", {"index": {"name": "a_1", "hidden": True}},
        {"stateBeforeChange": {"collectionOptions": {"uuid": UUID}, "indexOptions": {"hidden": False}}},
    ),
    (
        {"collMod": "orders", "validator": {}}, {"collectionOptions_old": {}},
        "modify", {"validator": {}}, {"stateBeforeChange": {"collectionOptions": {}}},
    ),
    (
        {"renameCollection": "shop.orders", "stayTemp": 0, "dropTarget": OTHER_UUID, "to": "shop.archive"},
        {"numRecords": Int64(3)}, "rename", {"dropTarget": OTHER_UUID, "to": TO}, {},
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("o", "o2", "kind", "description", "later"), SHAPES, ids=[next(iter(shape[0])) for shape in SHAPES]
)
@pytest.mark.parametrize("ns", ["shop", None])
def test_fields_of_events_of_commands(
    o: dict[str, Any], o2: Any, kind: str, description: Any, later: dict[str, Any], ns: str | None
) -> None:
    oplog = [command(1, o, o2=o2)]
    (event,) = stream(oplog, ALL, ns=ns)
    identifier = {"operationType": kind} | (
        {} if description is None else {"operationDescription": description}
    )
    token = ResumeToken.parse(encode(event["_id"]))
    assert (token.uuid, token.txn_op_index) == (bytes(UUID), 0)
    assert token.identifier == encode(identifier)
    expected: dict[str, Any] = {
        **({"to": TO} if kind == "rename" else {}),
        "_id": event["_id"],
        "operationType": kind,
        "clusterTime": event["clusterTime"],
        "collectionUUID": UUID,
        "wallTime": event["wallTime"],
        "ns": {"db": "shop", "coll": "orders"},
        **({} if description is None else {"operationDescription": description}),
        **later,
    }
    assert encode(event) == encode(expected)

    plain = stream(oplog, ns=ns)
    assert bool(plain) is (kind in ("drop", "rename"))
    for shown in plain:
        for hidden in ("collectionUUID", "operationDescription"):
            expected.pop(hidden, None)
        assert encode(shown) == encode(expected)


def test_dropping_a_database() -> None:
    for ns in ("shop", None):
        event = stream([command(1, {"dropDatabase": 1}, fromMigrate=False)], ALL, ns=ns)[0]
        assert list(event) == ["_id", "operationType", "clusterTime", "wallTime", "ns"]
        assert event["ns"] == {"db": "shop"}
        token = ResumeToken.parse(encode(event["_id"]))
        assert (token.uuid, decode(token.identifier or b"")) == (None, {"operationType": "dropDatabase"})


def test_a_collection_name_may_have_dots() -> None:
    (event,) = stream([command(1, {"renameCollection": "shop.a.b", "to": "shop.c.d.e"})], ns="shop")
    assert (event["ns"], event["to"]) == ({"db": "shop", "coll": "a.b"}, {"db": "shop", "coll": "c.d.e"})


VIEW: dict[str, Any] = {"viewOn": "orders", "pipeline": [], "collation": {"locale": "en"}}
BUCKETS: dict[str, Any] = {"viewOn": "system.buckets.orders", "pipeline": []}


@pytest.mark.parametrize(
    ("op", "definition", "kind", "later"),
    [
        ("i", VIEW, "create", {"operationDescription": VIEW, "nsType": "view"}),
        ("i", BUCKETS, "create", {"operationDescription": BUCKETS, "nsType": "timeseries"}),
        ("u", VIEW, "modify", {"operationDescription": VIEW}),
        ("d", {}, "drop", {}),
    ],
)
def test_events_of_views(op: str, definition: dict[str, Any], kind: str, later: dict[str, Any]) -> None:
    o = {"_id": "shop.v.w", **definition}
    o2 = None if op == "d" else {"_id": "shop.v.w"}
    oplog = [entry(1, op, o, o2=o2, ns="shop.system.views")]
    images = {"fullDocument": "required", "fullDocumentBeforeChange": "required"}
    (event,) = stream(oplog, {"showExpandedEvents": True, **images}, ns="shop")
    assert list(event) == ["_id", "operationType", "clusterTime", "wallTime", "ns", *later]
    assert (event["operationType"], event["ns"]) == (kind, {"db": "shop", "coll": "v.w"})
    assert {name: event[name] for name in later} == later
    token = ResumeToken.parse(encode(event["_id"]))
    described = {name: value for name, value in later.items() if name == "operationDescription"}
    assert (token.uuid, token.identifier) == (bytes(UUID), encode({"operationType": kind, **described}))
    assert stream(oplog, ns="shop") == stream(oplog, {"showExpandedEvents": True}) == []


@pytest.mark.parametrize("o", [{}, {"_id": 5}, {"$v": 2, "diff": {"u": {"viewOn": "x"}}}])
def test_a_view_without_a_name_stops_the_stream(o: dict[str, Any]) -> None:
    oplog = [entry(1, "u", o, o2={"_id": "shop.v"}, ns="shop.system.views")]
    assert stream(oplog, ns="shop") == []
    with pytest.raises(CommandError) as raised:
        stream(oplog, {"showExpandedEvents": True}, ns="shop")
    assert raised.value.code == 40532
