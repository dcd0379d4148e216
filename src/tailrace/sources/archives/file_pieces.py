"""Split parts of a plain BSON file into entries and check all of them at once.

This is the innermost loop of reading archived files.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError
from tailrace.events.cluster_time import END_OF_TIME, in_words
from tailrace.events.layout.entry import TAIL_OFFSETS, TAIL_SIZE
from tailrace.events.layout.template import TIME
from tailrace.lake.bulk.entry_forms import EntryForms
from tailrace.lake.bulk.kernel import compiled_kernel
from tailrace.lake.bulk.plain_entries import has_tail
from tailrace.lake.bulk.raw_entries import RawEntries
from tailrace.lake.bulk.splicing import PADDING, Positions, items
from tailrace.lake.schema import Times
from tailrace.sources.archives.entries import entry_time

_read_int32 = rawbson.INT32_LE.unpack_from
_FORMS: Final = EntryForms()
"""The forms of entries that were read so far: those of a server are few."""


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


def leading_entries(buffer: bytes, last: int, through: int) -> FilePiece:
    """Return the entries of a buffer up to ``through``; they have to ascend, from ``last`` on."""
    stops, damage, times, count = _split(buffer)
    if count < len(stops):
        start = int(stops[count - 1]) if count else 0
        damage = _fault(buffer[start : int(stops[count])])
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
    entries = RawEntries(buffer, stops[:count], times[:count])
    return FilePiece(entries, entries.size, int(times[count - 1]) if count else last, is_over, damage)


def _split(buffer: bytes) -> tuple[Positions, str | None, Times, int]:
    """Return where documents end, what is wrong after them, their times, and how many are entries."""
    kernel = compiled_kernel()
    if kernel is None:
        stops, damage = _ends(buffer)
        times, is_known = _plain_times(buffer, stops)
    else:
        ends, found = kernel.split(buffer)
        stops, times = np.frombuffer(ends, np.int64), np.frombuffer(found, np.uint64).copy()
        is_known = times > 0
        damage = _ends(buffer[int(stops[-1]) :] if len(stops) else buffer)[1]
    for index in np.flatnonzero(~is_known).tolist():
        start = int(stops[index - 1]) if index else 0
        try:
            times[index] = entry_time(buffer[start : int(stops[index])])
        except (ValueError, CommandError):
            return stops, damage, times, index
    return stops, damage, times, len(stops)


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


def _plain_times(buffer: bytes, ends: Positions) -> tuple[Times, npt.NDArray[np.bool_]]:
    """Return the times of entries of usual forms, and which these are."""
    times = np.zeros(len(ends), np.uint64)
    is_plain = np.zeros(len(ends), np.bool_)
    starts = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
    long = np.flatnonzero(ends - starts > TAIL_SIZE)
    if len(long):
        tails = ends[long] - TAIL_SIZE
        data = np.frombuffer(buffer, np.uint8)
        is_plain[long] = has_tail(data, tails)
        times[long] = items(data, "<u8")[tails + TAIL_OFFSETS[TIME]]
    others = np.flatnonzero(~is_plain)
    if len(others):
        data = np.frombuffer(buffer + bytes(PADDING), np.uint8)
        for found in _FORMS.find(data, starts[others], ends[others]):
            if "ts" in found.places:
                times[others[found.rows]] = items(data, "<u8")[found.places["ts"]]
                is_plain[others[found.rows]] = True
    return times, is_plain


def _fault(raw: bytes) -> str:
    """Return why a document is no entry."""
    try:
        entry_time(raw)
    except (ValueError, CommandError) as error:
        return str(error)
    return "not an oplog entry"
