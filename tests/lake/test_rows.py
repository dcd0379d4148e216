"""The rows of the table: their columns, and rows of unusual entries."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bson
import pytest
from bson import Binary, Int64, ObjectId, json_util
from bson.json_util import JSONOptions

from tailrace.bson.documents import decode, encode
from tailrace.events.change_event import ChangeEvent
from tailrace.events.event_token import resume_token
from tailrace.events.stages.lookups import Lookups
from tailrace.events.stages.parts import DeploymentPart
from tailrace.events.stages.render import render, shape_of
from tailrace.lake.deferred_entries import events_or_deferred, is_deferred
from tailrace.lake.rows import RowBuilder
from tests.events.stages.streams import UUID, at, command, delete, entry, insert, update
from tests.lake.stored import through_memory
from tests.lake.test_round_trip import check_same, outcome

VECTORS = Path(__file__).parents[1] / "vectors" / "events.json"
JSON = JSONOptions(
    json_mode=json_util.JSONMode.CANONICAL,
    datetime_conversion=bson.codec_options.DatetimeConversion.DATETIME_MS,
)
CASES: list[dict[str, Any]] = json_util.loads(VECTORS.read_text(), json_options=JSON)
SESSION = {"lsid": {"id": Binary(bytes(16), 4)}, "txnNumber": Int64(7)}


def events_of(*entries: bytes) -> list[ChangeEvent]:
    raws = {decode(raw)["ts"]: raw for raw in entries}
    known = {ts.time << 32 | ts.inc: raw for ts, raw in raws.items()}
    part = DeploymentPart("", Lookups(entry=lambda ts, _term: known.get(ts)), marks_end=True)
    return [event for raw in entries for event in events_or_deferred(part, part.read(raw))]


def rows_of(*entries: bytes) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = RowBuilder().batch(events_of(*entries)).to_pylist()
    return rows


def test_the_row_of_an_insert() -> None:
    (row,) = rows_of(insert(1, ObjectId("0123456789abcdef01234567"), n=1))
    event = decode(row.pop("event"))
    assert event["fullDocument"]["n"] == 1
    assert "_id" not in event
    (found,) = events_of(insert(1, ObjectId("0123456789abcdef01234567"), n=1))
    assert row.pop("token") == resume_token(found).data
    assert row == {
        "token_type_bits": None,
        "cluster_time": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
        "increment": 1,
        "wall_time": datetime(2023, 11, 14, 22, 13, 20, 1000, UTC),
        "operation": "insert",
        "db": "shop",
        "coll": "orders",
        "uuid": str(UUID.as_uuid()),
        "document_key": '{"_id": {"$oid": "0123456789abcdef01234567"}}',
        "pre_image": None,
        "shard": "",
        "txn_index": None,
        "entry_rest": None,
        "session": None,
        "txn_number": None,
    }


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (5, '{"_id": {"$numberInt": "5"}}'),
        (Int64(-5), '{"_id": {"$numberLong": "-5"}}'),
        ("a\"b", '{"_id": "a\\"b"}'),
        (2.5, '{"_id": {"$numberDouble": "2.5"}}'),
        ({"a": 1}, '{"_id": {"a": {"$numberInt": "1"}}}'),
        (UUID, '{"_id": {"$binary": {"base64": "AAECAwQFBgcICQoLDA0ODw==", "subType": "04"}}}'),
    ],
)  # fmt: skip
def test_document_keys_are_extended_json(key: Any, text: str) -> None:
    inserted, deleted = rows_of(insert(1, key), delete(2, key))
    assert inserted["document_key"] == deleted["document_key"] == text


def test_the_entry_remainder() -> None:
    diff = {"u": {"n": 2}}
    inner = [{"op": "i", "ns": "shop.orders", "ui": UUID, "o": {"_id": n}, "o2": {"_id": n}} for n in (1, 2)]
    rows = rows_of(
        insert(1, 1),
        update(2, 1, diff),
        entry(3, "d", {"_id": 1}, **SESSION),
        command(4, {"drop": "orders"}),
        command(5, {"applyOps": inner}, ns="admin.$cmd", ui=None),
        command(6, {"applyOps": inner}, ns="admin.$cmd", ui=None, **SESSION),
        entry(7, "i", {"_id": 1}, fromMigrate=True),
    )
    rest = [None if row["entry_rest"] is None else decode(row["entry_rest"]) for row in rows]
    assert [row["txn_index"] for row in rows] == [None, None, None, None, 0, 1, 0, 1, 2, None]
    assert rest[0] is None
    assert rest[1] == {"o": {"$v": 2, "diff": diff}}
    assert rest[2] is None  # the event of a retryable write does not show its session
    assert rest[3] is not None
    assert rest[3]["entry"]["o"] == {"drop": "orders"}
    assert rest[4:6] == [None, None]
    assert rest[6] == rest[7] == SESSION
    assert rows[8]["operation"] == "endOfTransaction"
    assert rest[9] == {"fromMigrate": True}


def test_dates_out_of_range_are_null() -> None:
    raw = bytearray(insert(1, 1))
    position = bytes(raw).index(b"\x09wall\0") + 6
    raw[position : position + 8] = (1 << 62).to_bytes(8, "little")
    (row,) = rows_of(bytes(raw))
    assert row["wall_time"] is None


@pytest.mark.parametrize("late", [(1 << 31) << 32, (1 << 64) - 1])
def test_cluster_times_after_2038(late: int) -> None:
    raw = insert(1, 1).replace(
        b"\x11ts\0" + at(1).to_bytes(8, "little"), b"\x11ts\0" + late.to_bytes(8, "little")
    )
    (row,) = rows_of(raw)
    assert (int(row["cluster_time"].timestamp()), row["increment"]) == (late >> 32, late & 0xFFFFFFFF)
    (event,) = through_memory(events_of(raw))
    assert event.cluster_time == late


def test_deferred_entries_are_stored() -> None:
    unknown = entry(1, "n", {}, o2={"somethingNew": 1, "x": 2})
    silent = entry(2, "n", {"msg": "periodic noop"}, ns="", ui=None)
    broken = entry(3, "i", {"_id": 1}, ui=None)
    rows = rows_of(unknown, silent, broken)
    assert [(row["increment"], row["operation"], row["event"]) for row in rows] == [
        (1, None, None),
        (3, None, None),
    ]
    found = through_memory(events_of(unknown, silent, broken))
    assert all(map(is_deferred, found))
    assert [event.entry.raw for event in found] == [unknown, broken]


def test_changes_that_cannot_be_shown_are_stored_and_fail_when_shown() -> None:
    odd_diff = update(1, 1, {"x": 1})
    in_batch = {
        "op": "u",
        "ns": "shop.orders",
        "ui": UUID,
        "o": {"$v": 2, "diff": {"x": 1}},
        "o2": {"_id": 1},
    }
    batch = command(2, {"applyOps": [in_batch]}, ns="admin.$cmd", ui=None, **SESSION)
    good = insert(3, 1)
    rows = rows_of(odd_diff, batch, good)
    assert [row["operation"] for row in rows] == ["update", "update", "endOfTransaction", "insert"]
    assert [row["event"] is None for row in rows] == [True, True, False, False]
    assert [row["token"] for row in rows] == sorted({row["token"] for row in rows})
    events = events_of(odd_diff, batch, good)
    shape = shape_of(expanded=False, raw_update=False, commit_timestamp=False, from_migrate=False)
    assert isinstance(outcome(lambda: render(events[0], shape, 2)), tuple)
    for found, expected in zip(through_memory(events), events, strict=True):
        check_same(found, expected)


@pytest.mark.parametrize("case", CASES, ids=[case.get("name", str(n)) for n, case in enumerate(CASES)])
def test_rows_of_the_vectors_give_the_same_events(case: dict[str, Any]) -> None:
    events = events_of(*[encode(raw) for raw in case["oplog"]])
    found = through_memory(events) if events else []
    assert len(found) == len(events)
    for one, expected in zip(found, events, strict=True):
        check_same(one, expected)
