"""The files of a table whose changed rows are marked dead: where changes look, and what is written again.

*Base files* have disjoint ranges of keys. A *run* has the rows that one batch wrote, in the order of keys;
its range may be as wide as the table. A document has one row that is not dead, in a base file or in a run.
The range from the first key of a base file to that of the next one is an *interval*.

Two rules keep the runs few and the dead rows rare. Each step of them handles a bounded number of rows, so a
batch costs what its changes cost and a little more:

* **Joining**: where many runs of about the same density lie above one another, they become one, which is as
  many times as dense. The density of a run are its rows for each interval that it reaches over. What is
  large is cut into files, which reach less far. So a row is written again for each class of densities: the
  number of classes grows with the logarithm of the table.
* **Folding**: an interval in which a fifth of the rows is dead, or is in runs, is written again with the
  rows that runs have there. So a row in a base file is written again for every fifth of it that has changed.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Final

import numpy as np
import numpy.typing as npt

from tailrace.lake.mirror.data_files import MirrorFile
from tailrace.lake.mirror.grouping import SMALL_BYTES, FileChanges
from tailrace.lake.mirror.merge import RowChange
from tailrace.lake.mirror.roaring import Rows

_MANY_RUNS: Final = 8
"""So many runs of one class over one interval are joined; the next class is as many times as dense"""
_MOST_RUNS: Final = 16
"""What one step joins; a file of the usual size has 16 MB in memory"""
_FOLDED_PART: Final = 0.2
"""An interval is written again if this part of its rows is dead, or is in runs"""
_ROWS_PER_CHANGE: Final = 8
"""How many rows a batch may write again for each of its changes"""
_MOST_NEIGHBOURS: Final = 4
"""Base files that one task writes again"""
_ROWS_PER_TASK: Final = 1_000_000
"""Rows whose keys one task looks through, if there are cores for more than one task"""


@dataclass(frozen=True, slots=True)
class Compaction:
    """Files that are to be written again, all in one task."""

    base: tuple[MirrorFile, ...]
    """Neighbouring base files"""
    runs: tuple[MirrorFile, ...]
    lower: bytes = b""
    upper: bytes | None = None
    """The rows of the runs from one key on, up to another one"""
    is_run: bool = False
    """Whether runs become a run, instead of base files"""

    @property
    def size(self) -> int:
        return sum(file.size for file in (*self.base, *self.runs))


class Intervals:
    """The live files of a table, by intervals."""

    def __init__(self, live: Sequence[MirrorFile], dead: Mapping[str, Rows]) -> None:
        """``dead`` has further rows of some files that are dead."""
        self.base = sorted((file for file in live if not file.is_run), key=lambda file: file.first_key)
        self.runs = [file for file in live if file.is_run]
        self._alive = {file.path: file.alive - len(dead.get(file.path, ())) for file in live}
        self._first_keys = [file.first_key for file in self.base]
        self._reach = {run.path: self._reached(run) for run in self.runs}
        # Two pieces of what was one run end and begin in one interval, which only the second counts for.
        self._span = {path: (begin, max(end - 1, begin + 1)) for path, (begin, end) in self._reach.items()}

    def _reached(self, run: MirrorFile) -> tuple[int, int]:
        """The first interval that a run reaches over, and the one after the last."""
        return self.interval_of(run.first_key), self.interval_of(run.last_key) + 1

    def interval_of(self, key: bytes) -> int:
        """The number of an interval; keys before the first base file are in the first one."""
        return max(bisect_right(self._first_keys, key) - 1, 0)

    def __len__(self) -> int:
        return max(len(self.base), 1)

    def limits(self, begin: int, end: int) -> tuple[bytes, bytes | None]:
        """The first key of some intervals, and that of the one after them."""
        lower = self._first_keys[begin] if begin else b""
        return lower, self._first_keys[end] if end < len(self.base) else None

    def reaching(self, begin: int, end: int) -> list[MirrorFile]:
        """The runs that reach over some of these intervals."""
        return [
            run for run in self.runs if self._reach[run.path][0] < end and self._reach[run.path][1] > begin
        ]

    def _sums(self, weights: Mapping[str, float]) -> npt.NDArray[np.float64]:
        """For each interval the sum of the weights of the runs above it."""
        edges = np.zeros(len(self) + 1)
        for path, weight in weights.items():
            begin, end = self._span[path]
            edges[begin] += weight
            edges[end] -= weight
        return np.cumsum(edges)[:-1]

    def _density(self, run: MirrorFile) -> float:
        begin, end = self._span[run.path]
        return self._alive[run.path] / (end - begin)

    # -- joining -------------------------------------------------------------------------------------------

    def joins(self, most_rows: int) -> list[Compaction]:
        """Runs to be joined to one each; about so many rows together, if there are any."""
        classes: dict[int, list[MirrorFile]] = {}
        for run in self.runs:
            number = int(log(max(self._density(run), 1e-9), _MANY_RUNS) // 1)
            classes.setdefault(number, []).append(run)
        found: list[Compaction] = []
        for _, left in sorted(classes.items()):
            while len(left) >= _MANY_RUNS and most_rows > 0:
                depth = self._sums({run.path: 1.0 for run in left})
                place = int(np.argmax(depth))
                if round(depth[place]) < _MANY_RUNS:
                    break
                above = [run for run in left if self._span[run.path][0] <= place < self._span[run.path][1]]
                chosen = sorted(above, key=lambda run: run.rows)[:_MOST_RUNS]
                found.append(Compaction((), tuple(chosen), is_run=True))
                most_rows -= sum(self._alive[run.path] for run in chosen)
                left = [run for run in left if run not in chosen]
        return found

    # -- folding -------------------------------------------------------------------------------------------

    def foldings(self, most_rows: int) -> list[Compaction]:
        """The most changed intervals, to be written again; about so many rows together, if there are any."""
        in_runs = self._sums({run.path: self._density(run) for run in self.runs})
        alive = [self._alive[file.path] for file in self.base] or [0]
        rows = [file.rows for file in self.base] or [0]
        changed = np.array(rows) - np.array(alive)
        is_due = np.maximum(changed, in_runs) > _FOLDED_PART * np.array(rows)
        parts = (changed + in_runs) / np.maximum(rows, 1)
        chosen: set[int] = set()
        for place in sorted(np.flatnonzero(is_due).tolist(), key=lambda place: -parts[place]):
            if most_rows <= 0:
                break
            chosen.add(place)
            most_rows -= int(alive[place] + in_runs[place])
        return [self._folding(begin, end) for begin, end in self._together(chosen)]

    def _together(self, places: set[int]) -> list[tuple[int, int]]:
        """Neighbours of some intervals, each with the small ones beside it if it is small itself."""
        found: list[tuple[int, int]] = []
        for place in sorted(places):
            begin, end = found[-1] if found else (0, 0)
            if place < end:
                continue
            if found and place == end and end - begin < _MOST_NEIGHBOURS:
                found.pop()
            else:
                begin = place
            end = place + 1
            while end < len(self.base) and end - begin < _MOST_NEIGHBOURS and self._are_small(end - 1, end):
                end += 1
            found.append((begin, end))
        return found

    def _are_small(self, *places: int) -> bool:
        return all(self.base[place].size < SMALL_BYTES for place in places)

    def _folding(self, begin: int, end: int) -> Compaction:
        lower, upper = self.limits(begin, end)
        return Compaction(tuple(self.base[begin:end]), tuple(self.reaching(begin, end)), lower, upper)


def compactions(live: Sequence[MirrorFile], dead: Mapping[str, Rows], changes: int) -> list[Compaction]:
    """What a batch with so many changes writes again of the files that were there before it.

    ``dead`` has the rows of these files that are dead since. Joining comes first: every file changes once.
    """
    intervals = Intervals(live, dead)
    most_rows = max(_ROWS_PER_CHANGE * changes, 1)
    return intervals.joins(most_rows) or intervals.foldings(most_rows)


def changes_by_range(
    live: Sequence[MirrorFile], changes: Sequence[RowChange], cores: int
) -> list[FileChanges]:
    """Divide changes by their keys into a few parts, each with the files that may have the keys."""
    intervals = Intervals(live, {})
    by_interval: dict[int, list[int]] = {}
    for order, change in enumerate(changes):
        by_interval.setdefault(intervals.interval_of(change.key), []).append(order)
    places = sorted(by_interval)
    weights = [intervals.base[place].rows if intervals.base else 0 for place in places]
    weights = [weight + len(by_interval[place]) for weight, place in zip(weights, places, strict=True)]
    parts = min(max(cores, 1), -(-sum(weights) // _ROWS_PER_TASK))
    share = sum(weights) / max(parts, 1)
    found: list[FileChanges] = []
    before, chosen = 0.0, list[int]()
    for place, weight in zip(places, weights, strict=True):
        chosen.append(place)
        before += weight
        if before >= share * (len(found) + 1) or place == places[-1]:
            orders = sorted(order for each in chosen for order in by_interval[each])
            base = [intervals.base[each] for each in chosen] if intervals.base else []
            runs = intervals.reaching(chosen[0], chosen[-1] + 1)
            found.append(FileChanges((*base, *runs), [changes[order] for order in orders]))
            chosen = []
    return found


def last_key(live: Sequence[MirrorFile]) -> bytes:
    """The greatest key of some files."""
    return max((file.last_key for file in live), default=b"")
