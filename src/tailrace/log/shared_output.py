"""Output batches shared by streams with the same scope and options.

Many streams differ only in their place in the log: same scope, same options, no stages of a user, no images.
From the same place on they show the same rows. The first of them computes what it shows of one slice of the
log; the newest of these batches are stored for the others, up to a size for all streams together.
"""

from collections import deque
from collections.abc import Hashable
from typing import Final, NamedTuple, TypeAlias
from weakref import WeakValueDictionary

from tailrace.events.stages.stage import Batch, Row, VerbatimRow

AnyRow: TypeAlias = Row | VerbatimRow

_MAX_BYTES: Final = 16 << 20
_BATCH_WEIGHT: Final = 4096
"""What a batch counts besides its rows, so that there are never very many."""


class OutputBatch(NamedTuple):
    """Some rows, and the cluster time up to which there is nothing else."""

    shown: Batch[AnyRow]
    scanned: int


class OutputGroup:
    """Streams that share their output, and its batches by the place where they begin."""

    def __init__(self) -> None:
        self.batches: dict[int, OutputBatch] = {}


class SharedOutput:
    """The shared batches of all streams of an event log."""

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._groups: WeakValueDictionary[Hashable, OutputGroup] = WeakValueDictionary()
        self._stored: deque[tuple[OutputGroup, int, int]] = deque()

    def group(self, key: Hashable) -> OutputGroup:
        """Return the group of the streams with this key (`Plan.output_key`)."""
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = OutputGroup()
        return group

    def store(self, group: OutputGroup, place: int, batch: OutputBatch) -> None:
        """Store a batch for others; the oldest ones are dropped if there is too much."""
        size = _BATCH_WEIGHT + sum([len(row.raw) for row in batch.shown.items])
        group.batches[place] = batch
        self._stored.append((group, place, size))
        self._bytes += size
        while self._bytes > self._max_bytes:
            oldest, its_place, its_size = self._stored.popleft()
            del oldest.batches[its_place]
            self._bytes -= its_size
