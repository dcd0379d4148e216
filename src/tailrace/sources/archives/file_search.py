"""Search entries in a plain BSON file, from any byte on.

A position is assumed to be the beginning of an entry if several entries with ascending times follow from
there. So a time is found without reading the file from its beginning.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError
from tailrace.sources.archives.entries import entry_time
from tailrace.sources.archives.opening import RandomFile, open_random

NEAR: Final = 64 << 10
"""Bytes that are read, or walked, at once."""
_CHAIN: Final = 8
"""How many entries have to follow each other."""
# The length of an entry and the field it may begin with; entries that begin otherwise are skipped.
_BEGINNING: Final = re.compile(
    rb"(?=....(?:\x02op\0\x02\0\0\0[a-z]\0|\x02ns\0..\0\0|\x03lsid\0....\x05id\0|\x05ui\0\x10\0\0\0\x04"
    rb"|(?:\x11ts|\x12txnNumber|\x12[tvh]|\x09wall)\0.{8}[\x01-\x13][a-z]|\x10v\0\x02\0\0\0))",
    re.DOTALL,
)
_LONGEST_BEGINNING: Final = 32
_read_int32 = rawbson.INT32_LE.unpack_from


class Window:
    """A file that is read in parts; positions near the last read cost nothing."""

    def __init__(self, file: RandomFile, size: int) -> None:
        self._file = file
        self.size = size
        self._start = 0
        self._buffer = b""

    def part(self, start: int, stop: int) -> bytes:
        """Return the bytes between two positions, fewer at the end of the file."""
        if start < self._start or stop > self._start + len(self._buffer):
            self._start = start
            self._buffer = self._file.pread(max(stop - start, NEAR), start)
        return self._buffer[start - self._start : stop - self._start]

    def byte(self, position: int) -> bytes:
        """Return one byte, without moving the window."""
        if self._start <= position < self._start + len(self._buffer):
            return self._buffer[position - self._start : position - self._start + 1]
        return self._file.pread(1, position)


@contextmanager
def window(path: str, size: int) -> Iterator[Window]:
    with open_random(path) as file:
        yield Window(file, size)


def walk(data: Window, position: int) -> Iterator[tuple[int, int, int]]:
    """Return beginning, end and time of the entries from a position on, until none follows."""
    while position < data.size:
        found = _entry_at(data, position)
        if found is None:
            return
        yield position, *found
        position = found[0]


def _entry_at(data: Window, position: int) -> tuple[int, int] | None:
    """Return end and time of the entry that begins at a byte, if one does."""
    if data.size - position < 5:
        return None
    length: int = _read_int32(data.part(position, position + 4))[0]
    stop = position + length
    if not 5 <= length <= rawbson.MAX_INTERNAL_SIZE or stop > data.size:
        return None
    if data.byte(stop - 1) != b"\0":
        return None  # most of what is no entry is found by that, without reading it
    try:
        return stop, entry_time(data.part(position, stop))
    except (ValueError, CommandError):
        return None


def boundary(data: Window, offset: int, end: int) -> tuple[int, int] | None:
    """Return position and time of the first entry at a byte or later and before ``end``, if there is one."""
    while offset < end:
        piece = data.part(offset, min(offset + NEAR, data.size))
        for candidate in _BEGINNING.finditer(piece):
            position = offset + candidate.start()
            if position >= end:
                return None
            time = _chained(data, position)
            if time is not None:
                return position, time
        # An entry that begins at the very end of this piece is found in the next one.
        offset += max(len(piece) - _LONGEST_BEGINNING, 1)
    return None


def _chained(data: Window, position: int) -> int | None:
    """Return the time of the entry at a byte, if later entries follow it."""
    first = None
    last = -1
    for _ in range(_CHAIN):
        found = _entry_at(data, position)
        if found is None or found[1] <= last:
            return None
        position, last = found
        if first is None:
            first = last
        if position == data.size:
            break
    return first
