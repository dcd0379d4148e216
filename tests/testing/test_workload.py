"""Test the generator, on which the laws rely, without the code that the laws test.

The oplog that it writes is applied by the few lines below, which do not use streams: the result must be the
documents that the generator reports.
"""

from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from bson import Timestamp

from examples import replay_tour
from tailrace.bson import documents as bsondocs
from tailrace.bson import raw as rawbson
from tailrace.events.update_diff import apply_diff
from tests.support.history import Documents, History, dump, identity, timestamp_of
from tests.support.sample import shop_story
from tests.support.workload import PLAIN_WRITES, generate, generate_bulk

SEEDS = range(120)
ENVELOPE = (
    "lsid", "txnNumber", "op", "ns", "ui", "o", "o2", "isTimeseries", "needsRetryImage", "destinedRecipient",
    "stmtId", "fromMigrate", "ts", "t", "v", "wall", "prevOpTime", "multiOpType",
)  # fmt: skip

EVERY_KIND = (
    "i", "u", "d", "c", "n", "ci", "applyOps", "partialTxn", "prepare", "count", "commitTransaction",
    "abortTransaction", "create", "drop", "renameCollection", "dropTarget", "dropDatabase",
    "createIndexes", "startIndexBuild", "commitIndexBuild", "abortIndexBuild", "dropIndexes", "collMod",
    "upgradeDowngradeViewlessTimeseries", "shardCollection", "refineCollectionShardKey", "reshardBegin",
    "reshardCollection", "reshardBlockingWrites", "reshardDoneCatchUp", "viewOn", "diff", "msg",
    "fromMigrate", "isTimeseries", "stmtId", "empty applyOps", "inner i", "inner u", "inner d",
    "inner c", "multiOpType 1", "multiOpType 2",
)  # fmt: skip


@cache
def history(seed: int) -> History:
    return generate(seed)


class Applier:
    """Applies an oplog as a secondary would: transactions at their end, commands by name."""

    def __init__(self) -> None:
        self.documents: Documents = {}
        self.parts: dict[int, tuple[int, list[bytes]]] = {}

    def apply(self, entry: bytes) -> None:
        fields = bsondocs.decode(entry)
        o, previous = fields["o"], fields.get("prevOpTime", {"ts": Timestamp(0, 0)})["ts"]
        link = previous.time << 32 | previous.inc
        if fields["op"] in "iud":
            self.write(entry)
        elif "applyOps" in o:
            operations = list(_array(rawbson.subdocument(entry, b"o") or b"", b"applyOps"))
            if o.get("partialTxn") or o.get("prepare"):
                self.parts[timestamp_of(entry)] = link, operations
            else:
                chained = [] if fields.get("multiOpType") == 1 else self.chain(link)
                for operation in [*chained, *operations]:
                    self.write(operation)
        elif "commitTransaction" in o:
            for operation in self.chain(link):
                self.write(operation)
        elif fields["op"] == "c":
            self.command(fields["ns"].removesuffix(".$cmd"), o)

    def chain(self, link: int) -> list[bytes]:
        operations: list[bytes] = []
        while link:
            link, part = self.parts.pop(link)
            operations = part + operations
        return operations

    def write(self, operation: bytes) -> None:
        fields = bsondocs.decode(operation)
        if fields["op"] == "c":
            return
        collection = self.documents.setdefault(fields["ns"], {})
        o = rawbson.subdocument(operation, b"o") or b""
        key = identity(rawbson.subdocument(operation, b"o2") or o)
        assert (key in collection) == (fields["op"] != "i")
        if fields["op"] == "d":
            del collection[key]
        elif fields["op"] == "i" or "_id" in fields["o"]:
            collection[key] = o
        else:
            assert fields["o"]["$v"] == 2
            collection[key] = apply_diff(collection[key], rawbson.subdocument(o, b"diff") or b"")

    def command(self, database: str, o: dict[str, Any]) -> None:
        name, argument = next(iter(o.items()))
        if name == "drop":
            self.documents.pop(f"{database}.{argument}", None)
        elif name == "renameCollection":
            self.documents[o["to"]] = self.documents.pop(argument, {})
        elif name == "upgradeDowngradeViewlessTimeseries":
            names = [f"{database}.system.buckets.{argument}", f"{database}.{argument}"]
            source, target = names if o["isUpgrade"] else names[::-1]
            self.documents[target] = self.documents.pop(source, {})


def _array(raw: bytes, name: bytes) -> Iterator[bytes]:
    found = rawbson.find(raw, name)
    assert found is not None
    inner = raw[found[2] : found[3]]
    for _, _, start, end in rawbson.elements(inner):
        yield inner[start:end]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_oplog_leads_to_the_documents_at_every_time(seed: int) -> None:
    made = history(seed)
    applier = Applier()
    for entry, timestamp in zip(made.entries, made.timestamps, strict=True):
        applier.apply(entry)
        actual = {namespace: content for namespace, content in applier.documents.items() if content}
        assert actual == made.documents_at(timestamp, migrated=True), (seed, bsondocs.decode(entry))


def test_entries_are_ordered_and_their_fields_are_in_the_written_order() -> None:
    for seed in SEEDS:
        made = history(seed)
        assert made.timestamps == sorted(set(made.timestamps))
        for entry in made.entries:
            names = [name.decode() for _, name, _, _ in rawbson.elements(entry)]
            assert names == [name for name in ENVELOPE if name in names]


def test_a_seed_gives_the_same_bytes_again() -> None:
    for seed in SEEDS[:20]:
        again = generate(seed)
        assert again.entries == history(seed).entries
        assert again.pre_images == history(seed).pre_images
        assert again.changes == history(seed).changes
    assert generate(1).entries != generate(2).entries


def test_pre_images_are_the_documents_before_the_change() -> None:
    recorded = 0
    for seed in SEEDS:
        made = history(seed)
        expected = Counter(change.before for change in made.changes if change.has_image)
        # Images of a transaction have the times of its entries, so only the documents are compared.
        assert Counter(made.pre_images.values()) == expected
        assert len(made.pre_image_documents()) == len(made.pre_images)
        recorded += len(made.pre_images)
    assert recorded > 100


def test_histories_hold_every_kind_of_entry_and_every_type_of_id() -> None:
    kinds: Counter[str] = Counter()
    id_types: set[int] = set()
    for seed in SEEDS:
        for entry in history(seed).entries:
            fields = bsondocs.decode(entry)
            kinds[fields["op"]] += 1
            kinds.update(fields["o"].keys() | fields.get("o2", {}).keys())
            if "applyOps" in fields["o"]:
                kinds["empty applyOps"] += not fields["o"]["applyOps"]
                kinds.update(f"inner {operation['op']}" for operation in fields["o"]["applyOps"])
            kinds[f"multiOpType {fields.get('multiOpType')}"] += 1
            kinds.update(name for name in ("fromMigrate", "isTimeseries", "stmtId") if name in fields)
        for change in history(seed).changes:
            found = rawbson.find(change.after or change.before or b"", b"_id")
            assert found is not None
            id_types.add(found[0])
    assert not [kind for kind in EVERY_KIND if not kinds[kind]]
    never = {rawbson.ARRAY, rawbson.REGEX, rawbson.UNDEFINED}
    every = {*range(1, 0x14), rawbson.MIN_KEY, rawbson.MAX_KEY} - never - {rawbson.CODE_WITH_SCOPE}
    assert id_types == every


def test_histories_hold_shrinking_arrays_and_odd_names() -> None:
    logged = b"".join(entry for seed in SEEDS for entry in history(seed).entries)
    for fragment in (b"\x08a\0\x01\x10l\0", b"\x03diff\0", b"a.b\0", b"$x\0", b"\x100\0"):
        assert fragment in logged, fragment


def test_features_can_be_switched_off() -> None:
    for seed in range(20):
        kinds = {bsondocs.decode(entry)["op"] for entry in generate(seed, features=PLAIN_WRITES).entries}
        assert kinds <= {"i", "u", "d", "c", "n"}
        for entry in generate(seed, features=PLAIN_WRITES).entries:
            fields = bsondocs.decode(entry)
            assert fields["op"] != "c" or "create" in fields["o"]


def test_split_logs_hold_every_entry_once_and_keep_chains_together() -> None:
    for seed in SEEDS:
        made = history(seed)
        logs = made.split(3, seed)
        first = made.entries[0]
        assert all(log[0] == first for log in logs)
        assert sorted(entry for log in logs for entry in log[1:]) == sorted(made.entries[1:])
        for log in logs:
            times = {timestamp_of(entry) for entry in log}
            for entry in log:
                previous = rawbson.subdocument(entry, b"prevOpTime")
                assert previous is None or timestamp_of(previous) in times | {0}


def test_bulk_oplog_has_the_promised_mix() -> None:
    kinds: Counter[str] = Counter()
    retryable = 0
    namespaces = set()
    sizes = []
    last = 0
    for entry in generate_bulk(1, 5000):
        fields = bsondocs.decode(entry)
        kinds[fields["op"]] += 1
        namespaces.add(fields["ns"])
        retryable += "stmtId" in fields
        if fields["op"] == "c":
            kinds["insertMany" if "multiOpType" in fields else "transaction"] += 1
        if fields["op"] == "i":
            sizes.append(len(bsondocs.encode(fields["o"])))
        assert timestamp_of(entry) > last
        last = timestamp_of(entry)
    assert 0.57 < kinds["i"] / 5000 < 0.63
    assert 0.27 < kinds["u"] / 5000 < 0.33
    assert 0.08 < kinds["d"] / 5000 < 0.12
    assert 0.88 < retryable / (kinds["i"] + kinds["u"] + kinds["d"]) < 0.92
    assert 30 < kinds["transaction"] < 70
    assert 10 < kinds["insertMany"] < 40
    assert len(namespaces) == 5
    assert 280 < sum(sizes) / len(sizes) < 320


def test_the_story_ends_with_an_archive() -> None:
    story = shop_story()
    assert list(story.final_documents) == ["shop.orders2023"]
    assert story.entries == shop_story().entries


def test_the_oplog_of_the_example_is_the_story(tmp_path: Path) -> None:
    oplog, *_ = replay_tour.write_sample(tmp_path)
    assert oplog.read_bytes() == dump(shop_story().entries)
