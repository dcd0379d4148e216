"""Store the entries of transactions that have not ended yet.

A large transaction is a chain of entries (`o.partialTxn`), a prepared one waits for its commit (`o.prepare`).
The entry that ends the chain refers to its last entry by `prevOpTime`, that one to the one before, and so on.
The stage that unwinds the transaction looks them up by exact position. The spool stores these entries in a
temporary file, which is in memory while it is small.

`add` takes entries in order, before the pipeline does. A chain whose end was added can be found until
`release` is called, which is to happen when the pipeline has processed what was added so far.
"""

from collections.abc import Iterator, Sequence
from tempfile import SpooledTemporaryFile
from typing import Final, NamedTuple

from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError
from tailrace.events.oplog_entry import OplogEntry, parse_entry

_IN_MEMORY: Final = 4 * 1024 * 1024
_WORTH_COMPACTING: Final = 64 * 1024 * 1024
_APPLIED_SEPARATELY: Final = 1


class _Place(NamedTuple):
    offset: int
    length: int
    term: int
    previous: int
    """`ts` of the entry before this one in its chain, 0 if it is the first."""
    origin: tuple[str, int]
    """The file it was read from, and where it begins there."""


class EntrySpool:
    """Pending entries of one oplog by position; a context manager that deletes the file."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - closed in __exit__
        self._places: dict[int, _Place] = {}
        self._ended: list[int] = []
        self._end = 0

    def __enter__(self) -> "EntrySpool":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __len__(self) -> int:
        return len(self._places)

    def add(self, entries: Sequence[bytes], path: str = "", offsets: Sequence[int] = ()) -> None:
        """Store the entries that a later one may refer to; register those that end a chain.

        ``path`` and ``offsets`` are where they were read from.
        """
        for number, raw in enumerate(entries):
            # Few entries contain these words, and searching bytes costs little.
            if b"partialTxn\0" in raw or b"prepare\0" in raw or (self._places and b"prevOpTime\0" in raw):
                try:
                    self._register(raw, parse_entry(raw), (path, offsets[number] if offsets else 0))
                except CommandError:
                    continue  # reported when the entry is interpreted

    def find(self, ts: int, term: int) -> bytes | None:
        """Return the pending entry at exactly this position."""
        place = self._places.get(ts)
        if place is None or place.term != term:
            return None
        return self._read(place)

    def pending(self) -> Iterator[tuple[bytes, str, int]]:
        """Return every entry that can be found, with its file and its offset there."""
        for place in self._places.values():
            yield self._read(place), *place.origin

    def release(self) -> None:
        """Remove the chains whose ends were added."""
        for ts in self._ended:
            place = self._places.pop(ts, None)
            while place is not None:
                place = self._places.pop(place.previous, None)
        self._ended.clear()
        if not self._places:
            self._file.truncate(0)
            self._end = 0
        elif self._end > _WORTH_COMPACTING:
            self._compact()

    def _read(self, place: _Place) -> bytes:
        self._file.seek(place.offset)
        return self._file.read(place.length)

    def _register(self, raw: bytes, entry: OplogEntry, origin: tuple[str, int]) -> None:
        previous = entry.extras.previous
        if _is_pending(entry):
            before = previous.ts if previous else 0
            self._places[entry.ts] = _Place(self._end, len(raw), entry.term, before, origin)
            self._file.seek(self._end)
            self._file.write(raw)
            self._end += len(raw)
        elif previous is not None and entry.extras.multi_op_type != _APPLIED_SEPARATELY:
            self._ended.append(previous.ts)

    def _compact(self) -> None:
        """Move the entries to the front if they fill less than half of the file."""
        if sum(place.length for place in self._places.values()) * 2 > self._end:
            return
        end = 0
        for ts, place in sorted(self._places.items(), key=lambda item: item[1].offset):
            raw = self._read(place)
            self._file.seek(end)
            self._file.write(raw)
            self._places[ts] = place._replace(offset=end)
            end += place.length
        self._file.truncate(end)
        self._end = end


def _is_pending(entry: OplogEntry) -> bool:
    if entry.head.op != "c" or entry.command != "applyOps":
        return False
    return any(
        kind == rawbson.BOOL and name in (b"partialTxn", b"prepare") and entry.o[start] == 1
        for kind, name, start, _ in rawbson.elements(entry.o)
    )
