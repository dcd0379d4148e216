"""`tailrace replay` of damaged input: the events before the damage, then one sentence with its place."""

import gzip
import random
from pathlib import Path
from typing import Any

import pytest
from bson import Int64, Timestamp

from tailrace.bson import documents
from tailrace.bson import raw as rawbson
from tests.cli.console import Here, Outcome, tailrace
from tests.cli.replay_inputs import EXPANDED, ids, lines_of, transaction, write
from tests.sources.archive_samples import UUID, entry


def test_events_before_the_damage_are_written(here: Here, tmp_path: Path) -> None:
    good = [entry(n) for n in range(1, 6)]
    place = len(b"".join(good))
    cut = gzip.compress(b"".join([*good, entry(6)]))[:-12]
    inputs: dict[str, tuple[bytes, int | None]] = {
        "truncated.bson": (b"".join(good) + entry(6)[:-3], place),
        "damaged.bson": (b"".join(good) + b"\xff\xff\xff\xff" + entry(6), place),
        "no-entry.bson": (b"".join(good) + documents.encode({"a": 1}), place),
        "backwards.bson": (b"".join(good) + entry(5), place),
        "broken.json": (lines_of(good) + b'{"op":\n', len(lines_of(good))),
        "cut.bson.gz": (cut, None),
    }
    for name, (content, offset) in inputs.items():
        (tmp_path / name).write_bytes(content)
        outcome = here("replay", tmp_path / name)
        assert outcome.code == 1
        assert ids(outcome)[:5] == [1, 2, 3, 4, 5]
        assert f"{tmp_path / name} is damaged at byte" in outcome.sentence
        if offset is not None:
            assert ids(outcome) == [1, 2, 3, 4, 5]
            assert f"at byte {offset}:" in outcome.sentence


def test_damage_on_one_shard_stops_the_stream_there(tmp_path: Path) -> None:
    a = write(tmp_path / "a.bson", entry(1), entry(4), b"\xff" * 8)
    b = write(tmp_path / "b.bson", entry(2), entry(3), entry(5))
    outcome = tailrace("replay", "--shard", f"a={a}", "--shard", f"b={b}")
    assert outcome.code == 1
    assert ids(outcome) == [1, 2, 3, 4]
    assert f"{a} is damaged at byte" in outcome.sentence


@pytest.mark.parametrize(
    ("arguments", "words", "before"),
    [
        (["--options", '{"startAtOperationTime": {"$timestamp": {"t": 99, "i": 1}}}'], "286", []),
        (["--pipeline", '[{"$project": {"_id": 0}}]'], "280", []),
        (["--options", '{"fullDocumentBeforeChange": "required"}'], "47", [1]),
        (["--ns", "shop.broken"], "6741200", []),
    ],
)
def test_errors_while_the_stream_runs(
    here: Here, tmp_path: Path, arguments: list[str], words: str, before: list[int]
) -> None:
    update: dict[str, Any] = {"op": "u", "o": {"$v": 2, "diff": {"u": {"x": 1}}}}
    broken = entry(3, op="u", ns="shop.broken", o={"$set": {"x": 1}})
    oplog = write(tmp_path / "oplog.bson", entry(1), entry(2, **update), broken)
    outcome = here("replay", oplog, *arguments)
    assert outcome.code == 1
    assert f"({words} " in outcome.sentence
    assert ids(outcome) == before


def test_damaged_pre_images_are_named(here: Here, tmp_path: Path) -> None:
    oplog = write(tmp_path / "oplog.bson", entry(1))
    images = write(tmp_path / "images.bson", documents.encode({"_id": 1}))
    outcome = here("replay", oplog, "--pre-images", images)
    assert outcome.code == 1
    assert f"{images} is damaged at byte 0" in outcome.sentence


def test_an_oplog_that_starts_a_replica_set_has_no_lost_history(here: Here, tmp_path: Path) -> None:
    begin = entry(1, op="n", ns="", o={"msg": "initiating set"})
    oplog = write(tmp_path / "oplog.bson", begin, entry(2))
    at = '{"startAtOperationTime": {"$timestamp": {"t": 1, "i": 1}}}'
    assert ids(here("replay", oplog, "--options", at)) == [2]


# Damage at every byte of a small oplog, with one entry of each kind that is read differently


def small_oplog() -> list[bytes]:
    return [
        entry(1),
        entry(2, op="u", o={"$v": 2, "diff": {"u": {"a": 1}, "sb": {"i": {"c": [1]}}}}),
        entry(3, op="c", ns="shop.$cmd", o={"create": "orders", "capped": True}),
        transaction(4, [5, 6]),
        entry(7, op="d", o={"_id": 7}),
    ]


def whole(outcomes: list[Outcome], offsets: list[int], position: int) -> bytes:
    """The output for the entries that end before a position."""
    return outcomes[sum(1 for offset in offsets[1:] if offset <= position)].output


@pytest.fixture
def prefixes(here: Here, tmp_path: Path) -> tuple[list[int], list[Outcome]]:
    entries = small_oplog()
    offsets = [len(b"".join(entries[:count])) for count in range(len(entries) + 1)]
    path = tmp_path / "prefix.bson"
    outcomes = [
        here("replay", write(path, *entries[:count]), "--options", EXPANDED)
        for count in range(len(entries) + 1)
    ]
    assert [len(outcome.lines) for outcome in outcomes] == [0, 1, 2, 3, 5, 6]
    return offsets, outcomes


def test_an_oplog_cut_off_anywhere(
    here: Here, tmp_path: Path, prefixes: tuple[list[int], list[Outcome]]
) -> None:
    offsets, outcomes = prefixes
    content = b"".join(small_oplog())
    path = tmp_path / "cut.bson"
    for cut in sorted({*offsets, *(offset + 1 for offset in offsets[:-1]), *range(0, len(content), 4)}):
        outcome = here("replay", write(path, content[:cut]), "--options", EXPANDED)
        assert outcome.output == whole(outcomes, offsets, cut)
        if cut in offsets:
            assert outcome.code == 0
        else:
            place = max(offset for offset in offsets if offset <= cut)
            assert outcome.code == 1
            assert outcome.sentence.startswith(f"{path} is damaged at byte {place}:")


def test_an_oplog_changed_anywhere(
    here: Here, tmp_path: Path, prefixes: tuple[list[int], list[Outcome]]
) -> None:
    """The events before the changed entry are printed; the rest is right, or refused with one sentence."""
    offsets, outcomes = prefixes
    content = b"".join(small_oplog())
    path = tmp_path / "changed.bson"
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    pipeline = ["--pipeline", '[{"$match": {"ns.db": {"$exists": true}}}, {"$addFields": {"x": 1}}]']
    for position in rng.sample(range(len(content)), 400):
        changed = bytearray(content)
        changed[position] ^= 1 << rng.randrange(8)
        write(path, bytes(changed))
        more = rng.choice(([], pipeline))
        outcome = here("replay", path, "--options", EXPANDED, *more)
        before = whole(outcomes, offsets, position)
        assert outcome.output.startswith(before) or more, (seed, position)
        assert len(outcome.lines) >= before.count(b"\n"), (seed, position)
        assert outcome.code in (0, 1), (seed, position)
        assert outcome.code == 0 or outcome.sentence, (seed, position)
        assert "(22 InvalidBSON)" not in outcome.error, (seed, position)


# Damage inside a document, which is found only when the document is read


def broken(raw: bytes, good: bytes, bad: bytes) -> bytes:
    assert raw.count(good) == 1
    assert len(good) == len(bad)
    return raw.replace(good, bad)


@pytest.mark.parametrize("more", [[], ["--pipeline", '[{"$set": {"a": 1}}]']])
@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (b"\x02here\0", b"\xeehere\0"),
        (b"\x02here\0", b"\x02h\xffre\0"),
        (b"\x02here\0\x05", b"\x02here\0\x06"),
        (b"text", b"te\xfft"),
    ],
)
def test_damage_inside_a_document_is_named_too(
    here: Here, tmp_path: Path, good: bytes, bad: bytes, more: list[str]
) -> None:
    document = {"_id": 2, "deep": [{"here": "text"}]}
    path = write(tmp_path / "oplog.bson", entry(1), broken(entry(2, o=document), good, bad), entry(3))
    outcome = here("replay", path, *more)
    assert outcome.code == 1
    assert ids(outcome) == [1]
    assert f"{path} is damaged at byte {len(entry(1))}:" in outcome.sentence


def test_an_entry_that_lacks_a_field_is_named(here: Here, tmp_path: Path) -> None:
    path = write(tmp_path / "oplog.bson", entry(1), rawbson.without(entry(2), {b"wall"}))
    outcome = here("replay", path)
    assert outcome.code == 1
    assert ids(outcome) == [1]
    assert f"{path} is damaged at byte {len(entry(1))}: an oplog entry lacks" in outcome.sentence


def test_a_document_nested_deeper_than_any_is_damage(here: Here, tmp_path: Path) -> None:
    nested = rawbson.EMPTY
    for _ in range(900):
        nested = rawbson.document(rawbson.element(rawbson.DOCUMENT, b"a", nested))
    raw = rawbson.without(entry(2), {b"o"})
    path = write(tmp_path / "oplog.bson", entry(1), rawbson.document(
        rawbson.element(rawbson.DOCUMENT, b"o", nested), rawbson.body(raw)
    ))  # fmt: skip
    redact = '[{"$redact": {"$cond": [{"$eq": ["$x", 1]}, "$$PRUNE", "$$DESCEND"]}}]'
    for more in ([], ["--pipeline", redact]):
        outcome = here("replay", path, *more)
        assert outcome.code == 1
        assert f"{path} is damaged at byte {len(entry(1))}: the document is nested too" in outcome.sentence


def test_damage_in_an_earlier_part_of_a_transaction_is_named(here: Here, tmp_path: Path) -> None:
    first = transaction(2, [20], partialTxn=True)
    damaged = first.replace(b"\x10_id", b"\xee_id")
    last = transaction(9, [90], previous=2)
    path = write(tmp_path / "1.bson", entry(1), damaged)
    other = write(tmp_path / "2.bson", entry(3), last)
    outcome = here("replay", path, other)
    assert outcome.code == 1
    assert ids(outcome) == [1, 3]
    assert f"{path} is damaged at byte {len(entry(1))}:" in outcome.sentence


@pytest.mark.parametrize("name", ["images.bson", "images.bson.gz"])
def test_damage_inside_a_pre_image_is_named(here: Here, tmp_path: Path, name: str) -> None:
    deletions = [entry(number, op="d", o={"_id": number}) for number in (1, 2)]
    oplog = write(tmp_path / "oplog.bson", *(rawbson.without(raw, {b"o2"}) for raw in deletions))
    images = [
        documents.encode(
            {
                "_id": {"nsUUID": UUID, "ts": Timestamp(100, number), "applyOpsIndex": Int64(0)},
                "preImage": {"_id": number, "here": "text"},
            }
        )
        for number in (1, 2)
    ]
    content = images[0] + broken(images[1], b"\x02here", b"\xeehere")
    path = write(tmp_path / name, gzip.compress(content) if name.endswith(".gz") else content)
    options = '{"fullDocumentBeforeChange": "required"}'
    outcome = here("replay", oplog, "--options", options, "--pre-images", path)
    assert outcome.code == 1
    assert ids(outcome) == [1]
    assert f"{path} is damaged at byte {len(images[0])}:" in outcome.sentence


@pytest.mark.skipif(
    not Path("/proc/self/mem").exists(), reason="needs a file whose first byte cannot be read"
)
def test_a_read_error_is_damage(here: Here, tmp_path: Path) -> None:
    outcome = here("replay", write(tmp_path / "oplog.bson", entry(1)), "/proc/self/mem")
    assert outcome.code == 1
    assert ids(outcome) == [1]
    assert "/proc/self/mem is damaged at byte 0: it cannot be read" in outcome.sentence
