"""Sets of row numbers in the bytes of Delta's deletion vectors: 32-bit roaring bitmaps by their upper halves.

A 32-bit bitmap has a container for each 65,536 numbers: a sorted array, a bitset, or runs, whichever is the
smallest. The format is that of the RoaringBitmap project, in its portable form.
"""

import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]
"""Numbers of rows in a file, from 0 on, in order and each once"""

MAGIC: Final = 1_681_511_377
_NO_RUNS: Final = 12_346
_WITH_RUNS: Final = 12_347
"""How a bitmap begins: without and with containers of runs"""
_MOST_IN_ARRAY: Final = 4096
_BITSET_BYTES: Final = 8192
_FEW: Final = 4
"""With so many containers, a bitmap that has runs also has their offsets"""
_ARRAY, _BITSET, _RUNS = range(3)


def encoded(rows: Rows) -> bytes:
    r"""The bytes of a set of rows.

    >>> encoded(np.array([], np.int64)).hex()
    'd1d339640000000000000000'
    >>> decoded(encoded(np.array([3, 70_000, 1 << 40]))).tolist()
    [3, 70000, 1099511627776]
    """
    parts = list(_pieces(rows, 32))
    content = b"".join(struct.pack("<I", upper) + _bitmap(lower) for upper, lower in parts)
    return struct.pack("<IQ", MAGIC, len(parts)) + content


def decoded(data: bytes) -> Rows:
    """The rows of a set; raises `ValueError` if the bytes are not those of one."""
    try:
        magic, count = struct.unpack_from("<IQ", data)
        if magic != MAGIC:
            raise ValueError(f"the magic number is {magic}")
        place = struct.calcsize("<IQ")
        found: list[Rows] = []
        for _ in range(count):
            (upper,) = struct.unpack_from("<I", data, place)
            lower, place = _read_bitmap(data, place + 4)
            found.append(lower + (upper << 32))
    except struct.error:
        raise ValueError("the bytes end too early") from None
    if place != len(data):
        raise ValueError("there are bytes after the end")
    rows = np.concatenate(found) if found else np.empty(0, np.int64)
    if not bool(np.all(rows[:-1] < rows[1:])):
        raise ValueError("the numbers are not in order")
    return rows


def _pieces(numbers: Rows, bits: int) -> Iterator[tuple[int, Rows]]:
    """The upper parts of some numbers, and the lower ``bits`` of those that have each."""
    uppers = numbers >> bits
    starts = np.flatnonzero(np.diff(uppers, prepend=-1)).tolist()
    for start, end in pairwise([*starts, len(numbers)]):
        yield int(uppers[start]), numbers[start:end] & ((1 << bits) - 1)


def _bitmap(numbers: Rows) -> bytes:
    pieces = list(_pieces(numbers, 16))
    made = [_container(lower) for _, lower in pieces]
    kinds = [kind for kind, _ in made]
    has_runs = _RUNS in kinds
    if has_runs:
        flags = np.packbits([kind == _RUNS for kind in kinds], bitorder="little").tobytes()
        head = struct.pack("<HH", _WITH_RUNS, len(made) - 1) + flags
    else:
        head = struct.pack("<II", _NO_RUNS, len(made))
    head += b"".join(struct.pack("<HH", upper, len(lower) - 1) for upper, lower in pieces)
    contents = [content for _, content in made]
    if not has_runs or len(made) >= _FEW:
        first = len(head) + 4 * len(made)
        sizes = [len(content) for content in contents]
        head += np.cumsum([first, *sizes[:-1]]).astype("<u4").tobytes()
    return head + b"".join(contents)


def _container(numbers: Rows) -> tuple[int, bytes]:
    """Numbers below 65,536 in the smallest form."""
    begins = np.flatnonzero(np.diff(numbers, prepend=-2) != 1)
    plain_size = 2 * len(numbers) if len(numbers) <= _MOST_IN_ARRAY else _BITSET_BYTES
    if 2 + 4 * len(begins) < plain_size:
        lengths = np.diff(begins, append=len(numbers)) - 1
        runs = np.stack([numbers[begins], lengths], axis=1)
        return _RUNS, struct.pack("<H", len(begins)) + runs.astype("<u2").tobytes()
    if len(numbers) <= _MOST_IN_ARRAY:
        return _ARRAY, numbers.astype("<u2").tobytes()
    bits = np.zeros(8 * _BITSET_BYTES, np.bool_)
    bits[numbers] = True
    return _BITSET, np.packbits(bits, bitorder="little").tobytes()


def _read_bitmap(data: bytes, place: int) -> tuple[Rows, int]:
    """The numbers of a bitmap that begins at a place, and the place after it."""
    cookie, further = struct.unpack_from("<HH", data, place)
    is_run = np.zeros(0, np.bool_)
    if cookie == _WITH_RUNS:
        count = further + 1
        flags = (count + 7) // 8
        is_run = np.unpackbits(_array(data, place + 4, flags, "u1"), bitorder="little").astype(np.bool_)
        place += 4 + flags
    elif cookie == _NO_RUNS and not further:
        (count,) = struct.unpack_from("<I", data, place + 4)
        is_run = np.zeros(count, np.bool_)
        place += 8
    else:
        raise ValueError(f"a bitmap begins with {cookie}")
    heads = _array(data, place, 2 * count, "<u2").reshape(-1, 2).tolist()
    place += 4 * count
    if cookie == _NO_RUNS or count >= _FEW:
        place += 4 * count  # the containers follow one another in any case
    found: list[Rows] = []
    for (upper, fewer), has_runs in zip(heads, is_run.tolist(), strict=False):
        lower, place = _read_container(data, place, fewer + 1, has_runs=has_runs)
        found.append(lower + (upper << 16))
    return np.concatenate(found) if found else np.empty(0, np.int64), place


def _read_container(data: bytes, place: int, count: int, *, has_runs: bool) -> tuple[Rows, int]:
    if has_runs:
        (runs,) = struct.unpack_from("<H", data, place)
        pairs = _array(data, place + 2, 2 * runs, "<u2").reshape(-1, 2).astype(np.int64)
        sizes = pairs[:, 1] + 1
        before = np.cumsum(sizes) - sizes
        numbers = np.repeat(pairs[:, 0] - before, sizes) + np.arange(int(sizes.sum()))
        place += 2 + 4 * runs
    elif count <= _MOST_IN_ARRAY:
        numbers = _array(data, place, count, "<u2").astype(np.int64)
        place += 2 * count
    else:
        bits = np.unpackbits(_array(data, place, _BITSET_BYTES, "u1"), bitorder="little")
        numbers = np.flatnonzero(bits)
        place += _BITSET_BYTES
    if len(numbers) != count:
        raise ValueError(f"a container has {len(numbers)} numbers instead of {count}")
    return numbers, place


def _array(data: bytes, place: int, count: int, kind: str) -> npt.NDArray[np.unsignedinteger]:
    if place + count * np.dtype(kind).itemsize > len(data):
        raise ValueError("the bytes end too early")
    return np.frombuffer(data, kind, count, place)
