"""The bytes of deletion vectors: built by hand from the specifications of Delta and of roaring bitmaps."""

import random
import struct
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from tailrace.errors import HistoryError
from tailrace.lake.mirror.deletion_vectors import (
    DeletionVector,
    from_text,
    read_vectors,
    to_text,
    write_vectors,
)
from tailrace.lake.mirror.roaring import decoded, encoded
from tailrace.lake.storage.log_store import open_store

HEAD = struct.pack("<I", 1681511377)
SEED = 5
FEW = [3, 4, 7, 11, 18, 29]
EVEN = list(range(0, 16_384, 2))


def bitmaps(*found: bytes) -> bytes:
    """A set with some bitmaps; the first ones have the numbers below 2^32."""
    parts = (struct.pack("<I", upper) + bitmap for upper, bitmap in enumerate(found))
    return HEAD + struct.pack("<Q", len(found)) + b"".join(parts)


def plain(*containers: tuple[int, int, bytes]) -> bytes:
    """A bitmap without runs, of containers with their upper half, count and content."""
    head = struct.pack("<II", 12346, len(containers))
    head += b"".join(struct.pack("<HH", upper, count - 1) for upper, count, _ in containers)
    offsets, place = b"", len(head) + 4 * len(containers)
    for *_, content in containers:
        offsets += struct.pack("<I", place)
        place += len(content)
    return head + offsets + b"".join(content for *_, content in containers)


def array(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}H", *numbers)


SETS = {
    "empty": ([], bitmaps()),
    "an array": (FEW, bitmaps(plain((0, 6, array(*FEW))))),
    "a bitset": (EVEN, bitmaps(plain((0, 8192, b"\x55" * 2048 + bytes(6144))))),
    "numbers above 65,536": (
        [5, 65_535, 65_536 + 7, 3 * 65_536],
        bitmaps(plain((0, 2, array(5, 65_535)), (1, 1, array(7)), (3, 1, array(0)))),
    ),
    "numbers above 2^32": ([1, (1 << 32) + 2], bitmaps(plain((0, 1, array(1))), plain((0, 1, array(2))))),
    "all of a file": (
        list(range(65_536 + 100)),
        # Two containers, both with runs: no offsets.
        bitmaps(
            struct.pack("<HHB", 12347, 1, 0b11)
            + struct.pack("<HHHH", 0, 65_535, 1, 99)
            + struct.pack("<HHH", 1, 0, 65_535)
            + struct.pack("<HHH", 1, 0, 99)
        ),
    ),
    "runs and arrays": (
        [*range(10, 20), 65_536, *range(131_072, 131_082), *range(196_608, 196_708), 196_800],
        # Four containers have offsets even if some are runs.
        bitmaps(
            struct.pack("<HHB", 12347, 3, 0b1101)
            + struct.pack("<HHHHHHHH", 0, 9, 1, 0, 2, 9, 3, 100)
            + struct.pack("<IIII", 37, 43, 45, 51)
            + struct.pack("<HHH", 1, 10, 9)
            + array(0)
            + struct.pack("<HHH", 1, 0, 9)
            + struct.pack("<HHHHH", 2, 0, 99, 192, 0)
        ),
    ),
}


@pytest.mark.parametrize("name", SETS)
def test_sets_have_the_bytes_of_the_specification(name: str) -> None:
    rows, data = SETS[name]
    assert encoded(np.array(rows, np.int64)) == data
    assert decoded(data).tolist() == rows


def test_sets_of_any_form_are_read_as_they_were_written() -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    for _ in range(60):
        limit = rng.choice([50, 5000, 65_536, 400_000, 1 << 33])
        rows = {rng.randrange(limit) for _ in range(rng.choice([1, 40, 6000]))}
        for _ in range(rng.randrange(4)):
            start = rng.randrange(limit)
            rows |= set(range(start, start + rng.choice([10, 3000, 70_000])))
        assert decoded(encoded(np.array(sorted(rows), np.int64))).tolist() == sorted(rows)


def test_a_set_in_which_an_array_would_do_may_come_as_a_bitset_or_as_runs() -> None:
    """Other writers choose the forms by other rules."""
    runs = bitmaps(struct.pack("<HHB", 12347, 0, 1) + struct.pack("<HH", 0, 1) + array(2, 4, 0, 9, 0))
    assert decoded(runs).tolist() == [4, 9]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "too early"),
        (struct.pack("<IQ", 1681511376, 0), "magic"),
        (bitmaps(plain((0, 6, array(*FEW))))[:-1], "too early"),
        (bitmaps(plain((0, 6, array(*FEW)))) + b"\0", "after the end"),
        (bitmaps(plain((0, 2, array(4, 3)))), "not in order"),
        (bitmaps(struct.pack("<II", 12345, 0)), "begins with"),
        (bitmaps(plain((0, 5000, b"\1" * 8192))), "instead of"),
    ],
)
def test_damaged_sets_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decoded(data)


def test_small_vectors_are_text_as_in_the_example_of_the_specification() -> None:
    """The bytes of the example are those of an older form, in another order; the numbers are the same."""
    text = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
    assert to_text(SETS["an array"][1]) == text
    assert from_text(text, 44) == SETS["an array"][1]
    for wrong in ("~" + text[1:], text[:-1], text[:-5], "#####" + text[5:]):
        with pytest.raises(ValueError, match="text"):
            from_text(wrong, 44)


def test_the_name_of_a_file_follows_from_the_log() -> None:
    """The example of the specification, without the prefix of a folder."""
    vector = DeletionVector("u", "^-aqEH.-t@S}K{vb[*k^", 40, 6, 4)
    assert vector.file == "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    assert vector.identity == "u^-aqEH.-t@S}K{vb[*k^@4"
    assert DeletionVector.of(vector.descriptor) == vector
    with pytest.raises(ValueError, match="stored in the way"):
        DeletionVector.of({**vector.descriptor, "storageType": "p"})


def test_large_vectors_share_a_file_with_checksums(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    dead = {"a": FEW, "b": EVEN, "c": list(range(0, 3000, 3))}
    vectors = write_vectors(store, {path: np.array(rows, np.int64) for path, rows in dead.items()})
    (file,) = tmp_path.glob("deletion_vector_*.bin")
    second = encoded(np.array(dead["c"], np.int64))
    content = b"\1"
    for data in (SETS["a bitset"][1], second):
        content += struct.pack(">I", len(data)) + data + struct.pack(">I", crc32(data))
    assert file.read_bytes() == content
    assert [vectors[path].file for path in "abc"] == [None, file.name, file.name]
    assert (vectors["b"].offset, vectors["c"].offset) == (1, 9 + len(SETS["a bitset"][1]))
    found = read_vectors(store, vectors.values())
    assert {path: found[vectors[path]].tolist() for path in dead} == dead
    file.write_bytes(content[:100] + b"\xff" + content[101:])
    with pytest.raises(HistoryError, match=r"its checksum is wrong\); copy the collection again"):
        read_vectors(store, [vectors["b"]])
    file.unlink()
    with pytest.raises(HistoryError, match="is damaged or missing"):
        read_vectors(store, [vectors["c"]])
