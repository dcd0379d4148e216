"""Entries as real servers write them take the fast path; whatever their fields are, the rows are the same."""

import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import bson
import pyarrow as pa
import pytest
from bson import Binary, DatetimeMS, Int64, ObjectId, Timestamp

from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError
from tailrace.lake.bulk.kernel import VARIABLE
from tailrace.lake.bulk.raw_entries import RawEntries
from tailrace.lake.bulk.raw_entries import joined as runs
from tailrace.lake.bulk.rows import BulkRows
from tests.lake.bulk_comparison import KERNELS, Entries, general_path, one_by_one
from tests.support.bulk import BulkMix, generate_bulk

Fields = dict[str, Any]

NO_TIME = {"ts": Timestamp(0, 0), "t": Int64(-1)}
EARLIER = {"ts": Timestamp(1_699_999_999, 5), "t": Int64(1)}
DIFFS: list[Fields] = [
    {"u": {"a": 1}},
    {"d": {"c": False}, "i": {"b": "text"}},
    {"sn": {"u": {"x": 1.5}}},
]
COLLECTIONS = ["orders", "items", "users.archive", "ümläut", "system.views", "x" * 120]
SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 20))]
KEYS: list[Any] = [ObjectId(bytes(range(12))), 7, -3, "text", Binary(bytes(16), 4), {"a": 1}, Int64(9)]

USUAL: list[list[str]] = [
    # 6.0, 7.0 and 8.0, retryable and not
    ["lsid", "txnNumber", "op", "ns", "ui", "o", "o2", "stmtId", "ts", "t", "v", "wall", "prevOpTime"],
    ["lsid", "txnNumber", "op", "ns", "ui", "o", "o2", "needsRetryImage", "stmtId", "ts", "t", "v", "wall",
     "prevOpTime"],
    ["op", "ns", "ui", "o", "o2", "ts", "t", "v", "wall"],
    ["op", "ns", "ui", "o", "o2", "rid", "checkExistenceForDiffInsert", "ts", "t", "v", "wall"],
    # older ones
    ["lsid", "txnNumber", "op", "ns", "ui", "o", "o2", "preImageOpTime", "stmtIds", "ts", "t", "wall", "v",
     "prevOpTime"],
    ["ts", "t", "h", "v", "op", "ns", "ui", "wall", "lsid", "txnNumber", "stmtId", "prevOpTime", "o2", "o"],
]  # fmt: skip


@pytest.fixture(autouse=True, params=KERNELS)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, request.param)


def value(rng: random.Random, name: str, number: int) -> Any:
    """A value of a field other than those of the operation."""
    session = rng.randrange(3)
    lsid: Fields = {"id": Binary(bytes([session]) * 16, 4), "uid": bytes([session]) * 32}
    if session == 2:
        lsid |= {"txnNumber": Int64(4), "txnUUID": Binary(bytes(16), 4)}
    return {
        "lsid": lsid,
        "txnNumber": Int64(rng.choice((0, 1, number, 1 << 60))),
        "stmtId": 0,
        "stmtIds": [1, 2],
        "needsRetryImage": rng.choice(("preImage", "postImage")),
        "preImageOpTime": EARLIER,
        "rid": Int64(number),
        "checkExistenceForDiffInsert": True,
        "h": Int64(0),
        "ts": Timestamp(1_700_000_000, number),
        "t": Int64(1),
        "v": Int64(2),
        "wall": DatetimeMS(1_700_000_000_000 + number),
        "prevOpTime": rng.choice((NO_TIME, EARLIER)),
    }[name]


def operation(rng: random.Random, collections: Sequence[str] = COLLECTIONS) -> Fields:
    collection = rng.randrange(len(collections))
    key = {"_id": rng.choice(KEYS)}
    op, o = rng.choice((
        ("i", key | {"text": "x" * rng.randrange(200)}),
        ("u", {"$v": 2, "diff": rng.choice(DIFFS)}),
        ("u", key | {"text": 1}),
        ("d", key),
    ))  # fmt: skip
    fields = {"op": op, "ns": f"shop.{collections[collection]}", "ui": Binary(bytes([collection]) * 16, 4)}
    return fields | {"o": o} | ({} if op == "d" else {"o2": key})


def joined(pairs: Sequence[tuple[str, Any]]) -> bytes:
    """A document of these fields, which may repeat names."""
    return rawbson.document(*(bson.encode({name: value})[4:-1] for name, value in pairs))


def usual_entry(rng: random.Random, number: int, collections: Sequence[str] = COLLECTIONS) -> bytes:
    if rng.random() < 0.2:
        return joined(list(holder(rng, number, collections).items()))
    own = operation(rng, collections)
    names = [name for name in rng.choice(USUAL) if name in own or name not in ("o2", "op", "ns", "ui", "o")]
    return joined([(name, own[name] if name in own else value(rng, name, number)) for name in names])


def holder(rng: random.Random, number: int, collections: Sequence[str] = COLLECTIONS) -> Fields:
    """A transaction, a vectored insert with and without a session, or a batch of deletes."""
    operations = [operation(rng, collections) for _ in range(rng.choice((1, 2, 5, 40)))]
    session = {name: value(rng, name, number) for name in ("lsid", "txnNumber")}
    times = {name: value(rng, name, number) for name in ("ts", "t", "v", "wall")}
    command = {"op": "c", "ns": "admin.$cmd", "o": {"applyOps": operations}}
    kind = rng.randrange(3)
    if kind == 0:
        return session | command | times | {"prevOpTime": NO_TIME}
    if kind == 1:
        return command | times
    command["o"] = {"applyOps": [inner | {"stmtId": place} for place, inner in enumerate(operations)]}
    return session | command | times | {"prevOpTime": value(rng, "prevOpTime", number), "multiOpType": 1}


def strange_entry(rng: random.Random, number: int) -> bytes:
    """An entry with fields that change its meaning, in any order, some of them missing, twice or no BSON."""
    own: Fields = holder(rng, number) if rng.random() < 0.4 else operation(rng)
    for name in rng.sample(["lsid", "txnNumber", "stmtId", "prevOpTime", "ts", "t", "v", "wall"], 7):
        own.setdefault(name, value(rng, name, number))
    own |= rng.choice((
        {}, {}, {"fromMigrate": True}, {"fromMigrate": False}, {"isTimeseries": True}, {"multiOpType": 1},
        {"multiOpType": 2}, {"multiOpType": Int64(1)}, {"txnNumber": 5}, {"lsid": 1}, {"t": 1},
        {"prevOpTime": {}}, {"prevOpTime": {"ts": 1, "t": Int64(1)}}, {"wall": DatetimeMS(-1)},
        {"wall": DatetimeMS(1 << 60)}, {"ui": None}, {"op": "xx"}, {"op": "n"}, {"ns": "shop.$cmd"},
        {"o2": 1}, {"extra": None}, {"extra": bson.Regex("a")}, {"o": {"applyOps": []}},
        {"o": {"applyOps": [{"op": "i"}], "prepare": True}}, {"o": {"applyOps": [1]}},
    ))  # fmt: skip
    pairs = list(own.items())
    if rng.random() < 0.5:
        rng.shuffle(pairs)
    if rng.random() < 0.2:
        pairs.insert(rng.randrange(len(pairs)), rng.choice(pairs))
    raw = bytearray(joined(pairs))
    for _ in range(rng.choice((0, 0, 1, 1, 3))):
        place = rng.randrange(4, len(raw))
        raw[place] = rng.choice((raw[place] ^ 1, 0, 1, rng.randrange(256)))
    return bytes(raw)


def columns(batch: pa.RecordBatch) -> dict[str, list[Any]]:
    batch.validate(full=True)
    return {name: batch.column(name).to_pylist() for name in batch.schema.names}


def outcome(make: Callable[[Entries], pa.RecordBatch], raw: bytes) -> dict[str, list[Any]] | tuple[int, str]:
    try:
        return columns(make({"": [raw]}))
    except CommandError as error:
        return error.code, error.message


@pytest.mark.parametrize("seed", SEEDS)
def test_entries_of_every_release_take_the_fast_path(seed: int) -> None:
    rng = random.Random(seed)
    collections = [name for name in COLLECTIONS if name != "system.views"]
    entries = [usual_entry(rng, number, collections) for number in range(1, 400)]
    events_of = general_path([""], marks_end=True)
    rows = BulkRows(events_of, marks_end=True)
    assert columns(rows.batch({"": entries})) == columns(one_by_one(events_of, {"": entries})), seed
    # A key that is no single `_id` of a usual type, or a negative one, needs the encoder of tokens.
    usual_keys = KEYS[:2] + KEYS[3:5]
    simple = [raw for raw in entries if _has_only(raw, usual_keys)]
    rows = BulkRows(events_of, marks_end=True)
    rows.batch({"": simple})
    assert (rows.entries, rows.general_entries) == (len(simple), 0), seed


def _has_only(raw: bytes, keys: Sequence[Any]) -> bool:
    entry = bson.decode(raw)
    operations = entry["o"].get("applyOps", [entry])
    return all((inner.get("o2") or inner["o"])["_id"] in keys for inner in operations)


@pytest.mark.parametrize("seed", SEEDS)
def test_strange_and_damaged_entries_have_the_same_rows_or_the_same_error(seed: int) -> None:
    rng = random.Random(seed)
    events_of = general_path([""], marks_end=True)
    rows = BulkRows(events_of, marks_end=True)
    rows.batch({"": [usual_entry(rng, number) for number in range(1, 100)]})  # it knows forms and kinds now
    good: list[bytes] = []
    for number in range(1, 150):
        raw = strange_entry(rng, number)
        expected = outcome(lambda entries: one_by_one(events_of, entries), raw)
        assert outcome(rows.batch, raw) == expected, (seed, raw.hex())
        if isinstance(expected, dict):
            good.append(raw)
    assert len(good) > 30
    assert columns(rows.batch({"": good})) == columns(one_by_one(events_of, {"": good})), seed


@pytest.mark.parametrize("seed", SEEDS)
def test_entries_may_be_in_several_pieces_of_memory(seed: int) -> None:
    rng = random.Random(seed)
    entries = [usual_entry(rng, number) for number in range(1, 200)]
    cuts = [0, *sorted(rng.sample(range(1, len(entries)), 3)), len(entries)]
    parted = runs([RawEntries.of(entries[start:end]) for start, end in pairwise(cuts)])
    assert (len(parted), parted[-1], parted[:], parted.size) == (
        199,
        entries[-1],
        entries,
        sum(map(len, entries)),
    )
    events_of = general_path([""], marks_end=True)
    rows = BulkRows(events_of, marks_end=True)
    for _ in range(2):  # the second time, everything is known
        assert columns(rows.batch({"": parted})) == columns(one_by_one(events_of, {"": entries})), seed


def test_collections_of_any_number_take_the_fast_path() -> None:
    mix = BulkMix(collections=300)
    entries = list(generate_bulk(1, 1_000, mix))
    events_of = general_path([""], marks_end=True)
    rows = BulkRows(events_of, marks_end=True)
    assert columns(rows.batch({"": entries})) == columns(one_by_one(events_of, {"": entries}))
    assert rows.general_entries == 0


def test_a_collection_that_is_renamed_between_its_entries() -> None:
    def insert(number: int, ns: str) -> bytes:
        times = {name: value(random.Random(1), name, number) for name in ("ts", "t", "v", "wall")}
        key = {"_id": number}
        return bson.encode({"op": "i", "ns": ns, "ui": Binary(bytes(16), 4), "o": key, "o2": key} | times)

    names = ["shop.first_long_name", "shop.other_long_name"]
    entries = [insert(number, names[number % 2]) for number in range(1, 40)]
    events_of = general_path([""])
    found = columns(BulkRows(events_of).batch({"": entries}))
    assert found == columns(one_by_one(events_of, {"": entries}))
    assert found["coll"] == [names[number % 2].partition(".")[2] for number in range(1, 40)]
