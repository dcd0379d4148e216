"""The fast and the general reader of entries return the same."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from bson import Binary, DatetimeMS, Decimal128, Int64, ObjectId, Timestamp

from tailrace.bson.documents import encode
from tailrace.errors import CommandError
from tailrace.events.entry_reader import EntryReader
from tailrace.events.event_token import resume_token, token_document
from tailrace.events.oplog_entry import OplogEntry, parse_entry
from tailrace.events.stages.stage import Batch
from tailrace.events.stages.transform.document import Transform
from tests.support.bulk import BulkMix, generate_bulk
from tests.support.workload import generate


def facts(entry: OplogEntry) -> tuple[Any, ...]:
    head = entry.head
    return head.op, head.ns, head.ui, entry.o, entry.o2, entry.ts, entry.term, entry.wall, entry.extras


@pytest.mark.parametrize("seed", range(20))
def test_both_readers_agree_on_every_entry(seed: int) -> None:
    reader = EntryReader()
    for raw in generate(seed, 60).entries:
        for _ in range(2):  # the second time its head is cached
            assert facts(reader.read(raw)) == facts(parse_entry(raw)), f"seed {seed}"


def test_plain_entries_take_the_fast_path() -> None:
    reader = EntryReader()
    entries = list(generate_bulk(1, 400, BulkMix(retryable=0, collections=1)))
    heads = {id(reader.read(raw).head) for raw in entries if b"applyOps" not in raw}
    assert len(heads) == 3


def outcome(read: Callable[[bytes], OplogEntry], raw: bytes) -> tuple[Any, ...]:
    try:
        return facts(read(raw))
    except CommandError as error:
        return (error.code,)


@pytest.mark.parametrize("seed", range(10))
def test_both_readers_agree_on_damaged_entries(seed: int) -> None:
    rng = random.Random(seed)
    reader = EntryReader()
    entries = list(generate_bulk(seed, 50))
    for raw in entries:
        reader.read(raw)
    for _ in range(400):
        damaged = bytearray(rng.choice(entries))
        for _ in range(rng.randrange(1, 4)):
            damaged[rng.randrange(4, len(damaged))] = rng.randrange(256)
        raw = bytes(damaged[: len(damaged) if rng.random() < 0.8 else rng.randrange(len(damaged))])
        assert outcome(reader.read, raw) == outcome(parse_entry, raw), f"seed {seed}: {raw.hex()}"


@pytest.mark.parametrize("missing", ["op", "ns", "o", "ts", "wall"])
def test_an_entry_without_a_required_field_is_refused(missing: str) -> None:
    entry = {
        "op": "i", "ns": "a.b", "ui": Binary(bytes(16), 4), "o": {"_id": 1}, "ts": Timestamp(1, 1),
        "t": Int64(1), "v": Int64(2), "wall": DatetimeMS(0),
    }  # fmt: skip
    assert parse_entry(encode(entry)).head.ns == "a.b"
    del entry[missing]
    with pytest.raises(CommandError) as raised:
        parse_entry(encode(entry))
    assert raised.value.code == 8881102


IDS: list[Any] = [
    ObjectId(bytes(range(12))), "", "abc", "a\0b", "ä" * 100, 1, 127, 128, 2**31 - 1, 0, -5, Int64(7), 1.5,
    Decimal128("1.10"), True, None, Binary(bytes(16), 4), Binary(b"x" * 16, 5), b"", b"x" * 300,
    DatetimeMS(5), {"a": 1, "b": [1, 2]}, Timestamp(1, 2),
]  # fmt: skip


@pytest.mark.parametrize(
    "key", [{"_id": value} for value in IDS] + [{"x": 1, "_id": 2}, {"_id": 1, "x": 2}], ids=repr
)
@pytest.mark.parametrize("index", [0, 1, 127, 128, 70_000])
def test_both_encoders_build_the_same_token(key: dict[str, Any], index: int) -> None:
    raw = encode({
        "op": "d", "ns": "a.b", "ui": Binary(bytes(range(16)), 4), "o": key, "ts": Timestamp(5, 6),
        "t": Int64(1), "v": Int64(2), "wall": DatetimeMS(0),
    })  # fmt: skip
    (event,) = Transform()(Batch([parse_entry(raw)])).items
    if index:
        event.entry.extras = type(event.entry.extras)(in_apply_ops=True, operations_before=index)
    for version in (1, 2):
        assert token_document(event, version) == resume_token(event, version).to_bson()
