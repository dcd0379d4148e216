"""Estimate how much a shard logged when, without reading it.

An oplog has no index. A server finds the first entry at or after a cluster time at once (a *seek*), and skips
some ten thousand entries in milliseconds; everything else would read the backlog. Increments count up within
a second and each entry has its own. So a few seeks show at most how many entries a second has. Some seconds
are sampled; the others are assumed to be like their neighbours.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Final, TypeAlias

from tailrace.events.cluster_time import cluster_time, increment_of, seconds_of

Seek: TypeAlias = Callable[[int], int | None]
"""Returns the time of the first entry at or after a time; None if there is none up to the interval's end."""
Block: TypeAlias = tuple[int, int]
"""Seconds, without the last one."""
Sample: TypeAlias = tuple[Block, Sequence[float]]
"""Entries a second in a block, on each of some shards."""

_SAMPLED_FIRST: Final = 16
_SAMPLED_THEN: Final = 484
_SAMPLED_BYTES: Final = 1 << 20
"""After this many entries or bytes the others are assumed to be like them."""
_FEW_SHARDS: Final = 8
_PRECISION: Final = 8
"""A count is at most one in this many too large."""
_SHARE: Final = 4
"""What is assumed to be like a sampled second is at most one in this many of what a batch has room for."""
_ENOUGH: Final = 16
"""A batch may end when all but one in this many of its entries are there."""


class Density:
    """At most how many entries a shard logs in the seconds of an interval."""

    def __init__(self, seek: Seek) -> None:
        self.seek = seek
        self._usual = 1
        self._counts: dict[int, int] = {}

    def count_from(self, first: int) -> int:
        """Return at most how many entries there are from one at this time to the end of its second.

        >>> Density(lambda time: time if time <= 1000 else None).count_from(101) in range(900, 1014)
        True
        """
        if first not in self._counts:
            self._counts[first] = self._usual = self._count(first, cluster_time(seconds_of(first) + 1) - 1)
        return self._counts[first]

    def _count(self, first: int, last: int) -> int:
        newest = first
        step = self._usual + self._usual // 4 + 1  # seconds are often alike
        while (found := self.seek(newest + step)) is not None and found <= last:
            newest = found
            step *= 4
        none_after = min(newest + step - 1, last)
        while none_after - newest > (none_after - first) // _PRECISION:
            middle = (newest + none_after + 1) // 2
            found = self.seek(middle)
            if found is None or found > last:
                none_after = middle - 1
            else:
                newest = found
        return none_after - first + 1

    def rate(self, start: int, stop: int) -> float:
        """Return about how many entries a second there are from a time to the beginning of a second."""
        first = self.seek(start)
        if first is None or seconds_of(first) >= stop:
            return 0.0
        return self.count_from(first) / (seconds_of(first) - seconds_of(start) + 1)


def blocks_of(after: int, through: int, samples: int) -> list[Block]:
    """Divide the seconds of an interval into at most ``samples`` blocks of about equal length."""
    first, last = seconds_of(after), seconds_of(through)
    count = min(samples, last - first + 1)
    return list(pairwise([first + (last + 1 - first) * n // count for n in range(count + 1)]))


def refined(
    samples: Sequence[Sample], parts: int, splits: int, measure: Callable[[Block], Sequence[float]]
) -> list[Sample]:
    """Split the blocks that may have the most entries, up to a number of times, until all are small parts.

    A block that was sampled where little happened beside a lot is found like this.

    >>> rate = lambda block: [900.0] if block[0] == 2 else [1.0]
    >>> refined([((0, 4), [1.0]), ((4, 8), [0.1])], 2, 9, rate)
    [((0, 2), [1.0]), ((2, 3), [900.0]), ((3, 4), [1.0]), ((4, 8), [0.1])]
    """
    found = list(samples)
    for _ in range(splits):
        divisible = [number for number, ((start, stop), _) in enumerate(found) if stop - start > 1]
        if not divisible:
            break
        largest = max(divisible, key=lambda number: _entries(found[number]))
        if _entries(found[largest]) * parts * _SHARE <= sum(map(_entries, found)):
            break
        (start, stop), rates = found[largest]
        middle = (start + stop) // 2
        found[largest : largest + 1] = [
            ((start, middle), rates),
            ((middle, stop), measure((middle, stop))),
        ]
    return found


def _entries(sample: Sample) -> float:
    (start, stop), rates = sample
    return sum(rates) * (stop - start)


def cuts_by_rate(after: int, through: int, parts: int, samples: Sequence[Sample]) -> list[int]:
    """Cut an interval by the rates at which shards logged.

    >>> start = 5 << 32
    >>> cuts_by_rate(start, start | 100, 4, [((5, 6), [100.0])]) == [start | 25, start | 50, start | 75]
    True
    """
    sizes = [_entries(sample) for sample in samples]
    totals = list(accumulate(sizes))
    cuts: set[int] = set()
    block = 0
    for part in range(1, parts):
        wanted = totals[-1] * part / parts
        while totals[block] < wanted:
            block += 1
        if not sizes[block]:
            continue
        (start, stop), rates = samples[block]
        share = (wanted - (totals[block] - sizes[block])) / sizes[block]
        if stop - start == 1:
            base = increment_of(after) if start == seconds_of(after) else 0
            cuts.add(cluster_time(start, base + int(max(rates) * share)))
        else:
            cuts.add(cluster_time(start + int((stop - start) * share)))
    return sorted(cut for cut in cuts if after < cut < through)


def limit_by_rate(after: int, through: int, max_entries: int, density: Density) -> int:
    """Return a time up to which one shard has no more than a large number of entries, or about that many.

    Where a second is not sampled, the busier one of its two sampled neighbours counts for it.

    >>> limit_by_rate(0, 9 << 32, 600, Density(lambda time: time if time <= 1000 else None))
    600
    """
    left: float = max_entries
    position, seconds = after + 1, 1
    while left > max_entries / _ENOUGH:
        first = density.seek(position)
        if first is None:
            return through
        here = density.count_from(first)
        if here > left:
            return min(first + int(left) - 1, through)
        second = seconds_of(first)
        seconds = max(min(2 * seconds, int(left / (_SHARE * here))), 1)
        busiest: float = here
        while seconds > 1:
            end = second + seconds
            busiest = max(here, density.rate(cluster_time(end), end + seconds))
            if busiest * seconds <= left * 2 / _SHARE:
                break
            seconds //= 2
            busiest = here
        left -= busiest * seconds
        position = cluster_time(second + seconds)
    return min(position - 1, through)


def limit_by_sample(
    after: int,
    through: int,
    max_entries: int,
    max_bytes: int,
    first_entries: Callable[[int, int], Iterable[tuple[int, int]]],
    limit_of: Callable[[int], int],
    shards: int = 1,
) -> int:
    """Limit an interval of one shard by the size that its first entries have.

    ``first_entries`` returns times and sizes of the first entries after a time, up to a number; ``limit_of``
    the last time up to which there are no more than that many. If there are many shards, fewer entries are
    read of each.

    >>> times = range(10, 1010)
    >>> first = lambda after, count: [(time, 100) for time in times if time > after][:count]
    >>> most = lambda number: times[number] - 1
    >>> limit_by_sample(0, 5000, 700, 1 << 30, first, most), limit_by_sample(0, 5000, 3, 1 << 30, first, most)
    (709, 12)
    """
    count = size = 0
    position = after
    # Few at first: entries may be large, and a server reads all of their bytes.
    for wanted in (_SAMPLED_FIRST, _SAMPLED_THEN)[: 1 if shards > _FEW_SHARDS else 2]:
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
    return limit_of(min(max_entries, max(max_bytes * count // size, count)))
