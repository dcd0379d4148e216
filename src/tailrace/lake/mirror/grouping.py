"""Assign changes to the files that have their keys."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tailrace.lake.mirror.copy_state import CopyState
from tailrace.lake.mirror.data_files import MirrorFile
from tailrace.lake.mirror.merge import CLEAR, RowChange

SMALL_BYTES: Final = 1 << 20
"""A file of less than this is rewritten together with its neighbours, if one of them is rewritten"""
_SMALL_ROWS: Final = 16_384
"""But not if it has as many rows: rows that are alike are compressed to a few bytes each"""
_LEAST_ROW_BYTES: Final = 64

_MANY: Final = 32


@dataclass(frozen=True, slots=True)
class FileChanges:
    """Neighbouring files, and the changes of their rows in order; without files, the rows are new."""

    files: tuple[MirrorFile, ...]
    changes: Sequence[RowChange]

    @property
    def size(self) -> int:
        """How much work it is, in bytes: a row takes its time however well it is compressed."""
        read = sum(max(file.size, _LEAST_ROW_BYTES * file.rows) for file in self.files)
        return read + sum(len(change.payload) for change in self.changes)


def changes_by_file(
    files: Sequence[MirrorFile], state: CopyState, changes: Sequence[RowChange]
) -> list[FileChanges]:
    """Divide changes by the files that they change. No file gets keys of two ranges of a copy.

    What clears the collection is a change of every file.
    """
    spans = spans_of(files)
    first_keys = [span[0].first_key for span in spans]
    ranges = [state.range_of(key) for key in first_keys]
    found: dict[int, dict[int, RowChange]] = {}
    for order, change in enumerate(changes):
        if change.kind == CLEAR:
            for place in {*found, *range(len(spans))}:
                found.setdefault(place, {})[order] = change
            continue
        place = bisect_right(first_keys, change.key) - 1
        wanted = state.range_of(change.key)
        if place < 0 or ranges[place] != wanted:
            place += 1
            if place == len(spans) or ranges[place] != wanted:
                place = -1 - wanted  # the range has no file yet
        found.setdefault(place, {})[order] = change
    groups = [FileChanges((), list(added.values())) for place, added in found.items() if place < 0]
    places = sorted(place for place in found if place >= 0)
    for begin, end in _with_small_neighbours(spans, ranges, places):
        together = dict(sorted(each for place in range(begin, end) for each in found.get(place, {}).items()))
        merged = tuple(file for span in spans[begin:end] for file in span)
        groups.append(FileChanges(merged, list(together.values())))
    return groups


def spans_of(files: Sequence[MirrorFile]) -> list[tuple[MirrorFile, ...]]:
    """Files that have keys between each other's, together: rows that fit, and dead letters beside them."""
    spans: list[tuple[MirrorFile, ...]] = []
    last = b""
    for file in sorted(files, key=lambda file: file.first_key):
        if spans and file.first_key <= last:
            spans[-1] = (*spans[-1], file)
        else:
            spans.append((file,))
        last = max(last, file.last_key)
    return spans


def _with_small_neighbours(
    spans: Sequence[tuple[MirrorFile, ...]], ranges: Sequence[int], places: Sequence[int]
) -> list[tuple[int, int]]:
    """The spans at some places, each with the small ones beside it if it is small itself.

    Those of one group are small together, but for the last one of them.
    """
    sizes = [sum(file.size for file in span) for span in spans]
    rows = [sum(file.rows for file in span) for span in spans]
    is_small = [size < SMALL_BYTES and count < _SMALL_ROWS for size, count in zip(sizes, rows, strict=True)]

    def are_joined(left: int, right: int) -> bool:
        return is_small[left] and is_small[right] and ranges[left] == ranges[right]

    def have_room(begin: int, end: int) -> bool:
        return sum(sizes[begin:end]) < SMALL_BYTES and sum(rows[begin:end]) < _SMALL_ROWS

    found: list[tuple[int, int]] = []
    for place in places:
        if found and place < found[-1][1]:
            continue
        begin, end = place, place + 1
        earliest = found[-1][1] if found else 0
        while begin > earliest and are_joined(begin - 1, begin) and have_room(begin, end):
            begin -= 1
        while end < len(spans) and are_joined(end - 1, end) and have_room(begin, end):
            end += 1
        found.append((begin, end))
    return found


def small_past(files: Sequence[MirrorFile]) -> list[MirrorFile]:
    """The small ones of some files of past rows, if they are so many that they should be joined."""
    small = [file for file in files if file.size < SMALL_BYTES]
    return small if len(small) >= _MANY else []
