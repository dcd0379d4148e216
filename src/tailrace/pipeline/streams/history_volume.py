"""How many rows of a history are where in time, from its log and a few footers.

The log has the rows and the first and last cluster time of each file. Inside of a file the footer has those
of the row groups, and between two known places rows are taken as evenly spread.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np

from tailrace.errors import HistoryError
from tailrace.lake.files.reading import FileView
from tailrace.lake.files.row_positions import RowPositions
from tailrace.lake.schema import Times

_FOOTERS: Final = 64
"""If there are more cuts, no footers are read: pieces are then as large as files, or larger"""
_NEAR: Final = 8
"""A cut moves to a known place that is closer than this part of a piece"""


class HistoryVolume:
    """Measures the files of a table at one version."""

    def __init__(self, view: FileView) -> None:
        self._view = view

    def cuts(self, after: int, through: int, parts: int) -> list[int]:
        """Cluster times that cut an interval into at most ``parts`` pieces of about equal work."""
        places = _Places(self._view, after, through)
        if parts <= _FOOTERS:
            places.add_row_groups(_shares(places, after, through, parts))
        shares = _shares(places, after, through, parts)
        near = (shares[-1] - shares[0]) // parts // _NEAR
        wanted = {places.time_at(row, near) for row in shares[1:-1]}
        return sorted(time for time in wanted if after < time < through)

    def limit(self, after: int, through: int, max_rows: int) -> int:
        """The largest cluster time up to ``through`` with at most so many rows after ``after``.

        A cluster time is never divided, and the first one is always taken. Rows are counted exactly.
        """
        while True:
            files = self._view.files
            try:
                return self._limit(after, through, max_rows)
            except FileNotFoundError as error:
                self._view.refresh()
                if self._view.files is files:  # it was not merged with others
                    raise HistoryError(f"a file of the history is gone: {error}") from None

    def _limit(self, after: int, through: int, max_rows: int) -> int:
        files = self._view.files.between(after, through)
        if not files:
            return through
        ends = np.cumsum(files.column("rows"))
        start = self._rows_in_first(after)
        row = start + max_rows  # the first that is too many, counted from the beginning of the first file
        position = int(np.searchsorted(ends, row, "right"))
        if position == len(files):
            return through
        file = files[position]
        rows = RowPositions(self._view.store, file)
        before = int(ends[position]) - file.rows
        time = rows.time_at(row - before)
        if time > through:
            return through
        last = before + rows.count_through(time - 1)
        if last <= start:
            return time
        return rows.time_at(last - before - 1) if last > before else files[position - 1].last_time

    def _rows_in_first(self, after: int) -> int:
        """How many rows of the first file with rows after a cluster time are not after it."""
        file = self._view.files[self._view.files.position_after(after)]
        return RowPositions(self._view.store, file).count_through(after) if file.first_time <= after else 0


def _shares(places: "_Places", after: int, through: int, parts: int) -> list[int]:
    """Numbers of rows that divide those of an interval evenly, with its first and its last."""
    first, last = places.rows_at(after), places.rows_at(through)
    return [first + (last - first) * part // parts for part in range(parts + 1)]


class _Places:
    """Known places: cluster times, and how many rows are up to each."""

    def __init__(self, view: FileView, after: int, through: int) -> None:
        self._store = view.store
        self._files = view.files.between(after, through)
        self._ends = np.cumsum(self._files.column("rows"))
        """How many rows are up to the end of each file"""
        self._times: Times = np.array([after], np.uint64)
        self._rows = np.zeros(1, np.int64)
        if self._files:
            starts = self._files.column("first_time") - np.uint64(1)
            self._times = np.stack((starts, self._files.column("last_time")), axis=1).ravel()
            self._rows = np.repeat(np.concatenate(([0], self._ends)), 2)[1:-1]

    def add_row_groups(self, rows: Sequence[int]) -> None:
        """Add the row groups of the files with these rows, as far as the files are there."""
        known = dict(zip(self._times.tolist(), self._rows.tolist(), strict=True))
        for position in sorted(set(np.searchsorted(self._ends, rows, "right").tolist())):
            if position < len(self._files):
                file = self._files[position]
                groups = RowPositions(self._store, file)
                before = int(self._ends[position]) - file.rows
                with suppress(FileNotFoundError):  # merged with others: its rows are taken as evenly spread
                    known.update(
                        (time, before + row) for time, row in zip(groups.ends, groups.starts[1:], strict=True)
                    )
        self._times = np.array(sorted(known), np.uint64)
        self._rows = np.array([known[time] for time in sorted(known)], np.int64)

    def rows_at(self, time: int) -> int:
        """About how many rows are up to a cluster time."""
        return _between(self._times, self._rows, np.uint64(time))

    def time_at(self, row: int, near: int) -> int:
        """About the cluster time up to which there are so many rows; a known one if that is near."""
        position = int(np.searchsorted(self._rows, row))
        for place in (position, position - 1):
            if 0 <= place < len(self._rows) and abs(int(self._rows[place]) - row) <= near:
                return int(self._times[place])
        return _between(self._rows, self._times, row)


def _between(known: Any, values: Any, place: Any) -> int:
    """The value at a place, on the line between the known places before and after it."""
    position = int(np.searchsorted(known, place))
    if position == 0:
        return int(values[0])
    if position == len(known):
        return int(values[-1])
    start, end = int(known[position - 1]), int(known[position])
    least, most = int(values[position - 1]), int(values[position])
    return least + (most - least) * (int(place) - start) // (end - start)
