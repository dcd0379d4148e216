"""Read files of an archived oplog by time.

A plain BSON file is searched by bisection (`file_search.py`). Compressed files, Extended JSON and archives of
`mongodump` can only be read from their beginning.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from typing import Final

from tailrace.bson import raw as rawbson
from tailrace.errors import DamagedInputError
from tailrace.events.cluster_time import END_OF_TIME
from tailrace.events.oplog_entry import parse_entry
from tailrace.sources.archives.byte_streams import looks_like_gzip
from tailrace.sources.archives.documents import is_dump_archive, known_suffix, read_documents
from tailrace.sources.archives.entries import EntryOrder, entry_time, widened
from tailrace.sources.archives.entry_spool import EntrySpool
from tailrace.sources.archives.file_pieces import FilePiece, Split, leading_entries
from tailrace.sources.archives.file_search import NEAR, Window, boundary, walk, window
from tailrace.sources.archives.opening import file_size, open_random
from tailrace.sources.process_cache import Owner, ProcessCache
from tailrace.sources.source import BATCH_BYTES

_NOTHING: Final[Mapping[int, Split]] = {}
_UNPACKED: Final = 8
"""About how much larger entries are than their compressed form."""


class ArchivedFile(ABC):
    def __init__(self, path: str, first: bytes) -> None:
        self.path = path
        self.first = first
        """The first entry."""
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
    def batches(self, after: int, through: int) -> Iterator[Sequence[bytes]]:
        """Return the entries of an interval; raise `DamagedInputError` after those before a damaged place."""

    @abstractmethod
    def find(self, ts: int, term: int) -> bytes | None:
        """Return the entry at a position; in a `WholeFile` only entries of transactions are found."""

    @abstractmethod
    def weight_of(self, after: int, through: int) -> int:
        """Return about how many bytes have to be read for an interval."""

    @abstractmethod
    def sample(self, after: int, through: int) -> tuple[int, int]:
        """Return how many entries the beginning of an interval has, and how many bytes they have."""

    @abstractmethod
    def points(self, after: int, through: int, step: int) -> Iterator[tuple[int, int]]:
        """Return the times reached about every ``step`` bytes of an interval, and the bytes in between."""

    def may_contain(self, text: bytes) -> bool:  # noqa: ARG002 - only uncompressed bytes can be searched
        """Return whether an entry may contain these bytes."""
        return True

    def close(self) -> None:  # noqa: B027 - most have nothing open
        """Close what this process has opened of it."""


def open_archived(path: str) -> ArchivedFile | None:
    """Open the file at a path; None if it has no entry."""
    with closing(read_documents(path, is_oplog=True)) as batches:
        for batch in batches:
            count, damage = EntryOrder().leading(batch.documents[:1])
            if not count:
                raise DamagedInputError(path, 0, damage or "not an oplog entry")
            first = widened(batch.documents[0]) if batch.from_json else batch.documents[0]
            is_plain = not batch.from_json and not _is_compressed(path) and not is_dump_archive(path)
            return PlainFile(path, first) if is_plain else WholeFile(path, first)
    return None


def _is_compressed(path: str) -> bool:
    if path.lower().endswith(".gz"):
        return True
    with open_random(path) as file:
        return known_suffix(path) != ".json" and looks_like_gzip(file.pread(64, 0))


class PlainFile(ArchivedFile):
    """BSON as `mongodump` writes it; an interval is found without reading what is before it."""

    def __init__(self, path: str, first: bytes) -> None:
        super().__init__(path, first)
        self._size = file_size(path)

    @property
    def weight(self) -> int:
        return self._size

    @cached_property
    def last_time(self) -> int:
        reach = NEAR
        with window(self.path, self._size) as data:
            while reach < self._size:
                found = boundary(data, self._size - reach, self._size)
                if found is not None:
                    stop, time = self._end_of_chain(found[0])
                    if stop == self._size:  # entries inside the last document would end before
                        return time
                reach *= 4
        return self._end_of_chain(0)[1]

    def batches(self, after: int, through: int) -> Iterator[Sequence[bytes]]:
        """See `ArchivedFile`.

        Where the interval begins is only probable at first: what was found may be entries inside a stored
        document. They end with that document, so a chain that is longer than any document can be is the
        oplog. The bytes of that much are read twice: storing them until it is proven would need memory for
        each shard. If it is not the oplog, the file is read from its beginning.
        """
        with window(self.path, self._size) as data:
            position = self._locate(data, after)
        known = self._proof(position) if position else {}
        if known is None:
            position = sum(piece.taken for piece in self._pieces(0, -1, after))
        for piece in self._pieces(position, after, through, known or {}):
            if piece.entries:
                yield piece.entries
            position += piece.taken
            if piece.damage is not None:
                raise DamagedInputError(self.path, position, piece.damage)

    def may_contain(self, text: bytes) -> bool:
        before = b""
        position = 0
        with open_random(self.path) as file:
            while read := file.pread(BATCH_BYTES, position):
                if text in read or text in before + read[: len(text)]:
                    return True
                before = read[-len(text) :]
                position += len(read)
        return False

    def _proof(self, start: int) -> dict[int, Split] | None:
        """Return the parts of the file that prove that entries begin at a position; None if none does.

        They go to the end of the file, or are longer than a document can be.
        """
        found: dict[int, Split] = {}
        position = start
        for piece in self._pieces(start, -1, END_OF_TIME):
            found[position] = piece.split
            position += piece.taken
            if position - start > rawbson.MAX_INTERNAL_SIZE:
                return found
        return found if position == self._size else None

    def _pieces(
        self, position: int, last: int, through: int, known: Mapping[int, Split] = _NOTHING
    ) -> Iterator[FilePiece]:
        """Return the entries from a position on, up to a cluster time or to damage.

        ``known`` is what was found in parts of the file before, by their positions.
        """
        size = BATCH_BYTES
        with open_random(self.path) as file:
            while position < self._size:
                buffer = file.pread(size, position)
                piece = leading_entries(buffer, last, through, known.get(position))
                if not piece.taken and piece.damage is None and not piece.is_over:
                    if position + len(buffer) >= self._size:
                        reason = "the file ends in the middle of a document"
                        yield replace(piece, damage=reason)
                        return
                    size *= 2
                    continue
                yield piece
                if piece.is_over or piece.damage is not None:
                    return
                size = BATCH_BYTES
                last = piece.last_time
                position += piece.taken

    def _end_of_chain(self, position: int) -> tuple[int, int]:
        """Return where the entries end that follow each other from a position on, and the last one's time."""
        time = -1
        for piece in self._pieces(position, -1, END_OF_TIME):
            position += piece.taken
            time = piece.last_time
        return position, time

    def find(self, ts: int, term: int) -> bytes | None:
        if not self.first_time <= ts <= self.last_time:
            return None
        with window(self.path, self._size) as data:
            position = self._locate(data, ts - 1)
            for start, stop, time in walk(data, position):
                raw = data.part(start, stop)
                return raw if time == ts and parse_entry(raw).term == term else None
        return None

    def weight_of(self, after: int, through: int) -> int:
        with window(self.path, self._size) as data:
            return self._locate(data, through) - self._locate(data, after)

    def sample(self, after: int, through: int) -> tuple[int, int]:
        count = size = 0
        with window(self.path, self._size) as data:
            for start, stop, time in walk(data, self._locate(data, after)):
                if time > through or size >= NEAR:
                    break
                count += 1
                size += stop - start
        return count, size

    def points(self, after: int, through: int, step: int) -> Iterator[tuple[int, int]]:
        with window(self.path, self._size) as data:
            position = self._locate(data, after)
            end = self._locate(data, through)
            while position + step < end:
                found = boundary(data, position + step, end)
                if found is None:
                    break
                yield found[1], found[0] - position
                position = found[0]
        if position < end:
            yield min(through, self.last_time), end - position

    def _locate(self, data: Window, after: int) -> int:
        """Return where the first entry after a cluster time probably begins, or the file ends."""
        if after < self.first_time:
            return 0
        low, high = 0, self._size
        earliest, latest = self.first_time, int(END_OF_TIME)
        while high - low > NEAR:
            # Near the middle; elsewhere if the time found there is not between those found before.
            probes = (boundary(data, low + (high - low) * part // 4, high) for part in (2, 1, 3))
            found = next((probe for probe in probes if probe and earliest < probe[1] < latest), None)
            if found is None:
                break
            if found[1] <= after:
                low, earliest = found
            else:
                high, latest = found
        for start, stop, time in walk(data, low):
            if time > after:
                return start
            low = stop
        return low


class WholeFile(ArchivedFile):
    """A file that is always read from its beginning."""

    def __init__(self, path: str, first: bytes) -> None:
        super().__init__(path, first)
        self._weight = file_size(path) * _UNPACKED
        self._owner = Owner()

    @property
    def weight(self) -> int:
        return self._weight

    @cached_property
    def last_time(self) -> int:
        """See `ArchivedFile`; this reads the file."""
        last = self.first_time
        try:
            for entries in self.batches(0, END_OF_TIME):
                last = entry_time(entries[-1])
        except DamagedInputError:
            return last  # reported when the entries are read
        return last

    def batches(self, after: int, through: int) -> Iterator[Sequence[bytes]]:
        order = EntryOrder()
        with closing(read_documents(self.path, is_oplog=True)) as batches:
            for batch in batches:
                count, damage = order.leading(batch.documents)
                documents = batch.documents[:count]
                if order.last_time > after and documents:
                    wanted = documents
                    is_over = order.last_time > through
                    if is_over or entry_time(documents[0]) <= after:
                        wanted = [raw for raw in documents if after < entry_time(raw) <= through]
                    if wanted:
                        yield [widened(raw) for raw in wanted] if batch.from_json else wanted
                    if is_over:
                        return
                if damage is not None:
                    raise DamagedInputError(self.path, batch.offsets[count], damage)

    def find(self, ts: int, term: int) -> bytes | None:
        if ts < self.first_time:
            return None
        return _spools.get(self._owner, self.path, self._pending).find(ts, term)

    def _pending(self) -> EntrySpool:
        """Return the entries that a later one may refer to."""
        spool = EntrySpool()
        try:
            for entries in self.batches(0, END_OF_TIME):
                spool.add(entries)
        except DamagedInputError:
            return spool  # reported when the entries are read
        return spool

    def close(self) -> None:
        _spools.release(self._owner)

    def weight_of(self, after: int, through: int) -> int:  # noqa: ARG002 - all of it is read
        return self._weight

    def sample(self, after: int, through: int) -> tuple[int, int]:
        entries = next(self.batches(after, through), ())
        return len(entries), sum(map(len, entries))

    def points(self, after: int, through: int, step: int) -> Iterator[tuple[int, int]]:  # noqa: ARG002
        """Return one point: a file that is not cut is read once."""
        if self.first_time <= through and self.last_time > after:
            yield min(through, self.last_time), self._weight


_spools: Final[ProcessCache[EntrySpool]] = ProcessCache(EntrySpool.__exit__)
