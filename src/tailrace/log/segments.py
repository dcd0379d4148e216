"""Pieces of the log that were read from disk for streams that are not at its end.

Streams that catch up at about the same place share them, so that an entry is transformed once for all of
them. The least recently used ones are dropped when they take too much memory.
"""

from bisect import bisect_right
from collections import OrderedDict
from typing import Final

from tailrace.log.event_log import Slice

_MAX_WEIGHT: Final = 64 << 20


class Segments:
    """Slices by where they begin."""

    def __init__(self, max_weight: int = _MAX_WEIGHT) -> None:
        self._max_weight = max_weight
        self._weight = 0
        self._starts: list[int] = []
        self._slices: OrderedDict[int, tuple[Slice, list[int]]] = OrderedDict()

    def find(self, after: int) -> Slice | None:
        """Return what follows a cluster time, if it was read before."""
        position = bisect_right(self._starts, after) - 1
        if position < 0:
            return None
        start = self._starts[position]
        found, times = self._slices[start]
        if found.scanned <= after:
            return None
        self._slices.move_to_end(start)
        return found if start == after else Slice(found.items[bisect_right(times, after) :], found.scanned)

    def next_start(self, after: int) -> int | None:
        """Return where the next stored piece begins."""
        position = bisect_right(self._starts, after)
        return self._starts[position] if position < len(self._starts) else None

    def add(self, after: int, found: Slice) -> None:
        """Store what was read after a cluster time."""
        self._slices[after] = (found, [item.ts for item in found.items])
        self._starts.insert(bisect_right(self._starts, after), after)
        self.add_weight(_weight(found))

    def add_weight(self, more: int) -> None:
        """Count that a piece has grown; the least recently used ones are dropped, but not the newest."""
        self._weight += more
        if self._weight > self._max_weight:
            # Counted again: what grew may be a piece that was dropped while a stream still used it.
            self._weight = sum(_weight(found) for found, _ in self._slices.values())
        while self._weight > self._max_weight and len(self._slices) > 1:
            start, (gone, _) = self._slices.popitem(last=False)
            self._starts.remove(start)
            self._weight -= _weight(gone)


def _weight(found: Slice) -> int:
    return sum(item.weight for item in found.items)
