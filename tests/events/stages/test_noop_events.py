"""Events stored as no-op entries: their type, their fields, and the streams that show them."""

from typing import Any

import pytest
from bson import Int64, Timestamp

from tailrace.bson.documents import decode, encode
from tailrace.events.oplog_entry import parse_entry
from tailrace.events.resume_token import ResumeToken
from tailrace.events.stages.render import Shape, render
from tailrace.events.stages.stage import Batch
from tailrace.events.stages.transform.document import Transform
from tests.events.stages.streams import OTHER_UUID, UUID, entry, stream, types

NS = "shop.orders"
SCOPES = [NS, "shop", None]
EXPANDED = {"showExpandedEvents": True}
SYSTEM = {"showSystemEvents": True}
MIGRATIONS = {"showMigrationEvents": True}

SHARD_KEY: dict[str, Any] = {"shardKey": {"_id": "hashed"}, "unique": False}
RESHARD: dict[str, Any] = {"reshardUUID": OTHER_UUID, "shardKey": {"a": 1}, "oldShardKey": {"_id": 1}}
RESHARDING: dict[str, Any] = {"reshardingUUID": OTHER_UUID}


def noop(name: str, value: Any = NS, more: dict[str, Any] | None = None, **fields: Any) -> bytes:
    """Return an entry as servers write it: the field that names the event is first."""
    return entry(1, "n", {"msg": {name: value}}, **{"ns": NS, "o2": {name: value, **(more or {})}, **fields})


@pytest.mark.parametrize(
    ("name", "more", "visible_with"),
    [
        ("shardCollection", {**SHARD_KEY, "numInitialChunks": Int64(2), "capped": False}, EXPANDED),
        ("refineCollectionShardKey", {"shardKey": {"a": 1, "b": 1}, "oldShardKey": {"a": 1}}, EXPANDED),
        ("reshardCollection", {**RESHARD, "zones": [{"zone": "a"}]}, EXPANDED),
        ("migrateLastChunkFromShard", {"shardId": "s0"}, {**EXPANDED, **SYSTEM}),
        ("reshardBegin", RESHARDING, {}),
        ("reshardDoneCatchUp", RESHARDING, {}),
        ("reshardBlockingWrites", {**RESHARDING, "type": "reshardFinalOp"}, SYSTEM),
    ],
)
@pytest.mark.parametrize("ns", SCOPES)
def test_built_in_events(
    name: str, more: dict[str, Any], visible_with: dict[str, Any], ns: str | None
) -> None:
    oplog = [noop(name, more=more)]
    for spec in ({}, EXPANDED, SYSTEM, {**EXPANDED, **SYSTEM}):
        events = stream(oplog, spec, ns=ns)
        assert bool(events) is (visible_with.items() <= spec.items())
        for event in events:
            resharding = ["reshardingUUID"] if "reshardingUUID" in more else []
            uuid = ["collectionUUID"] if spec.get("showExpandedEvents") else []
            described = ["operationDescription"] if uuid else []
            assert list(event) == [
                *resharding, "_id", "operationType", "clusterTime", *uuid, "wallTime", "ns", *described,
            ]  # fmt: skip
            assert event["ns"] == {"db": "shop", "coll": "orders"}
            assert event.get("operationDescription", more) == more
            assert event.get("reshardingUUID") == more.get("reshardingUUID")
            token = ResumeToken.parse(encode(event["_id"]))
            assert token.uuid == bytes(UUID)
            assert decode(token.identifier or b"") == {"operationType": name, "operationDescription": more}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("migrateChunkToNewShard", NS),
        ("moveChunk", NS),
        ("movePrimary", "shop"),
        ("namespacePlacementChanged", 1),
        ("msg", "periodic noop"),
    ],
)
def test_internal_no_ops_are_never_shown(name: str, value: Any) -> None:
    for ns in SCOPES:
        assert stream([noop(name, value)], {**EXPANDED, **SYSTEM, **MIGRATIONS}, ns=ns) == []


def test_supported_events_always_have_a_description() -> None:
    supported: dict[str, Any] = {"supportedEvents": ["moveChunk", "anything"]}
    oplog = [noop("moveChunk", more={"donor": "s0"}), noop("anything", more={"x": 1})]
    assert stream(oplog, supported) == []
    events = stream(oplog, {**supported, **EXPANDED})
    assert types(events) == ["moveChunk", "anything"]
    for event in Transform(supported_noops=frozenset({"anything"}))(
        Batch(list(map(parse_entry, oplog)))
    ).items:
        assert "operationDescription" in decode(render(event, Shape(expanded=False), 2))


@pytest.mark.parametrize("name", ["moveChunk", "movePrimary", "namespacePlacementChanged"])
def test_control_events_are_known_without_being_supported(name: str) -> None:
    event = decode(render(Transform().transform(parse_entry(noop(name))), Shape(expanded=False), 2))
    assert event["operationType"] == name
    assert "operationDescription" in event


def test_an_event_of_a_whole_database_names_no_collection() -> None:
    move = noop("movePrimary", "shop", {"from": "a", "to": "b"}, ns="shop", ui=None)
    event = decode(render(Transform().transform(parse_entry(move)), Shape(), 2))
    assert event["ns"] == {"db": "shop"}
    assert event["operationDescription"] == {"from": "a", "to": "b"}


def test_the_first_known_field_names_the_event() -> None:
    payload = {"why": 1, "shardCollection": NS, "refineCollectionShardKey": NS}
    (event,) = stream([noop("x", o2=payload)], EXPANDED)
    assert event["operationType"] == "shardCollection"
    assert event["operationDescription"] == {"why": 1, "refineCollectionShardKey": NS}


def test_the_message_may_be_a_string() -> None:
    raw = encode({**decode(noop("shardCollection")), "o": "shard the collection"})
    assert types(stream([raw], EXPANDED)) == ["shardCollection"]


def test_an_entry_without_a_uuid_gives_an_event_without_one() -> None:
    (event,) = stream([noop("reshardBegin", more=RESHARDING, ui=None)], EXPANDED)
    assert "collectionUUID" not in event
    assert ResumeToken.parse(encode(event["_id"])).uuid is None


def test_resharding_events_of_the_temporary_collection_need_both_options() -> None:
    ns = "shop.system.resharding.0f"
    done = noop("reshardDoneCatchUp", ns, RESHARDING, ns=ns, fromMigrate=True)
    visible = [
        bool(stream([done], {**first, **second}, ns="shop"))
        for first in ({}, SYSTEM)
        for second in ({}, MIGRATIONS)
    ]
    assert visible == [False, False, False, True]


@pytest.mark.parametrize(
    ("touched", "visible"),
    [
        ([NS], [True, True, True]),
        (["other.a", NS], [True, True, True]),
        (["shop.items"], [False, True, True]),
        (["other.a"], [False, False, True]),
        (["admin.a", "shop.system.users"], [False, False, False]),
        ([], [False, False, False]),
    ],
)
def test_streams_that_show_the_end_of_a_prepared_transaction(touched: list[str], visible: list[bool]) -> None:
    session: dict[str, Any] = {"lsid": {"id": UUID}, "txnNumber": Int64(3)}
    end = noop("endOfTransaction", touched, session, ns="admin.$cmd", ui=None, **session)
    assert [bool(stream([end], EXPANDED, ns=ns)) for ns in SCOPES] == visible
    assert all(not stream([end], {}, ns=ns) for ns in SCOPES)
    for event in stream([end], EXPANDED, ns=None):
        assert list(event) == [
            "txnNumber", "lsid", "_id", "operationType", "clusterTime", "wallTime", "operationDescription",
        ]  # fmt: skip


def test_a_collection_stream_resumes_after_the_end_of_a_transaction() -> None:
    session: dict[str, Any] = {"lsid": {"id": UUID}, "txnNumber": Int64(3)}
    end = noop("endOfTransaction", [NS], session, ns="admin.$cmd", ui=None, **session)
    later = entry(2, "i", {"_id": 2})
    (first, second) = stream([end, later], EXPANDED)
    assert stream([end, later], {**EXPANDED, "resumeAfter": first["_id"]}) == [second]
    assert second["clusterTime"] == Timestamp(1_700_000_000, 2)
