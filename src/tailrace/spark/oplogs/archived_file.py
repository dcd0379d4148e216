"""Files of an archived oplog, read by time.

A plain BSON file is searched by bisection: from any byte on, the next place is taken for the beginning of an
entry where several entries follow each other with ascending times. So nobody has to walk the file to cut it
into pieces. Should a chain inside some stored document be mistaken for the oplog itself, it shows: a piece
has to end where the next one was found to begin.

Compressed files and Extended JSON cannot be entered in the middle; they are read from their beginning.
"""

import mmap
import os
import re
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cached_property, lru_cache
from typing import Final

from tailrace.bsonio import raw as rawbson
from tailrace.errors import CommandError, DamagedInputError
from tailrace.model.cluster_time import in_words
from tailrace.model.oplog_entry import parse_entry
from tailrace.spark.oplogs.source import BATCH_BYTES
from tailrace.store.archive_bytes import looks_like_gzip
from tailrace.store.archive_documents import known_suffix, read_documents
from tailrace.store.archive_entries import EntryOrder, entry_time, widened
from tailrace.store.entry_spool import EntrySpool

_CHAIN: Final = 8
"""So many entries have to follow each other before their beginning is believed"""
_NEAR: Final = 64 << 10
"""Bytes that are walked rather than bisected"""
_UNPACKED: Final = 8
"""How much larger compressed entries are about when they are unpacked"""
_BEGINNING: Final = re.compile(rb"(?=....[\x01-\x13][A-Za-z_$][A-Za-z0-9_$]{0,30}\0)", re.DOTALL)
# `ts`, `t`, `v`, `wall` and the final NUL, in which nearly all entries end.
_TAIL: Final = struct.Struct("<4sQ3s8x3s8x6s8xc")
_TAIL_SIZE: Final = _TAIL.size
_TAIL_NAMES: Final = (b"\x11ts\0", b"\x12t\0", b"\x12v\0", b"\x09wall\0", b"\0")
_FOREVER: Final = (1 << 64) - 1

_read_int32 = rawbson.INT32_LE.unpack_from
_read_tail = _TAIL.unpack_from


class ArchivedFile(ABC):
    """One file; the entries of an oplog's files follow each other."""

    def __init__(self, path: str, first: bytes) -> None:
        self.path = path
        self.first = first
        """the first entry"""
        self.first_time = entry_time(first)

    @property
    @abstractmethod
    def last_time(self) -> int:
        """The time of the last whole entry."""

    @property
    @abstractmethod
    def weight(self) -> int:
        """About how many bytes its entries have."""

    @abstractmethod
    def batches(self, after: int, through: int) -> Iterator[list[bytes]]:
        """The entries of an interval; `DamagedInputError` behind those that precede a damaged place."""

    @abstractmethod
    def find(self, ts: int, term: int) -> bytes | None:
        """The entry at a position; of files read as a whole, only parts of transactions are found."""

    @abstractmethod
    def points(self, after: int, through: int, step: int) -> Iterator[tuple[int, int]]:
        """The times reached about every ``step`` bytes of an interval, and the bytes since the last one."""


def open_archived(path: str) -> ArchivedFile | None:
    """The file at a path; None if it holds no entry."""
    with closing(read_documents(path)) as batches:
        for batch in batches:
            count, damage = EntryOrder().leading(batch.documents[:1])
            if not count:
                raise DamagedInputError(path, 0, damage or "not an oplog entry")
            first = widened(batch.documents[0]) if batch.from_json else batch.documents[0]
            is_plain = not batch.from_json and not _is_compressed(path)
            return PlainFile(path, first) if is_plain else WholeFile(path, first)
    return None


def _is_compressed(path: str) -> bool:
    if path.lower().endswith(".gz"):
        return True
    with open(path, "rb") as file:
        return known_suffix(path) != ".json" and looks_like_gzip(file.read(64))


class PlainFile(ArchivedFile):
    """BSON as `mongodump` writes it; any interval is found without reading what is before it."""

    def __init__(self, path: str, first: bytes) -> None:
        super().__init__(path, first)
        self._size = os.path.getsize(path)

    @property
    def weight(self) -> int:
        """The bytes on disk."""
        return self._size

    @cached_property
    def last_time(self) -> int:
        """See `ArchivedFile`."""
        reach = _NEAR
        with _mapped(self.path) as data:
            while True:
                found = _boundary(data, max(self._size - reach, 0), self._size)
                if found is not None or reach >= self._size:
                    position, time = found or (0, self.first_time)
                    for _, _, time in _walk(self.path, data, position, self._size, tolerant=True):  # noqa: B007
                        pass
                    return time
                reach *= 4

    def batches(self, after: int, through: int) -> Iterator[list[bytes]]:
        """See `ArchivedFile`."""
        with _mapped(self.path) as data:
            position = self._locate(data, after)
        last = after
        with open(self.path, "rb", buffering=0) as file:
            size = BATCH_BYTES
            while position < self._size:
                buffer = os.pread(file.fileno(), size, position)
                entries, taken, last, damage = _leading(buffer, last, through)
                if entries:
                    yield entries
                if damage is not None:
                    raise DamagedInputError(self.path, position + taken, damage)
                if taken < 0:  # an entry behind the interval was met
                    position += -taken - 1
                    break
                if not taken:
                    if position + len(buffer) >= self._size:
                        raise DamagedInputError(
                            self.path, position, "the file ends in the middle of a document"
                        )
                    size *= 2
                else:
                    size = BATCH_BYTES
                position += taken
        with _mapped(self.path) as data:
            found = self._locate(data, through)
        if found != position:
            raise DamagedInputError(
                self.path, min(found, position), "entries stand where no entry of this oplog can begin"
            )

    def find(self, ts: int, term: int) -> bytes | None:
        """See `ArchivedFile`."""
        if not self.first_time <= ts <= self.last_time:
            return None
        with _mapped(self.path) as data:
            position = self._locate(data, ts - 1)
            for start, stop, time in _walk(self.path, data, position, self._size):
                raw = data[start:stop]
                return raw if time == ts and parse_entry(raw).term == term else None
        return None

    def points(self, after: int, through: int, step: int) -> Iterator[tuple[int, int]]:
        """See `ArchivedFile`."""
        with _mapped(self.path) as data:
            position = self._locate(data, after)
            end = self._locate(data, through)
            while position + step < end:
                found = _boundary(data, position + step, end)
                if found is None:
                    break
                yield found[1], found[0] - position
                position = found[0]
        if position < end:
            yield min(through, self.last_time), end - position

    def _locate(self, data: mmap.mmap, after: int) -> int:
        """Where the first entry behind a cluster time begins, or the file ends."""
        if after < self.first_time:
            return 0
        low, high = 0, self._size
        while high - low > _NEAR:
            found = _boundary(data, (low + high) // 2, high)
            if found is None:
                break
            if found[1] <= after:
                low = found[0]
            else:
                high = found[0]
        for start, _, time in _walk(self.path, data, low, self._size, tolerant=True):
            if time > after:
                return start
            low = start
        return self._end_of(data, low)

    def _end_of(self, data: mmap.mmap, start: int) -> int:
        """Where the last whole entry ends; the rest of a damaged file is met when it is read."""
        return start + int(_read_int32(data, start)[0])


class WholeFile(ArchivedFile):
    """A file that is read from its beginning, whatever part of it is wanted."""

    def __init__(self, path: str, first: bytes) -> None:
        super().__init__(path, first)
        self._weight = os.path.getsize(path) * _UNPACKED

    @property
    def weight(self) -> int:
        """An estimate."""
        return self._weight

    @cached_property
    def last_time(self) -> int:
        """See `ArchivedFile`; this reads the file."""
        last = self.first_time
        try:
            for entries in self.batches(0, _FOREVER):
                last = entry_time(entries[-1])
        except DamagedInputError:
            return last  # reported to whoever reads the entries
        return last

    def batches(self, after: int, through: int) -> Iterator[list[bytes]]:
        """See `ArchivedFile`."""
        order = EntryOrder()
        with closing(read_documents(self.path)) as batches:
            for batch in batches:
                count, damage = order.leading(batch.documents)
                documents = batch.documents[:count]
                if order.last_time > after and documents:
                    kept = documents
                    is_over = order.last_time > through
                    if is_over or entry_time(documents[0]) <= after:
                        kept = [raw for raw in documents if after < entry_time(raw) <= through]
                    if kept:
                        yield [widened(raw) for raw in kept] if batch.from_json else kept
                    if is_over:
                        return
                if damage is not None:
                    raise DamagedInputError(self.path, batch.offsets[count], damage)

    def find(self, ts: int, term: int) -> bytes | None:
        """See `ArchivedFile`."""
        return None if ts < self.first_time else _pending(self).find(ts, term)

    def points(self, after: int, through: int, step: int) -> Iterator[tuple[int, int]]:  # noqa: ARG002
        """One point: it is read once if nobody cuts it."""
        if self.first_time <= through and self.last_time > after:
            yield min(through, self.last_time), self._weight


@lru_cache(maxsize=4)
def _pending(file: WholeFile) -> EntrySpool:
    """The entries of a file that a later one may refer back to."""
    spool = EntrySpool()
    try:
        for entries in file.batches(0, _FOREVER):
            spool.add(entries)
    except DamagedInputError:
        return spool  # reported to whoever reads the entries
    return spool


@contextmanager
def _mapped(path: str) -> Iterator[mmap.mmap]:
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data


def _leading(buffer: bytes, last: int, through: int) -> tuple[list[bytes], int, int, str | None]:
    """The entries at the beginning of a buffer up to a cluster time.

    With them come the bytes they take, the time of the last one, and what is wrong with the one behind them.
    If one follows that is later than ``through``, the bytes are given as their negative less one.
    """
    entries: list[bytes] = []
    keep = entries.append
    position, end = 0, len(buffer)
    while end - position >= 4:
        length: int = _read_int32(buffer, position)[0]
        stop = position + length
        if not 5 <= length <= rawbson.MAX_INTERNAL_SIZE:
            return entries, position, last, f"impossible document length {length}"
        if stop > end:
            break
        if buffer[stop - 1]:
            return entries, position, last, "a document does not end in a NUL"
        raw = buffer[position:stop]
        try:
            time = _time_of(raw)
        except (ValueError, CommandError) as error:
            return entries, position, last, str(error)
        if time <= last:
            reason = f"the entry's {in_words(time)} does not come after the {in_words(last)} of the last one"
            return entries, position, last, reason
        if time > through:
            return entries, -position - 1, last, None
        keep(raw)
        last = time
        position = stop
    return entries, position, last, None


def _time_of(raw: bytes) -> int:
    """The same as `entry_time`, sooner."""
    size = len(raw)
    if size > _TAIL_SIZE:
        ts, time, t, v, wall, nul = _read_tail(raw, size - _TAIL_SIZE)
        if (ts, t, v, wall, nul) == _TAIL_NAMES:
            return int(time)
    return entry_time(raw)


def _walk(
    path: str, data: mmap.mmap, position: int, end: int, *, tolerant: bool = False
) -> Iterator[tuple[int, int, int]]:
    """Beginning, end and time of the entries from a place on; who is tolerant stops at a damaged one."""
    while position < end:
        found = _entry_at(data, position, end)
        if found is None:
            if tolerant:
                return
            raise DamagedInputError(path, position, "no entry begins there")
        yield position, *found
        position = found[0]


def _entry_at(data: mmap.mmap, position: int, end: int) -> tuple[int, int] | None:
    """End and time of the entry that begins at a byte, if one does."""
    if end - position < 5:
        return None
    length: int = _read_int32(data, position)[0]
    stop = position + length
    if not 5 <= length <= rawbson.MAX_INTERNAL_SIZE or stop > end or data[stop - 1]:
        return None
    try:
        return stop, entry_time(data[position:stop])
    except (ValueError, CommandError):
        return None


def _boundary(data: mmap.mmap, offset: int, end: int) -> tuple[int, int] | None:
    """The first entry that begins at a byte or behind it, and its time; None if none does before ``end``."""
    for candidate in _BEGINNING.finditer(data, offset):
        position = candidate.start()
        if position >= end:
            return None
        time = _chained(data, position, len(data))
        if time is not None:
            return position, time
    return None


def _chained(data: mmap.mmap, position: int, end: int) -> int | None:
    """The time of the entry at a byte, if others follow as entries of an oplog do."""
    first = None
    last = -1
    for _ in range(_CHAIN):
        found = _entry_at(data, position, end)
        if found is None or found[1] <= last:
            return None
        position, last = found
        if first is None:
            first = last
        if position == end:
            break
    return first
