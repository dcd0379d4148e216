"""The law of the compiled kernel: what it takes is equal, and what the reference refuses it leaves.

`test_bulk_rows.py` and `test_bulk_forms.py` run with the kernel too, where it is installed.
"""

import os
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import bson
import pytest
from bson import Binary, DatetimeMS, Int64, ObjectId, Regex, Timestamp

from tailrace.errors import UsageError
from tailrace.events.interval import Interval
from tailrace.lake.bulk.kernel import NATIVE, NUMPY, VARIABLE, compiled_kernel, kernel_in_words
from tailrace.lake.bulk.rows import BulkRows
from tailrace.pipeline.history.build import build
from tailrace.sources.archives.file_pieces import FilePiece, leading_entries
from tailrace.sources.archives.files import FilesSource
from tests.lake.bulk_comparison import general_path, one_by_one
from tests.lake.test_bulk_forms import columns, outcome, strange_entry, usual_entry
from tests.support.bulk import BulkMix, generate_bulk

_MISSING = None if compiled_kernel() is not None else f"{kernel_in_words()}; `make native` builds it"
needs_kernel = pytest.mark.skipif(_MISSING is not None, reason=str(_MISSING))

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 20))]
ONE = BulkMix(transactions=0, batches=0, collections=1, retryable=0)
MIXES = {
    "inserts of one collection": replace(ONE, inserts=1, updates=0),
    "updates": replace(ONE, inserts=0, updates=1),
    "deletes": replace(ONE, inserts=0, updates=0),
    "retryable writes": replace(ONE, retryable=1),
    "many collections": BulkMix(collections=300, transactions=0.05),
    "transactions": BulkMix(transactions=1),
    "vectored inserts": BulkMix(transactions=0, batches=1),
}
DIFFS: list[dict[str, Any]] = [
    {"d": {"e": False, "f": False}, "u": {"a": 1, "b": None, "c": [1, {"x": 2}]}, "i": {"d": "new"}},
    {"d": {"gone": False}, "sa": {"d": {"b": False}, "u": {"c": Int64(1)}, "sd": {"i": {"e": 1.5}}}},
    {"slist": {"a": True, "l": 3, "u0": "first", "s2": {"u": {"x": 1}}, "s10": {"a": True, "l": 0}}},
    {"u": {"0": 1}, "s1": {"a": True, "u12": ObjectId(bytes(12))}},
]  # fmt: skip
LEFT_DIFFS: list[dict[str, Any]] = [
    {"u": {"a.b": 1}}, {"sa": {"u": {"0": 1}}}, {"b": {"raw": {"o": 0, "d": Binary(b"x", 0)}}},
    {"u": {"r": Regex("x")}}, {"sa": {"a": True, "u01": 1}}, {"x": {}}, {}, {"i": {"a": 1}, "u": {"b": 1}},
    {"sa": {}}, {"sa": {"a": False}},
]  # fmt: skip


def compiled_rows(marks_end: bool = True) -> BulkRows:
    return BulkRows(general_path([""], marks_end=marks_end), marks_end=marks_end)


def update(number: int, diff: object) -> bytes:
    return bson.encode({
        "op": "u", "ns": "shop.orders", "ui": Binary(bytes(16), 4), "o": {"$v": 2, "diff": diff},
        "o2": {"_id": number}, "ts": Timestamp(1_700_000_000, number), "t": Int64(1), "v": Int64(2),
        "wall": DatetimeMS(number),
    })  # fmt: skip


def damaged(rng: random.Random, raw: bytes) -> bytes:
    """An entry with some bytes changed, taken out or put in; the first ones mostly name its size."""
    damage = bytearray(raw)
    for _ in range(rng.choice((1, 1, 2, 4))):
        place = rng.randrange(4, len(damage))
        kind = rng.randrange(5)
        if kind == 0:
            damage[place] = rng.randrange(256)
        elif kind == 1:
            damage[place] ^= 1 << rng.randrange(8)
        elif kind == 2:
            damage[place : place + 4] = rng.choice(
                (b"\xff\xff\xff\x7f", bytes(4), b"\xff\xff\xff\xff", b"\5\0\0\0")
            )
        elif kind == 3:
            del damage[place : place + rng.choice((1, 4, 20))]
        else:
            damage[place:place] = rng.randbytes(rng.choice((1, 4)))
    damage = damage[:-1] + b"\0" if rng.random() < 0.8 else damage
    if rng.random() < 0.9:
        damage[:4] = len(damage).to_bytes(4, "little")
    return bytes(damage)


@needs_kernel
@pytest.mark.parametrize("mix", MIXES.values(), ids=MIXES.keys())
def test_it_takes_all_entries_of_an_application_and_its_rows_are_equal(mix: BulkMix) -> None:
    entries = list(
        generate_bulk(11, 1_000 // (mix.batch_size if mix.transactions + mix.batches >= 1 else 1), mix)
    )
    rows = compiled_rows()
    parts = entries[:30], entries[30:60], entries[60:]
    found = [columns(rows.batch({"": part})) for part in parts]
    expected = general_path([""], marks_end=True)
    assert found == [columns(one_by_one(expected, {"": part})) for part in parts]
    assert (rows.compiled_entries, rows.general_entries) == (len(entries), 0)


@needs_kernel
def test_it_describes_updates_and_leaves_what_it_cannot_describe() -> None:
    rows = compiled_rows()
    taken = [update(number, diff) for number, diff in enumerate(DIFFS, 1)]
    assert columns(rows.batch({"": taken})) == columns(one_by_one(general_path([""]), {"": taken}))
    assert rows.compiled_entries == len(taken)
    for number, diff in enumerate(LEFT_DIFFS, 1):
        raw = update(number, diff)
        expected = outcome(lambda entries: one_by_one(general_path([""]), entries), raw)
        assert outcome(rows.batch, raw) == expected, diff
    assert rows.compiled_entries == len(taken)


@needs_kernel
@pytest.mark.parametrize("seed", SEEDS)
def test_damaged_entries_have_the_rows_or_the_error_of_the_reference(seed: int) -> None:
    rng = random.Random(seed)
    events_of = general_path([""], marks_end=True)
    rows = compiled_rows()
    sound = [usual_entry(rng, number) for number in range(1, 200)] + list(generate_bulk(seed, 200))
    sound += [update(number, diff) for number, diff in enumerate(DIFFS, 1)]
    rows.batch({"": sound})  # it knows the kinds now
    before, errors = rows.compiled_entries, 0
    entries = [damaged(rng, rng.choice(sound)) for _ in range(800)]
    entries += [strange_entry(rng, number) for number in range(1, 100)]
    good: list[bytes] = []
    tokens: set[str] = set()
    for raw in entries:
        expected = outcome(lambda entries: one_by_one(events_of, entries), raw)
        assert outcome(rows.batch, raw) == expected, (seed, raw.hex())
        if not isinstance(expected, dict):
            errors += 1
        elif tokens.isdisjoint(expected["token"]):  # rows of one token have no order
            good.append(raw)
            tokens.update(expected["token"])
    assert rows.compiled_entries - before > 50, "the damage is so large that nothing is taken"
    assert errors > 50
    assert columns(rows.batch({"": good})) == columns(one_by_one(events_of, {"": good})), seed


@needs_kernel
@pytest.mark.parametrize("seed", SEEDS)
def test_files_are_split_as_the_reference_splits_them(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    entries = [usual_entry(rng, number) for number in range(1, 60)] + list(generate_bulk(seed, 60))
    pieces = []
    for _ in range(40):
        first = rng.randrange(len(entries) - 10)
        part = entries[first : first + 10]
        if rng.random() < 0.7:
            place = rng.randrange(10)
            part[place] = damaged(rng, part[place])
        memory = b"".join(part)
        pieces.append(memory[: rng.choice((len(memory), rng.randrange(len(memory))))])

    def split(kernel: str) -> list[tuple[Sequence[int], object]]:
        monkeypatch.setenv(VARIABLE, kernel)
        return [_parts(leading_entries(piece, 0, (1_700_000_000 << 32) + 50)) for piece in pieces]

    assert split(NATIVE) == split(NUMPY), seed


def _parts(piece: FilePiece) -> tuple[Sequence[int], object]:
    return piece.entries.ends.tolist(), (piece.taken, piece.last_time, piece.is_over, piece.damage)


@needs_kernel
def test_files_of_a_history_have_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for shard in range(2):
        (tmp_path / f"shard{shard}.bson").write_bytes(b"".join(generate_bulk(shard, 500)))
    source = FilesSource({f"shard{shard}": [str(tmp_path / f"shard{shard}.bson")] for shard in range(2)})

    def built(kernel: str) -> list[bytes]:
        monkeypatch.setenv(VARIABLE, kernel)
        history = tmp_path / kernel
        history.mkdir()
        build(source, Interval(0, 1_800_000_000 << 32), history)
        return [path.read_bytes() for path in sorted(history.rglob("*.parquet"))]

    assert built(NATIVE) == built(NUMPY) != []


@needs_kernel
def test_an_error_in_a_batch_leaves_nothing_for_the_next_one() -> None:
    entries = list(generate_bulk(3, 50))
    bad = update(7, {"u": {"a": 1}}).replace(b"\x11ts\0", b"\x11tz\0")
    rows, events_of = compiled_rows(), general_path([""], marks_end=True)
    assert isinstance(outcome(lambda _: rows.batch({"": [*entries, bad]}), b""), tuple)
    assert columns(rows.batch({"": entries})) == columns(one_by_one(events_of, {"": entries}))


@needs_kernel
def test_a_change_of_the_environment_decides_which_one_makes_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = list(generate_bulk(3, 50))

    def taken() -> int:
        rows = compiled_rows()
        rows.batch({"": entries})
        return rows.compiled_entries

    assert (taken(), kernel_in_words()) == (50, "compiled")
    monkeypatch.setenv(VARIABLE, NUMPY)
    assert (taken(), kernel_in_words()) == (0, f"numpy ({VARIABLE} is set)")


def test_an_unknown_choice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "fast")
    with pytest.raises(UsageError, match="TAILRACE_KERNEL is 'fast'; it may be numpy or native"):
        kernel_in_words()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise ImportError", "numpy (tailrace-native is not installed)"),
        ("INTERFACE = 0", "numpy (the installed tailrace-native is of another release)"),
    ],
    ids=["missing", "another release"],
)
def test_a_kernel_that_does_not_fit_is_not_used(tmp_path: Path, source: str, words: str) -> None:
    (tmp_path / "tailrace_native.py").write_text(source)
    code = "from tailrace.lake.bulk.kernel import kernel_in_words; print(kernel_in_words())"
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    environment |= {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{words}\n"
