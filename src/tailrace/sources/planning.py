"""Plan what is read in one batch and by one task.

`Planner` asks a source for its shards, its commits and its `Volume`. The functions below it are what volumes
of archives are computed with: they see times and sizes, never a file. `deployments/estimates.py` has those
of running deployments.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from tailrace.sources.batch_boundaries import CommitsAhead, whole_time
from tailrace.sources.source import OplogSource

UNLIMITED: Final = 1 << 62
_SMALL_ENTRIES: Final = 20_000
_SMALL_BYTES: Final = 8 << 20
_USUAL_PARTS: Final = 4
_PART_BYTES: Final = 32 << 20
_MOST_PARTS: Final = 64


class Planner:
    """Plans the batches and tasks of one query on one source."""

    def __init__(self, source: OplogSource) -> None:
        self._source = source
        self._commits = CommitsAhead()

    def cuts(self, after: int, through: int, parts: int) -> list[int]:
        return self._source.volume.cuts(after, through, parts) if parts > 1 and through > after else []

    def intervals(self, after: int, through: int, parts: int) -> list[tuple[int, int]]:
        """Return an interval in at most ``parts`` pieces of about equal work, in order."""
        return list(pairwise([after, *self.cuts(after, through, parts), through])) if through > after else []

    def least_bytes(self, after: int, through: int) -> int | None:
        """Return about how many bytes an interval has; None if only reading can show it."""
        return self._source.volume.least_bytes(after, through)

    def suggested_parts(self, after: int, through: int) -> int:
        """Return into how many pieces an interval is worth being cut."""
        size = self.least_bytes(after, through)
        if size is not None:
            return min(max(size // _PART_BYTES, 1), _MOST_PARTS)
        return 1 if self.fits(after, through, _SMALL_ENTRIES, _SMALL_BYTES) else _USUAL_PARTS

    def fits(self, after: int, through: int, max_entries: int, max_bytes: int) -> bool:
        """Return whether an interval is within limits."""
        size = self.least_bytes(after, through)
        if size is not None and size > max_bytes:
            return False
        return self.limit(after, through, max_entries, max_bytes) >= through

    def limit(self, after: int, through: int, max_entries: int, max_bytes: int) -> int:
        if max_entries >= UNLIMITED and max_bytes >= UNLIMITED:
            return through
        return self._source.volume.limit(after, through, max_entries, max_bytes)

    def batch_end(self, after: int, through: int, max_entries: int, max_bytes: int) -> int:
        """Return the end of a batch that another one follows: `limit`, moved where it divides no transaction.

        ``through`` is a time that was promised, or the end of everything.
        """
        end = self.limit(after, through, max_entries, max_bytes)
        if end >= through or len(self._source.shards()) < 2:
            return end
        commits = self._commits.between(after, through, self._source.commits)
        return min(whole_time(end, after, commits), through)


# -- archives: the position in a file shows how much there is before it ------------------------------------


def cuts_by_size(after: int, through: int, parts: int, points: Sequence[tuple[int, int]]) -> list[int]:
    """Cut an interval where the sizes since the points before add up to equal parts.

    ``points`` are times, ascending, and the bytes since the point before.

    >>> cuts_by_size(0, 9, 3, [(2, 10), (3, 10), (5, 20), (9, 20)])
    [3, 5]
    """
    total = sum(size for _, size in points)
    cuts: list[int] = []
    reached = 0
    for time, size in points:
        reached += size
        is_due = len(cuts) < parts - 1 and reached * parts >= total * (len(cuts) + 1)
        if is_due and after < time < through and (not cuts or time > cuts[-1]):
            cuts.append(time)
    return cuts


def limit_by_size(after: int, through: int, room: int, points: Iterable[tuple[int, int]]) -> int:
    """Return the last point up to which there are no more than ``room`` bytes, but at least the first one.

    >>> limit_by_size(0, 9, 25, [(2, 10), (3, 10), (5, 20), (9, 20)])
    3
    """
    reached = 0
    limit = after
    for time, size in points:
        reached += size
        if reached > room and limit > after:
            return limit
        limit = time
    return through


def limit_by_count(through: int, max_entries: int, max_bytes: int, entries: Iterable[tuple[int, int]]) -> int:
    """Return the last time up to which entries are within limits, but at least the first one.

    ``entries`` are times and sizes, ascending; those of one time, on several shards, are not divided.

    >>> limit_by_count(9, 2, 100, [(1, 10), (3, 10), (3, 10), (9, 10)])
    1
    """
    count = size = fitting = last = 0
    for time, length in entries:
        if time != last:
            if count > max_entries or size > max_bytes:
                return fitting or last
            fitting, last = last, time
        count += 1
        size += length
    return (fitting or last) if count > max_entries or size > max_bytes else through
