"""How much a running deployment logged when, estimated on several shards at the same time."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final, NamedTuple

from tailrace.events.cluster_time import cluster_time
from tailrace.sources.deployments.estimates import (
    Block,
    Density,
    blocks_of,
    cuts_by_rate,
    limit_by_sample,
    refined,
)
from tailrace.sources.deployments.shard_oplog import ShardOplog
from tailrace.sources.in_parallel import asked
from tailrace.sources.source import Volume

_SAMPLES_PER_PART: Final = 8
_FIRST_SAMPLES: Final = 16
_MOST_SPLITS: Final = 24
_MOST_SAMPLED: Final = 4
"""If there are more shards, they are assumed to be like the first ones: it decides on equal work only."""


class MeasuredInterval(NamedTuple):
    """What is measured of one shard; it may have left before the end of the whole interval."""

    oplog: ShardOplog
    after: int
    through: int


class DeploymentVolume(Volume):
    """See `estimates.py`; ``intervals`` returns what an interval is on each shard."""

    def __init__(self, intervals: Callable[[int, int], list[MeasuredInterval]]) -> None:
        self._intervals = intervals

    def cuts(self, after: int, through: int, parts: int) -> list[int]:
        shards = self._intervals(after, through)
        begun = _firsts(shards[:_MOST_SAMPLED]) or _firsts(shards[_MOST_SAMPLED:])
        if not begun:
            return []
        after = max(after, min(begun) - 1)
        with ExitStack() as stack:
            densities = [
                Density(stack.enter_context(shard.oplog.measured(shard.after, shard.through)).seek)
                for shard in shards[:_MOST_SAMPLED]
            ]

            def rates(density: Density, blocks: Sequence[Block]) -> list[float]:
                return [density.rate(max(cluster_time(start), after + 1), stop) for start, stop in blocks]

            blocks = blocks_of(after, through, min(parts * _SAMPLES_PER_PART, _FIRST_SAMPLES))
            found = zip(*asked(lambda density: rates(density, blocks), densities), strict=True)
            samples = refined(
                list(zip(blocks, found, strict=True)),
                parts,
                _MOST_SPLITS,
                lambda block: [rate for (rate,) in asked(lambda each: rates(each, [block]), densities)],
            )
        return cuts_by_rate(after, through, parts, samples)

    def limit(self, after: int, through: int, max_entries: int, max_bytes: int) -> int:
        """See `Volume`; each shard has an equal share of the limits."""
        shards = self._intervals(after, through)
        count = len(shards)

        def limit_of(shard: MeasuredInterval) -> int:
            with shard.oplog.measured(shard.after, shard.through) as interval:
                limit = limit_by_sample(
                    shard.after,
                    shard.through,
                    max(max_entries // count, 1),
                    max_bytes // count,
                    interval.sizes,
                    interval.limit_of,
                    shards=count,
                )
            return through if limit >= shard.through else limit

        return min(asked(limit_of, shards), default=through)


def _firsts(shards: Sequence[MeasuredInterval]) -> list[int]:
    """Return the first times of the shards that have entries."""
    return [first for first in asked(_first, shards) if first is not None]


def _first(shard: MeasuredInterval) -> int | None:
    with shard.oplog.measured(shard.after, shard.through) as interval:
        return interval.seek(shard.after + 1)
