"""Entries that no server writes: each stops the stream with its code, after the events before it."""

from typing import Any

import pytest
from bson import Int64

from tailrace.bson.documents import decode, encode
from tailrace.errors import CommandError
from tailrace.events.oplog_entry import parse_entry
from tailrace.events.stages.transform.document import Transform
from tests.events.stages.streams import UUID, command, entry, insert, open_engine, update

EXPANDED = {"showExpandedEvents": True, "showSystemEvents": True}


def without(raw: bytes, name: str) -> bytes:
    return encode({field: value for field, value in decode(raw).items() if field != name})


@pytest.mark.parametrize(
    ("corrupt", "code"),
    [
        (entry(2, "i", {"_id": 1}, ui=None), 7826901),
        (entry(2, "u", {"_id": 1}, o2={"_id": 1}, ui=None), 7826901),
        (entry(2, "d", {"_id": 1}, ui=None), 7826901),
        (command(2, {"create": "orders"}, ui=None), 7826901),
        (command(2, {"drop": "orders"}, ui=None), 7826901),
        (command(2, {"renameCollection": "shop.orders", "to": "shop.x"}, ui=None), 7826901),
        (command(2, {"collMod": "orders"}, ui=None), 7826901),
        (entry(2, "i", {"a": 1}, o2=None), 40532),
        (entry(2, "u", {"_id": 1}), 40532),
        (command(2, {"renameCollection": "shop.orders"}), 40532),
        (command(2, {"commitIndexBuild": "orders"}), 40532),
        (command(2, {"startIndexBuild": "orders", "indexes": {}}), 40532),
        (command(2, {"dropIndexes": "orders", "index": "a_1"}), 40532),
        (entry(2, "u", {"$set": {"a": 1}}, o2={"_id": 1}), 6741200),
        (entry(2, "u", {"$v": 1, "$set": {"a": 1}}, o2={"_id": 1}), 6741200),
        (entry(2, "u", {"$v": Int64(2), "diff": {"u": {"a": 1}}}, o2={"_id": 1}), 6741200),
        (entry(2, "u", {"$v": 3, "diff": {"u": {"a": 1}}}, o2={"_id": 1}), 6741200),
        (entry(2, "u", {"$v": 2}, o2={"_id": 1}), 6741200),
        (entry(2, "u", {"a": 1}, o2={"_id": 1}), 6741200),
        (update(2, 1, {}), 4770500),
        (update(2, 1, {"x": {}}), 4770503),
        (update(2, 1, {"i": {}, "u": {}}), 4770503),
        (update(2, 1, {"u": 1}), 4770507),
        (update(2, 1, {"sa": {"a": False}}), 4770520),
        (update(2, 1, {"sa": {"a": True, "ux": 1}}), 4770512),
        (without(insert(2, 2), "op"), 8881102),
        (without(insert(2, 2), "ns"), 8881102),
        (without(insert(2, 2), "o"), 8881102),
        (without(insert(2, 2), "ts"), 8881102),
        (without(insert(2, 2), "wall"), 8881102),
        (b"\x05\0\0\0", 22),
    ],
)
def test_a_corrupt_entry_stops_the_stream_after_the_events_before_it(corrupt: bytes, code: int) -> None:
    engine = open_engine(EXPANDED)
    engine.push("", [insert(1, 1), corrupt, insert(3, 3)])
    assert [decode(raw)["documentKey"] for raw in engine.drain()] == [{"_id": 1}]
    for _ in range(2):
        with pytest.raises(CommandError) as raised:
            engine.drain()
        assert raised.value.code == code


@pytest.mark.parametrize(
    ("op", "o", "code"),
    [
        ("x", {}, 11352603),
        ("ci", {}, 11352603),
        ("c", {"dbCheck": "orders"}, 11352605),
        ("c", {}, 11352605),
        ("n", {}, 11352601),
    ],
)
def test_transforming_an_entry_that_the_filter_drops_fails(op: str, o: dict[str, Any], code: int) -> None:
    with pytest.raises(CommandError) as raised:
        Transform().transform(parse_entry(entry(1, op, o, o2={"unknown": 1})))
    assert raised.value.code == code


@pytest.mark.parametrize("op", ["ci", "cu", "cd", "km", "cmk", "x"])
def test_other_operations_are_not_shown(op: str) -> None:
    for ns in ("shop.orders", "admin.$container", ""):
        engine = open_engine(EXPANDED)
        engine.push(
            "", [entry(1, op, {"_id": 1}, ns=ns, o2={"shardCollection": "shop.orders"}), insert(2, 2)]
        )
        assert [decode(raw)["documentKey"] for raw in engine.drain()] == [{"_id": 2}]


def test_an_update_document_with_an_id_is_always_a_replacement() -> None:
    for o in (
        {"_id": 1, "$v": 1},
        {"$v": 2, "diff": {"u": {"a": 1}}, "_id": 1},
        {"$set": {"a": 1}, "_id": 1},
    ):
        engine = open_engine()
        engine.push("", [entry(1, "u", o, o2={"_id": 1}, ui=UUID)])
        (event,) = map(decode, engine.drain())
        assert (event["operationType"], event["fullDocument"]) == ("replace", o)
