"""Sorted runs in a file, and their merge."""

import heapq
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import Any, Final, Generic, TypeAlias, TypeVar

from tailrace.mongod.language.aggregation.memory.budget import StageMemory
from tailrace.mongod.language.aggregation.memory.spill_file import Part, SpillFile

Item = TypeVar("Item")
Keyed: TypeAlias = tuple[Any, Item]
"""A sort key and what it belongs to"""

_MOST_RUNS: Final = 64
"""Each run that is merged needs a buffer."""
_MERGED_AT_ONCE: Final = 32


class Runs(Generic[Item]):
    """Runs of records in order; of equal keys, those of earlier runs come first."""

    def __init__(
        self, memory: StageMemory, unpack: Callable[[bytes], Keyed[Item]], *, reverse: bool = False
    ) -> None:
        self._file = SpillFile(memory)
        self._unpack = unpack
        self._reverse = reverse
        self._runs: list[Part] = []
        self.spills = 0
        """How many runs were written."""

    def __bool__(self) -> bool:
        return bool(self._runs)

    def add(self, records: Iterable[bytes]) -> None:
        """Store a sorted run."""
        self._runs.append(self._file.write(records))
        self.spills += 1
        if len(self._runs) == _MOST_RUNS:
            self._merge_newest()

    def _merge_newest(self) -> None:
        """Make one run of the newest ones: they are about equally long, so each record is copied rarely."""
        read = [self._records(run) for run in self._runs[-_MERGED_AT_ONCE:]]
        ordered = heapq.merge(*read, key=itemgetter(0), reverse=self._reverse)
        self._runs[-_MERGED_AT_ONCE:] = [self._file.write(record for _, record in ordered)]

    def _records(self, run: Part) -> Iterator[tuple[Any, bytes]]:
        for record in self._file.read(run):
            yield self._unpack(record)[0], record

    def _items(self, run: Part) -> Iterator[Keyed[Item]]:
        return map(self._unpack, self._file.read(run))

    def merged(self) -> Iterator[Keyed[Item]]:
        """Everything in order."""
        return heapq.merge(
            *(self._items(run) for run in self._runs), key=itemgetter(0), reverse=self._reverse
        )

    def close(self) -> None:
        """Remove the file."""
        self._file.close()
        self._runs = []
