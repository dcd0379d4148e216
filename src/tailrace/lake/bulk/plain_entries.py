"""The plain inserts, updates and deletes among many oplog entries, found without a step for each.

Plain is what `events/oplog_entry.py` calls so: `op`, `ns`, `ui`, `o` and perhaps `o2` in front, then `ts`,
`t`, `v` and `wall` and nothing else. Whatever looks different in any byte, whatever is damaged, and
whatever has a time that needs thought is left to the general road.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tailrace.lake.bulk.raw_entries import RawEntries
from tailrace.lake.bulk.splicing import Bytes, Positions, items

INSERT, REPLACE, UPDATE, DELETE = range(4)
DIFF: Final = 18
"""Where the diff begins in the `o` of an update: behind its size, ``$v: 2`` and the name"""

_TAIL: Final = 49
_SMALLEST: Final = 100
FIRST_DATE: Final = 0
LAST_DATE: Final = 253_402_300_799_999
"""Milliseconds: earlier and later dates are left to the general road"""


def _number(text: bytes) -> int:
    return int.from_bytes(text, "little")


@dataclass(frozen=True, slots=True)
class PlainEntries:
    """Where the parts of plain entries are; arrays with one item for each of them."""

    memory: bytes
    buffer: Bytes
    """the same for numpy"""
    number: Positions
    """which of all entries it is"""
    operation: npt.NDArray[np.int8]
    beginning: Positions
    """where the bytes begin that entries of one operation on one collection share"""
    o: Positions
    """where `o` begins: there the shared bytes end"""
    o_size: Positions
    key: Positions
    key_size: Positions
    ts: Positions
    wall: Positions
    """milliseconds"""

    def at(self, rows: npt.NDArray[Any]) -> "PlainEntries":
        """Some of them."""
        return PlainEntries(
            self.memory,
            self.buffer,
            self.number[rows],
            self.operation[rows],
            self.beginning[rows],
            self.o[rows],
            self.o_size[rows],
            self.key[rows],
            self.key_size[rows],
            self.ts[rows],
            self.wall[rows],
        )

    def __len__(self) -> int:
        return len(self.number)

    def document_keys(self) -> list[bytes]:
        """The document keys."""
        return self._values(self.key, self.key + self.key_size)

    def diffs(self) -> list[bytes]:
        """The diffs of updates."""
        return self._values(self.o + DIFF, self.o + self.o_size - 1)

    def _values(self, starts: Positions, ends: Positions) -> list[bytes]:
        memory = self.memory
        return [memory[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def find_plain(entries: Sequence[bytes]) -> PlainEntries:
    """The plain ones of some entries, in their order."""
    run = RawEntries.of(entries).padded()
    memory, ends = run.memory, run.ends
    buffer = np.frombuffer(memory, np.uint8)
    starts = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
    sizes = ends - starts
    int32, word, time = items(buffer, "<i4"), items(buffer, "<u8"), items(buffer, "<i8")
    last = len(word) - 1

    def number_at(positions: Positions) -> Positions:
        return int32[np.clip(positions, 0, last)].astype(np.int64)

    start = np.minimum(starts, last)
    op = buffer[np.minimum(start + 12, last)]
    name_size = number_at(start + 18)
    o = start + 50 + name_size
    o_size = number_at(o)
    o_end = o + o_size
    has_o2 = number_at(o_end) == _number(b"\x03o2\0")
    o2 = o_end + 4
    o2_size = np.where(has_o2, number_at(o2), 0)
    end = np.where(has_o2, o2 + o2_size, o_end)
    is_plain = (
        (sizes >= _SMALLEST)
        & (number_at(starts) == sizes)
        & (word[np.minimum(start + 4, last)] == _number(b"\x02op\0\x02\0\0\0"))
        & (name_size > 0)
        & (name_size < 1 << 16)
        & (o_size >= 5)
        & (o_end < ends)
        & ((o2_size >= 5) | ~has_o2)
        & (end + _TAIL == ends)
    )
    kept = np.flatnonzero(is_plain)
    start, op, o, o_size, o2, o2_size, end, has_o2 = (
        column[kept] for column in (start, op, o, o_size, o2, o2_size, end, has_o2)
    )
    wall, ts = time[end + 40], time[end + 4]
    is_delete, is_update = op == ord("d"), op == ord("u")
    has_id = int32[o + 5] == _number(b"_id\0")
    # Behind the size of `o`: the version of the diff, its name, and the diff up to the end.
    has_diff = (
        (word[o + 4] == _number(b"\x10$v\0\x02\0\0\0"))
        & (int32[o + 12] == _number(b"\x03dif"))
        & (int32[o + 14] == _number(b"iff\0"))
        & (number_at(o + DIFF) + DIFF + 1 == o_size)
    )
    operation = np.where(
        is_delete, DELETE, np.where(is_update, np.where(has_diff, UPDATE, REPLACE), INSERT)
    ).astype(np.int8)
    is_plain = (
        (int32[end] == _number(b"\x11ts\0"))
        & (int32[end + 12] & 0xFFFFFF == _number(b"\x12t\0"))
        & (int32[end + 23] & 0xFFFFFF == _number(b"\x12v\0"))
        & (int32[end + 34] == _number(b"\x09wal"))
        & (int32[end + 36] == _number(b"all\0"))
        & (buffer[end + 48] == 0)
        & (int32[o - 3] & 0xFFFFFF == _number(b"\x03o\0"))
        & (ts > 0)
        & (wall >= FIRST_DATE)
        & (wall <= LAST_DATE)
        & (is_delete | (is_update & has_o2 & (has_diff | has_id)) | ((op == ord("i")) & has_o2))
    )
    found = PlainEntries(
        memory,
        buffer,
        kept,
        operation,
        start + 4,
        o,
        o_size,
        np.where(is_delete, o, o2),
        np.where(is_delete, o_size, o2_size),
        ts,
        wall,
    )
    return found if is_plain.all() else found.at(np.flatnonzero(is_plain))
