"""The split point: ordered streams of several shards become one ordered stream.

Every shard promises a cluster time up to which it has told everything. An event is handed on only when all
shards have promised at least its time, so nothing can come later that belongs before it. Ties at one
cluster time are ordered by token. A silent shard holds everybody back until its promise moves on.
"""

from collections import deque
from collections.abc import Callable, Iterable
from itertools import groupby, pairwise
from typing import Final

from tailrace.errors import CommandError
from tailrace.events.change_event import ChangeEvent
from tailrace.events.stages.stage import Batch

FOREVER: Final = 1 << 64
"""The promise of a shard that has ended: nothing more will come."""


def _cluster_time(event: ChangeEvent) -> int:
    return event.entry.ts


class _Shard:
    __slots__ = ("events", "failure", "promise")

    def __init__(self) -> None:
        self.events: deque[ChangeEvent] = deque()
        self.promise = 0
        self.failure: CommandError | None = None


class MergeShards:
    """Collects batches by shard; `take` gives what is in order by now."""

    def __init__(self, shards: Iterable[str], sort_key: Callable[[ChangeEvent], bytes]) -> None:
        self._shards = {name: _Shard() for name in shards}
        self._sort_key = sort_key

    @property
    def promised(self) -> int:
        """The cluster time up to which every shard has told everything."""
        return min(shard.promise for shard in self._shards.values())

    def offer(self, name: str, batch: Batch[ChangeEvent], promise: int) -> None:
        """Add a shard's next events; it has told everything up to ``promise``."""
        shard = self._shards[name]
        if shard.failure is not None:
            return
        shard.events += batch.items
        if batch.failure is not None:
            shard.failure = batch.failure
            promise = batch.failed_at - 1
        shard.promise = max(shard.promise, promise)

    def take(self) -> Batch[ChangeEvent]:
        """All events that no shard can get in front of any more."""
        promised = self.promised
        taken: list[ChangeEvent] = []
        for shard in self._shards.values():
            events = shard.events
            while events and events[0].entry.ts <= promised:
                taken.append(events.popleft())
        taken.sort(key=_cluster_time)
        self._settle_ties(taken)
        for shard in self._shards.values():
            if shard.failure is not None and shard.promise == promised:
                return Batch(taken, shard.failure)
        return Batch(taken)

    def _settle_ties(self, events: list[ChangeEvent]) -> None:
        """Order events of different shards at one cluster time by token; within a shard they are already."""
        if not any(
            left.entry.ts == right.entry.ts and left.shard != right.shard for left, right in pairwise(events)
        ):
            return
        for _, run in groupby(range(len(events)), lambda index: events[index].entry.ts):
            tied = list(run)
            if len(tied) > 1 and len({events[index].shard for index in tied}) > 1:
                window = slice(tied[0], tied[-1] + 1)
                events[window] = sorted(events[window], key=self._sort_key)
