"""Where to cut an interval of a deployment's oplogs, of which nobody knows how much was logged when.

Increments count up within a second, so the newest entry of a second tells how many there are about. Some
seconds are asked; the others are taken to be like their neighbours.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Final

_INCREMENTS: Final = 0xFFFFFFFF


def cuts_by_rate(
    after: int, through: int, parts: int, samples: int, newest: Sequence[Callable[[int], int | None]]
) -> list[int]:
    """At most ``parts - 1`` cluster times inside an interval.

    ``newest`` asks each shard for the time of its last entry up to a cluster time.

    >>> cuts_by_rate(5 << 32, 5 << 32 | 100, 4, 8, [lambda time: time]) == [5 << 32 | n for n in (25, 50, 75)]
    True
    """
    first, last = after >> 32, through >> 32
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
        behind_start = wanted - (totals[block] - size)
        if not size:
            continue
        if stop - start == 1:
            base = after & _INCREMENTS if start == first else 0
            top = through & _INCREMENTS if start == last else weights[block]
            cuts.add(start << 32 | base + int((max(top, base) - base) * behind_start / size))
        else:
            cuts.add(start + int((stop - start) * behind_start / size) << 32)
    return sorted(cut for cut in cuts if after < cut < through)


def _in_second(second: int, after: int, through: int, ask: Callable[[int], int | None]) -> int:
    """About how many entries of the interval a shard logged in one second."""
    found = ask(min(second << 32 | _INCREMENTS, through))
    if found is None or found <= after or found >> 32 != second:
        return 0
    return found - max(after, second << 32)
