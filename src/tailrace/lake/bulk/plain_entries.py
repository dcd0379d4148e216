"""The plain inserts, updates and deletes among many oplog entries, found without a step for each.

Plain is what `events/layout/entry.py` describes. An entry that differs in any byte, that is damaged, or whose
wall time is before 1970 or after the year 9999 is left to the general road.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tailrace.bson.dates import LAST_DATE
from tailrace.events.layout.entry import (
    NS_SIZE,
    O2_LEAD,
    O_BASE,
    O_LEAD,
    OP,
    OP_LEAD,
    TAIL_LEAD_OFFSETS,
    TAIL_LEADS,
    TAIL_OFFSETS,
    TAIL_SIZE,
)
from tailrace.events.layout.template import TIME, WALL
from tailrace.events.update_diff import DELTA_LEAD, DIFF_START
from tailrace.lake.bulk.raw_entries import RawEntries
from tailrace.lake.bulk.splicing import Bytes, Positions, have_bytes, items

INSERTED, REPLACED, UPDATED, DELETED = range(4)
OPERATIONS: Final = {"insert": INSERTED, "replace": REPLACED, "update": UPDATED, "delete": DELETED}

_SMALLEST: Final = 100


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
    ts: npt.NDArray[np.uint64]
    wall: Positions
    """milliseconds"""
    tail: Positions
    """where the fields begin that `TAIL` of `events/layout/entry.py` lists"""

    def at(self, rows: npt.NDArray[Any]) -> "PlainEntries":
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
            self.tail[rows],
        )

    def __len__(self) -> int:
        return len(self.number)

    def document_keys(self) -> list[bytes]:
        return self._values(self.key, self.key + self.key_size)

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
    int32, uint64, int64 = items(buffer, "<i4"), items(buffer, "<u8"), items(buffer, "<i8")
    last = len(uint64) - 1

    def at(positions: Positions) -> Positions:
        return np.clip(positions, 0, last)

    def size_at(positions: Positions) -> Positions:
        return int32[at(positions)].astype(np.int64)

    start = np.minimum(starts, last)
    op = buffer[at(start + OP)]
    name_size = size_at(start + NS_SIZE)
    o = start + O_BASE + name_size
    o_size = size_at(o)
    o_end = o + o_size
    has_o2 = have_bytes(buffer, at(o_end), O2_LEAD)
    o2 = o_end + len(O2_LEAD)
    o2_size = np.where(has_o2, size_at(o2), 0)
    end = np.where(has_o2, o2 + o2_size, o_end)
    is_plain = (
        (sizes >= _SMALLEST)
        & (size_at(starts) == sizes)
        & have_bytes(buffer, at(start + 4), OP_LEAD)
        & (name_size > 0)
        & (name_size < 1 << 16)
        & (o_size >= 5)
        & (o_end < ends)
        & ((o2_size >= 5) | ~has_o2)
        & (end + TAIL_SIZE == ends)
    )
    kept = np.flatnonzero(is_plain)
    op, has_o2 = op[kept], has_o2[kept]
    start, o, o_size, o2, o2_size, end = (column[kept] for column in (start, o, o_size, o2, o2_size, end))
    wall, ts = int64[end + TAIL_OFFSETS[WALL]], uint64[end + TAIL_OFFSETS[TIME]]
    is_delete, is_update = op == ord("d"), op == ord("u")
    has_id = have_bytes(buffer, o + 5, b"_id\0")
    has_diff = have_bytes(buffer, o + 4, DELTA_LEAD) & (size_at(o + DIFF_START) + DIFF_START + 1 == o_size)
    operation = np.where(
        is_delete, DELETED, np.where(is_update, np.where(has_diff, UPDATED, REPLACED), INSERTED)
    ).astype(np.int8)
    is_plain = (
        has_tail(buffer, end)
        & (buffer[end + TAIL_SIZE - 1] == 0)
        & have_bytes(buffer, o - len(O_LEAD), O_LEAD)
        & (ts > 0)
        & (wall >= 0)
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
        end,
    )
    return found if is_plain.all() else found.at(np.flatnonzero(is_plain))


def has_tail(buffer: Bytes, positions: Positions) -> npt.NDArray[np.bool_]:
    """Whether the fields that end a plain entry begin at these positions."""
    found = np.ones(len(positions), np.bool_)
    for offset, lead in zip(TAIL_LEAD_OFFSETS, TAIL_LEADS, strict=True):
        found &= have_bytes(buffer, positions + offset, lead)
    return found
