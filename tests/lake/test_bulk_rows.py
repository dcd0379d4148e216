"""Rows built many at a time equal those that the stages and the row builder make one by one."""

import random
from itertools import islice
from typing import Any

import bson
import numpy as np
import pyarrow as pa
import pytest
from bson import Binary, DatetimeMS, Int64, ObjectId, Timestamp

from tailrace.errors import HistoryError
from tailrace.lake.bulk.kernel import VARIABLE
from tailrace.lake.bulk.rows import BulkRows
from tailrace.lake.bulk.splicing import Group, Slices, spliced
from tailrace.lake.schema import ENCODED, SCHEMA
from tests.lake.bulk_comparison import KERNELS, Entries, general_path, one_by_one
from tests.support.history import History
from tests.support.seeds import check_histories
from tests.support.workload import generate_bulk


@pytest.fixture(autouse=True, params=KERNELS)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, request.param)


def check_same(entries: Entries, history: History | None = None) -> pa.RecordBatch:
    events_of = general_path(list(entries), None if history is None else history.entry, marks_end=True)
    found = BulkRows(events_of, marks_end=True).batch(entries)
    found.validate(full=True)
    expected = one_by_one(events_of, entries)
    for name in expected.schema.names:
        assert found.column(name).to_pylist() == expected.column(name).to_pylist(), name
    assert found.schema == ENCODED
    assert expected.schema == SCHEMA
    return found


def entry(number: int, op: str, o: dict[str, Any], o2: dict[str, Any] | None = None, **more: Any) -> bytes:
    document: dict[str, Any] = {"op": op, "ns": "shop.orders", "ui": Binary(bytes(range(16)), 4), "o": o}
    if o2 is not None:
        document["o2"] = o2
    times = {"ts": Timestamp(1_700_000_000, number), "t": Int64(1), "v": Int64(2), "wall": DatetimeMS(number)}
    return bson.encode(document | times | more)


def test_a_long_oplog_of_plain_entries() -> None:
    entries = list(islice(generate_bulk(seed=3, count=3_000), 3_000))
    rows = check_same({"": entries})
    assert rows.num_rows > 3_000


def test_shards_with_equal_cluster_times() -> None:
    logs = {f"shard{seed}": list(islice(generate_bulk(seed=seed, count=500), 500)) for seed in (2, 1, 0)}
    tokens = check_same(logs).column("token").to_pylist()
    assert tokens == sorted(tokens)


def test_generated_histories() -> None:
    def law(history: History) -> None:
        check_same({"": history.entries}, history)
        logs = history.split(3, history.seed)
        check_same({f"shard{number}": log for number, log in enumerate(logs)}, history)

    check_histories(range(20_261_000, 20_261_060), law)


KEYS: list[Any] = [
    ObjectId(bytes(range(12))),
    7, 0, -7, 1 << 30, Int64(5), Int64(-1 << 60), 1.5, "", "text", "a\0b", "ü" * 40, "x" * 9_000, None, True,
    Binary(bytes(16), 4), Binary(bytes(16), 3), Binary(b"abc", 0), DatetimeMS(3), {"a": 1, "b": ObjectId()},
]  # fmt: skip


def test_keys_of_all_types_in_one_slice() -> None:
    rng = random.Random(4)
    entries = []
    for number in range(1, 400):
        key = {"_id": rng.choice(KEYS)}
        if rng.random() < 0.2:
            key = {"region": rng.randrange(3)} | key
        document = key | {"value": "v" * rng.choice((0, 1, 2, 3, 60, 500, 20_000))}
        diff = rng.choice((
            {"u": {"a": 1}},
            {"u": {"a.b": 1.5}},
            {"d": {"x": False}, "sa": {"a": True, "u0": 3}},
            {"sn": {"u": {"7": "x"}}},
            {"x": 1},
        ))  # fmt: skip
        entries += rng.choices((
            entry(number, "i", document, key),
            entry(number, "i", document),
            entry(number, "u", document, key),
            entry(number, "u", {"$v": 2, "diff": diff}, key),
            entry(number, "u", {"$v": 2, "diff": diff, "more": 1}, key),
            entry(number, "u", {"value": 1}, key),
            entry(number, "u", {"$v": 2, "diff": diff}),
            entry(number, "d", key),
            entry(number, "d", key, key),
        ))  # fmt: skip
    check_same({"": entries})


@pytest.mark.parametrize(
    "odd",
    [
        entry(2, "i", {"_id": 1}, {"_id": 1}, wall=DatetimeMS(-5)),
        entry(2, "i", {"_id": 1}, {"_id": 1}, wall=DatetimeMS(1 << 62)),
        entry(2, "i", {"_id": 1}, {"_id": 1}, fromMigrate=True),
        entry(2, "i", {"_id": 1}, {"_id": 1}, ns="shop.system.views"),
        entry(2, "i", {"_id": 1}, {"_id": 1}, t=1),
        entry(2, "n", {"msg": "periodic noop"}),
        entry(2, "n", {"msg": "x"}, {"somethingNew": 1}),
        entry(2, "d", {"x": 1}),
        entry(2, "i", {}, {}),
    ],
)
def test_unusual_entries_between_plain_ones(odd: bytes) -> None:
    plain = [entry(number, "i", {"_id": number}, {"_id": number}) for number in (1, 3)]
    check_same({"": [plain[0], odd, plain[1]]})
    check_same({"": [odd]})


@pytest.mark.parametrize(
    "damage",
    [
        (b"_id\0\x05", b"_id\0\x50"),
        (b"_id\0\x05", b"_id\0\0"),
        (b"\x02_id", b"\x06_id"),
        (b"\1\0\0\0\0", b"\1\0\0\0\1"),
    ],
    ids=["a long value", "a short value", "another type", "no end"],
)
def test_a_replacement_with_a_damaged_document(damage: tuple[bytes, bytes]) -> None:
    sound = [entry(number, "u", {"_id": "text", "n": 1}, {"_id": 1}) for number in (1, 2, 3)]
    assert damage[0] in sound[1]
    check_same({"": [sound[0], sound[1].replace(*damage), sound[2]]})


def apply_ops(number: int, operations: list[dict[str, Any]], **more: Any) -> bytes:
    times = {"ts": Timestamp(1_700_000_000, number), "t": Int64(1), "v": Int64(2), "wall": DatetimeMS(number)}
    return bson.encode({"op": "c", "ns": "admin.$cmd", "o": {"applyOps": operations}} | times | more)


def test_transactions_and_batches_with_operations_of_all_kinds() -> None:
    rng = random.Random(5)
    session = {"lsid": {"id": Binary(bytes(16), 4), "uid": b"u" * 32}, "txnNumber": Int64(5)}
    none_before = {"prevOpTime": {"ts": Timestamp(0, 0), "t": Int64(-1)}}
    entries = []
    for number in range(1, 30):
        operations = []
        for _ in range(rng.choice((1, 3, 150))):
            key = {"_id": rng.choice(KEYS[:13])}
            diff = rng.choice(({"u": {"a": 1}}, {"sa": {"u": {"0": 1}}}, {"x": 1}))
            op, o, o2 = rng.choice((
                ("i", key | {"v": "x" * rng.randrange(300)}, key),
                ("u", {"$v": 2, "diff": diff}, key),
                ("u", key | {"w": 1}, key),
                ("d", key, None),
            ))  # fmt: skip
            operation: dict[str, Any] = {
                "op": op,
                "ns": "shop.orders",
                "ui": Binary(bytes(range(16)), 4),
                "o": o,
            }
            if o2 is not None:
                operation["o2"] = o2
            if rng.random() < 0.05:
                operation["fromMigrate"] = True
            operations.append(operation)
        more = rng.choice(({}, session | none_before, {"fromMigrate": True}, session | {"multiOpType": 1}))
        entries.append(apply_ops(number, operations, **more))
    rows = check_same({"": entries})
    assert rows.num_rows > 500


DIFFS: list[dict[str, Any]] = [
    {"u": {"a": 1, "b": "text", "c": 2.5}},
    {"u": {"a": "12.5"}, "i": {"n": {"x": [1, 2]}}, "d": {"y": False}},
    {"d": {"gone": False}, "sc": {"u": {"city": "Ulm"}, "i": {"note": "call first"}}},
    {"sa": {"a": True, "l": 3, "u0": 7, "s1": {"u": {"x": "y"}}}, "sb": {"d": {"0": False}}},
    {"u": {"r": bson.Regex("ab+", "i"), "o": ObjectId(bytes(12)), "n": None, "f": Binary(b"1234", 0)}},
    {"sn": {"u": {"7": "seven", "a.b": Int64(3)}, "sm": {"i": {"k": bson.Code("f()"), "t": True}}}},
    {"b": {"raw": {"o": 3, "d": Binary(b"xyz", 0)}}},
]


@pytest.mark.parametrize("seed", range(6))
def test_diffs_of_few_layouts_some_of_them_damaged(seed: int) -> None:
    rng = random.Random(seed)
    entries = []
    for number in range(1, 1_200):
        raw = bytearray(entry(number, "u", {"$v": 2, "diff": rng.choice(DIFFS)}, {"_id": number}))
        start = raw.index(b"\x03diff\0") + len(b"\x03diff\0")
        size = int.from_bytes(raw[start : start + 4], "little")
        for _ in range(rng.choice((0, 0, 1, 3))):
            place = start + rng.randrange(4, size)
            raw[place] = rng.choice((raw[place] ^ 1, 0, 1, rng.randrange(256)))
        entries.append(bytes(raw))
    check_same({"": entries})


def test_many_collections_in_one_slice() -> None:
    entries = [
        entry(number, "i", {"_id": number}, {"_id": number}, ns=f"shop.c{number % 90:02d}")
        for number in range(1, 300)
    ]
    check_same({"": entries})


def test_an_empty_batch() -> None:
    assert check_same({"": []}).num_rows == 0


def test_pre_images_are_looked_up_for_updates_and_deletes() -> None:
    entries = [
        entry(1, "i", {"_id": 1}, {"_id": 1}),
        entry(2, "u", {"$v": 2, "diff": {"u": {"a": 1}}}, {"_id": 1}),
        entry(3, "d", {"_id": 1}),
        entry(4, "d", {"_id": {"needs": "the general road"}}),
        entry(5, "u", {"_id": 2}, {"_id": 2}),
    ]
    images = {1_700_000_000 << 32 | 2: b"before the update", 1_700_000_000 << 32 | 3: b"before the delete"}
    lookups = []

    def pre_image_of(shard: str, uuid: bytes, ts: int, index: int) -> bytes | None:
        lookups.append((shard, uuid, ts, index))
        return images.get(ts)

    rows = BulkRows(general_path(["a"]), pre_image_of).batch({"a": entries})
    assert rows.column("pre_image").to_pylist() == [
        None,
        b"before the update",
        b"before the delete",
        None,
        None,
    ]
    assert lookups == [("a", bytes(range(16)), 1_700_000_000 << 32 | number, 0) for number in (2, 3, 4, 5)]


def test_a_column_of_more_than_two_gigabytes_is_refused() -> None:
    """Before any of its bytes are copied."""
    lengths = np.full(3, 1 << 30)
    group = Group(np.arange(3), [Slices(np.zeros(64, np.uint8), np.zeros(3, np.int64), lengths)])
    with pytest.raises(HistoryError, match="3221225472 bytes in one column"):
        spliced(3, [group], pa.binary())
