"""Split parts of a plain BSON file into entries and check all of them at once.

This is the innermost loop of reading archived files.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError
from tailrace.events.cluster_time import END_OF_TIME, in_words
from tailrace.lake.bulk.entry_forms import EntryForms
from tailrace.lake.bulk.kernel import compiled_kernel
from tailrace.lake.bulk.plain_entries import times_by_tail
from tailrace.lake.bulk.raw_entries import RawEntries
from tailrace.lake.bulk.splicing import PADDING, Positions, items
from tailrace.lake.schema import Times
from tailrace.sources.archives.entries import entry_time

_read_int32 = rawbson.INT32_LE.unpack_from
_FORMS: Final = EntryForms()
"""The forms of entries that were read so far: those of a server are few."""
_MANY: Final = 64
"""Fewer entries than these are read one by one."""


@dataclass(frozen=True, slots=True)
class FilePiece:
    """The wanted entries at the beginning of a part of a file, and what ends them."""

    entries: RawEntries
    taken: int
    """Bytes up to where they end."""
    last_time: int
    is_over: bool
    """Whether an entry after the interval follows."""
    damage: str | None
    """What is wrong with what follows; None if nothing is."""
    split: "Split"
    """All entries of the part of the file."""


@dataclass(frozen=True, slots=True)
class Split:
    """Where the entries of a part of a file end, without its bytes."""

    size: int
    """How many bytes the part has."""
    stops: Positions
    times: Times
    count: int
    """How many of the documents are entries."""
    damage: str | None
    """What is wrong after them."""


def split(buffer: bytes) -> Split:
    """Find the entries of a part of a file."""
    kernel = compiled_kernel()
    if kernel is None:
        stops, damage = _ends(buffer)
        times = _plain_times(buffer, stops)
    else:
        ends, found = kernel.split(buffer)
        stops, times = np.frombuffer(ends, np.int64), np.frombuffer(found, np.uint64)
        damage = _ends(buffer[int(stops[-1]) :] if len(stops) else buffer)[1]
    unknown = np.flatnonzero(times == 0)
    if len(unknown):
        times = times.copy()
    for index in unknown.tolist():
        raw = buffer[int(stops[index - 1]) if index else 0 : int(stops[index])]
        try:
            times[index] = entry_time(raw)
        except (ValueError, CommandError) as error:
            return Split(len(buffer), stops, times, index, str(error) or "not an oplog entry")
    return Split(len(buffer), stops, times, len(stops), damage)


def leading_entries(buffer: bytes, last: int, through: int, known: Split | None = None) -> FilePiece:
    """Return the entries of a buffer up to ``through``; they have to ascend, from ``last`` on.

    ``known`` is what was found in these bytes before.
    """
    found = split(buffer) if known is None or known.size != len(buffer) else known
    times, count, damage = found.times, found.count, found.damage
    is_late = np.flatnonzero(times[:count] > np.uint64(min(through, END_OF_TIME)))
    is_over = len(is_late) > 0
    if is_over:
        count, damage = int(is_late[0]), None
    before = np.empty(count, np.uint64)
    if count:
        before[0] = max(last, 0)
        before[1:] = times[: count - 1]
        is_early = np.flatnonzero(times[:count] <= before)
        if len(is_early):
            count, is_over = int(is_early[0]), False
            damage = (
                f"the entry's {in_words(int(times[count]))} does not come after the "
                f"{in_words(int(before[count]))} of the one before it"
            )
    entries = RawEntries(buffer, found.stops[:count], times[:count])
    return FilePiece(entries, entries.size, int(times[count - 1]) if count else last, is_over, damage, found)


def _ends(buffer: bytes) -> tuple[Positions, str | None]:
    """Return where the whole documents of a buffer end, and what is wrong after them."""
    stops: list[int] = []
    keep = stops.append
    read = _read_int32
    position, end = 0, len(buffer)
    last = end - 4
    damage = None
    while position <= last:
        length: int = read(buffer, position)[0]
        if not 5 <= length <= rawbson.MAX_INTERNAL_SIZE:
            damage = f"impossible document length {length}"
            break
        position += length
        keep(position)
    if position > end:
        stops.pop()
    ends = np.array(stops, np.int64)
    is_open = np.flatnonzero(np.frombuffer(buffer, np.uint8)[ends - 1])
    if len(is_open):
        return ends[: is_open[0]], "a document does not end in a NUL"
    return ends, damage


def _plain_times(buffer: bytes, ends: Positions) -> Times:
    """Return the times of entries of usual forms; 0 for others."""
    starts = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
    times = times_by_tail(np.frombuffer(buffer, np.uint8), starts, ends)
    others = np.flatnonzero(times == 0)
    if len(others) >= _MANY:
        data = np.frombuffer(buffer + bytes(PADDING), np.uint8)
        for found in _FORMS.find(data, starts[others], ends[others]):
            if "ts" in found.places:
                times[others[found.rows]] = items(data, "<u8")[found.places["ts"]]
    return times
