"""Oplog entries that follow each other in memory, as in files.

It is a sequence of entries for code that needs single ones. Code that treats all alike uses the memory and
the positions, and no entry becomes an object.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final, overload

import numpy as np

from tailrace.lake.bulk.splicing import PADDING, Positions
from tailrace.lake.schema import Times

_NOWHERE: Final = np.empty(0, np.int64)


class RawEntries(Sequence[bytes]):
    """Entries in order; each begins where the one before it ends, the first at ``start``."""

    __slots__ = ("ends", "memory", "start", "times")

    def __init__(self, memory: bytes, ends: Positions, times: Times | None = None, start: int = 0) -> None:
        self.memory = memory
        self.ends = ends
        self.times = times
        """Their cluster times, if they are known."""
        self.start = start

    @classmethod
    def of(cls, entries: Sequence[bytes]) -> "RawEntries":
        if isinstance(entries, RawEntries):
            return entries
        if isinstance(entries, EntryRuns):
            return _copied(entries.runs)
        sizes = np.fromiter(map(len, entries), np.int64, len(entries))
        return cls(b"".join([*entries, bytes(PADDING)]), np.cumsum(sizes))

    def __len__(self) -> int:
        return len(self.ends)

    def padded(self) -> "RawEntries":
        """The same with at least `PADDING` bytes of any value after the last one."""
        return self if len(self.memory) - self.end >= PADDING else _copied([self])

    @property
    def end(self) -> int:
        """Where the last one ends."""
        return int(self.ends[-1]) if len(self.ends) else self.start

    @property
    def size(self) -> int:
        """How many bytes they have together."""
        return self.end - self.start

    @property
    def starts(self) -> Positions:
        """Where each begins."""
        return np.concatenate([[self.start], self.ends[:-1]]) if len(self.ends) else self.ends

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        end = int(self.ends[index])
        place = index % len(self)
        return self.memory[int(self.ends[place - 1]) if place else self.start : end]

    def __iter__(self) -> Iterator[bytes]:
        memory = self.memory
        for start, end in pairwise([self.start, *self.ends.tolist()]):
            yield memory[start:end]

    def parted(self, count: int) -> tuple["RawEntries", "RawEntries"]:
        """The first ones, and the others."""
        cut = int(self.ends[count - 1]) if count else self.start
        first, rest = (None, None) if self.times is None else (self.times[:count], self.times[count:])
        taken = RawEntries(self.memory, self.ends[:count], first, self.start)
        return taken, RawEntries(self.memory, self.ends[count:], rest, cut)


class EntryRuns(Sequence[bytes]):
    """The entries of several runs, one run after the other; they are not copied."""

    __slots__ = ("_befores", "runs")

    def __init__(self, runs: Sequence[RawEntries]) -> None:
        self.runs = runs
        self._befores = list(accumulate(map(len, runs), initial=0))

    def __len__(self) -> int:
        return self._befores[-1]

    @property
    def size(self) -> int:
        """How many bytes they have together."""
        return sum(run.size for run in self.runs)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        run = bisect_right(self._befores, place) - 1
        return self.runs[run][place - self._befores[run]]


def joined(runs: Sequence[RawEntries]) -> RawEntries | EntryRuns:
    """The entries of several runs as one sequence."""
    return runs[0] if len(runs) == 1 else EntryRuns(runs)


def runs_of(entries: Sequence[bytes]) -> Sequence[RawEntries]:
    """The runs that some entries are in."""
    return entries.runs if isinstance(entries, EntryRuns) else [RawEntries.of(entries)]


def gathered(all_entries: Iterable[Sequence[bytes]]) -> RawEntries:
    """The entries of several sequences as one run, with padding after them."""
    runs = [run for entries in all_entries for run in runs_of(entries) if len(run)]
    return runs[0].padded() if len(runs) == 1 else _copied(runs)


def _copied(runs: Sequence[RawEntries]) -> RawEntries:
    """The entries of some runs as one, with padding after them."""
    memory = b"".join([*(memoryview(run.memory)[run.start : run.end] for run in runs), bytes(PADDING)])
    befores = np.cumsum([0, *(run.size for run in runs)])
    ends = [run.ends - run.start + before for run, before in zip(runs, befores[:-1], strict=True)]
    known = [run.times for run in runs if run.times is not None]
    times = np.concatenate(known) if known and len(known) == len(runs) else None
    return RawEntries(memory, np.concatenate([_NOWHERE, *ends]), times)
