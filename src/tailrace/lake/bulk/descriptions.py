"""The `updateDescription`s of many updates at once.

Most updates of an application are built alike and differ in values only. One of them is described, which
shows where the values of all others go (`events/update_diff/layout.py`).
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tailrace.errors import CommandError
from tailrace.events.memo import remember
from tailrace.events.update_diff import DIFF_START, describe
from tailrace.events.update_diff.layout import DiffLayout, layout_of
from tailrace.lake.bulk.plain_entries import PlainEntries
from tailrace.lake.bulk.splicing import Bytes, Positions, Slices, lines, padded

_WORTH_IT: Final = 16
"""fewer diffs of a size are described one by one"""
_MAX_RARE_LAYOUTS: Final = 8
"""how many layouts of few diffs are tried among those of a size"""
_MOST_KNOWN: Final = 4
"""how many layouts of a size are remembered"""
_LARGEST_KNOWN: Final = 1024
_KNOWN: Final[dict[int, tuple[DiffLayout, ...]]] = {}
"""layouts by the size of their diffs: an application makes the same updates again and again"""


class BulkDescriptions:
    """The descriptions of some updates, in one buffer."""

    def __init__(self, entries: PlainEntries) -> None:
        """``entries`` are updates."""
        self._buffer = entries.buffer
        self._memory = entries.memory
        self._diffs = entries.o + DIFF_START
        self._sizes = entries.o_size - DIFF_START - 1
        self._starts = np.zeros(len(entries), np.int64)
        self._lengths = np.zeros(len(entries), np.int64)
        self._parts: list[bytes] = []
        self._filled = 0

    def described(self) -> tuple[Slices, npt.NDArray[np.bool_]]:
        """The descriptions, and which of them there are: a damaged diff has none."""
        for size in np.unique(self._sizes).tolist():
            rows = np.flatnonzero(self._sizes == size)
            if len(rows) >= _WORTH_IT or size in _KNOWN:
                rows = self._by_layout(rows, size)
            self._one_by_one(rows)
        return Slices(padded(self._parts), self._starts, self._lengths), self._lengths > 0

    def _by_layout(self, rows: Positions, size: int) -> Positions:
        """Describe what is built alike among diffs of one size; return the others."""
        diffs = lines(self._buffer, self._diffs[rows], size)
        for known in _KNOWN.get(size, ()):
            is_alike = _have_layout(known, diffs)
            if is_alike.any():
                self._add(rows[is_alike], _filled_in(known, diffs[is_alike]))
                rows, diffs = rows[~is_alike], diffs[~is_alike]
            if not len(rows):
                return rows
        rare_left = _MAX_RARE_LAYOUTS
        odd: list[int] = []
        while rare_left and len(rows) >= _WORTH_IT:
            layout = layout_of(diffs[0].tobytes())
            is_alike = np.zeros(len(rows), np.bool_) if layout is None else _have_layout(layout, diffs)
            if layout is None or not is_alike[0]:
                odd.append(int(rows[0]))
                is_alike[0] = True
            else:
                self._add(rows[is_alike], _filled_in(layout, diffs[is_alike]))
                if size <= _LARGEST_KNOWN:
                    remember(_KNOWN, size, (layout, *_KNOWN.get(size, ()))[:_MOST_KNOWN])
            if np.count_nonzero(is_alike) < _WORTH_IT:
                rare_left -= 1
            rows, diffs = rows[~is_alike], diffs[~is_alike]
        return np.concatenate([np.array(odd, np.int64), rows])

    def _one_by_one(self, rows: Positions) -> None:
        memory = self._memory
        starts = self._diffs[rows]
        ends = starts + self._sizes[rows]
        for row, start, end in zip(rows.tolist(), starts.tolist(), ends.tolist(), strict=True):
            try:
                text = describe(memory[start:end], expanded=True)
            except CommandError:
                continue
            self._starts[row], self._lengths[row] = self._filled, len(text)
            self._parts.append(text)
            self._filled += len(text)

    def _add(self, rows: Positions, texts: Bytes) -> None:
        count, width = texts.shape
        self._starts[rows] = self._filled + np.arange(count) * width
        self._lengths[rows] = width
        self._parts.append(texts.tobytes())
        self._filled += count * width


def _have_layout(layout: DiffLayout, diffs: Bytes) -> npt.NDArray[np.bool_]:
    """Which of some diffs of one size differ from the layout's in values only."""
    is_fixed = np.full(len(layout.diff), 0xFF, np.uint8)
    for start, _, size in layout.values:
        is_fixed[start : start + size] = 0
    item = f"V{len(layout.diff)}"
    fixed: npt.NDArray[Any] = (diffs & is_fixed).view(item).ravel()
    wanted = (np.frombuffer(layout.diff, np.uint8) & is_fixed).view(item)
    return np.asarray(fixed == wanted[0], np.bool_)


def _filled_in(layout: DiffLayout, diffs: Bytes) -> Bytes:
    texts = np.empty((len(diffs), len(layout.description)), np.uint8)
    texts[:] = np.frombuffer(layout.description, np.uint8)
    for start, shown_start, size in layout.values:
        texts[:, shown_start : shown_start + size] = diffs[:, start : start + size]
    return texts
