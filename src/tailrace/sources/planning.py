"""Plan what is read in one batch and by one task.

`Planner` asks a source for its shards, its commits and its `Volume`. The functions below it are what volumes
are computed with: they see times and sizes, never a file or a server.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Final

from tailrace.events.cluster_time import cluster_time, increment_of, seconds_of
from tailrace.sources.batch_boundaries import CommitsAhead, whole_time
from tailrace.sources.source import OplogSource

UNLIMITED: Final = 1 << 62
_SMALL_ENTRIES: Final = 20_000
_SMALL_BYTES: Final = 8 << 20
_USUAL_PARTS: Final = 4
_PART_BYTES: Final = 32 << 20
_MOST_PARTS: Final = 64
_SAMPLED_FIRST: Final = 16
_SAMPLED_THEN: Final = 484
_SAMPLED_BYTES: Final = 1 << 20
"""After this many entries or bytes the others are assumed to be like them."""


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

    def suggested_parts(self, after: int, through: int) -> int:
        """Return into how many pieces an interval is worth being cut."""
        size = self._source.volume.least_bytes(after, through)
        if size is not None:
            return min(max(size // _PART_BYTES, 1), _MOST_PARTS)
        return 1 if self.fits(after, through, _SMALL_ENTRIES, _SMALL_BYTES) else _USUAL_PARTS

    def fits(self, after: int, through: int, max_entries: int, max_bytes: int) -> bool:
        """Return whether an interval is within limits."""
        size = self._source.volume.least_bytes(after, through)
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


# -- deployments: a shard can be asked for some entries, and for the time of its n-th -----------------------


def cuts_by_rate(
    after: int, through: int, parts: int, samples: int, newest: Sequence[Callable[[int], int | None]]
) -> list[int]:
    """Cut an interval by the rates at which the shards logged.

    ``newest`` asks each shard for the time of its last entry up to a cluster time. Increments count up within
    a second, so the last entry of a second shows about how many there are. Some seconds are sampled; the
    others are assumed to be like their neighbours.

    >>> cuts_by_rate(5 << 32, 5 << 32 | 100, 4, 8, [lambda time: time]) == [5 << 32 | n for n in (25, 50, 75)]
    True
    """
    first, last = seconds_of(after), seconds_of(through)
    count = min(samples, last - first + 1)
    edges = [first + (last + 1 - first) * n // count for n in range(count + 1)]
    blocks = list(pairwise(edges))
    weights = [sum(_in_second(start, after, through, ask) for ask in newest) for start, _ in blocks]
    totals = list(accumulate(w * (stop - start) for w, (start, stop) in zip(weights, blocks, strict=True)))
    cuts: set[int] = set()
    block = 0
    for part in range(1, parts):
        wanted = totals[-1] * part / parts
        while totals[block] < wanted:
            block += 1
        start, stop = blocks[block]
        size = weights[block] * (stop - start)
        if not size:
            continue
        share = (wanted - (totals[block] - size)) / size
        if stop - start == 1:
            base = increment_of(after) if start == first else 0
            top = increment_of(through) if start == last else weights[block]
            cuts.add(cluster_time(start, base + int((max(top, base) - base) * share)))
        else:
            cuts.add(cluster_time(start + int((stop - start) * share)))
    return sorted(cut for cut in cuts if after < cut < through)


def _in_second(second: int, after: int, through: int, ask: Callable[[int], int | None]) -> int:
    """About how many entries of the interval a shard logged in one second."""
    found = ask(min(cluster_time(second + 1) - 1, through))
    if found is None or found <= after or seconds_of(found) != second:
        return 0
    return found - max(after, cluster_time(second))


def limit_by_sample(
    after: int,
    through: int,
    max_entries: int,
    max_bytes: int,
    first_entries: Callable[[int, int], Iterable[tuple[int, int]]],
    time_of: Callable[[int], int | None],
) -> int:
    """Limit an interval of one shard by the size that its first entries have.

    ``first_entries`` returns times and sizes of the first entries after a time, up to a number; ``time_of``
    the time of the n-th entry from 0 of the interval, None if there are fewer.

    >>> times = range(10, 1010)
    >>> first = lambda after, count: [(time, 100) for time in times if time > after][:count]
    >>> nth = lambda number: times[number] if number < len(times) else None
    >>> limit_by_sample(0, 5000, 700, 1 << 30, first, nth), limit_by_sample(0, 5000, 3, 1 << 30, first, nth)
    (709, 12)
    """
    count = size = 0
    position = after
    # Few at first: entries may be large, and the tasks read these again.
    for wanted in (_SAMPLED_FIRST, _SAMPLED_THEN):
        before = count
        for position, length in first_entries(position, wanted):  # noqa: B020
            size += length
            if count and (count >= max_entries or size > max_bytes):
                return position - 1
            count += 1
        if count - before < wanted:
            return through
        if size > _SAMPLED_BYTES:
            break
    beyond = time_of(min(max_entries, max(max_bytes * count // size, count)))
    return through if beyond is None else beyond - 1
