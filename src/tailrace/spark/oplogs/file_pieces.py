"""Pieces of a plain BSON file taken apart into entries, with everything checked for all of them at once.

This is the innermost loop of everything that reads archived files.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from tailrace.bsonio import raw as rawbson
from tailrace.errors import CommandError
from tailrace.history.splicing import lines
from tailrace.model.cluster_time import in_words
from tailrace.store.archive_entries import entry_time

# Nearly all entries end in `ts`, `t`, `v`, `wall` and a NUL; the names, with gaps for the values.
_TAIL: Final = (
    b"\x11ts\0" + bytes(8) + b"\x12t\0" + bytes(8) + b"\x12v\0" + bytes(8) + b"\x09wall\0" + bytes(9)
)
_TAIL_SIZE: Final = len(_TAIL)
_LAST: Final = (1 << 64) - 1
_TIME: Final = slice(4, 12)
_NAMED: Final = np.r_[0:4, 12:15, 23:26, 34:40, 48]
_NAMES: Final = np.frombuffer(_TAIL, dtype=np.uint8)[_NAMED]
_read_int32 = rawbson.INT32_LE.unpack_from


@dataclass(frozen=True, slots=True)
class Piece:
    """The wanted entries at the beginning of a piece of a file, and what ends them."""

    entries: list[bytes]
    taken: int
    """bytes up to where they end"""
    last_time: int
    is_over: bool
    """an entry behind the interval follows"""
    damage: str | None
    """what is wrong with what follows"""


def leading_entries(buffer: bytes, last: int, through: int) -> Piece:
    """The entries of a buffer up to ``through``; the first has to be later than ``last``, and so on."""
    stops, damage = _ends(buffer)
    times, count = _times(buffer, stops)
    if count < len(stops):
        start = stops[count - 1] if count else 0
        damage = _fault(buffer[start : stops[count]])
    is_late = np.flatnonzero(times[:count] > np.uint64(min(through, _LAST)))
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
    stops = stops[:count]
    entries = [buffer[start:stop] for start, stop in pairwise([0, *stops])]
    if not count:
        return Piece(entries, 0, last, is_over, damage)
    return Piece(entries, stops[-1], int(times[count - 1]), is_over, damage)


def _ends(buffer: bytes) -> tuple[list[int], str | None]:
    """Where the whole documents at the beginning of a buffer end, and what is wrong behind them."""
    stops: list[int] = []
    keep = stops.append
    read = _read_int32
    position, end = 0, len(buffer)
    last = end - 4
    while position <= last:
        length: int = read(buffer, position)[0]
        if not 5 <= length <= rawbson.MAX_INTERNAL_SIZE:
            return stops, f"impossible document length {length}"
        position += length
        if position > end:
            break
        if buffer[position - 1]:
            return stops, "a document does not end in a NUL"
        keep(position)
    return stops, None


def _times(buffer: bytes, stops: list[int]) -> tuple[npt.NDArray[np.uint64], int]:
    """The times of the documents that end there, and how many of them are entries before one is none."""
    ends = np.array(stops, dtype=np.int64)
    data = np.frombuffer(buffer, dtype=np.uint8)
    tails = np.zeros((len(ends), _TAIL_SIZE), dtype=np.uint8)
    starts = np.concatenate(([0], ends[:-1])) if len(ends) else ends
    is_long = ends - starts > _TAIL_SIZE
    if is_long.any():
        tails[is_long] = lines(data, ends[is_long] - _TAIL_SIZE, _TAIL_SIZE)
    times = tails[:, _TIME].copy().view("<u8").reshape(len(ends))
    is_plain = (tails[:, _NAMED] == _NAMES).all(axis=1)
    for index in np.flatnonzero(~is_plain).tolist():
        try:
            times[index] = entry_time(buffer[stops[index - 1] if index else 0 : stops[index]])
        except (ValueError, CommandError):
            return times, index
    return times, len(stops)


def _fault(raw: bytes) -> str:
    """What a document lacks to be an entry."""
    try:
        entry_time(raw)
    except (ValueError, CommandError) as error:
        return str(error)
    return "not an oplog entry"
