"""Intervals of all shards to canonical events in the order of the whole deployment.

The shard that is furthest behind is read next, so few events wait for their turn and memory does not grow
with the interval. What comes out depends on the interval alone, not on how it is cut into batches.
"""

from collections.abc import Iterator
from typing import Final

from tailrace.history.untold import is_untold_noop, untold
from tailrace.model.change_event import ChangeEvent
from tailrace.model.event_token import resume_token
from tailrace.model.oplog_entry import OplogEntry
from tailrace.spark.oplogs.source import OplogSource
from tailrace.stages.add_pre_image import find_pre_image
from tailrace.stages.lookups import Lookups
from tailrace.stages.merge_shards import FOREVER, MergeShards
from tailrace.stages.plan import DeploymentPart
from tailrace.stages.stage import Batch

_NO_LOOKUPS: Final = Lookups()
_CHANGE_A_DOCUMENT: Final = frozenset({"update", "replace", "delete"})


def shared_events(
    source: OplogSource, after: int, through: int, *, marks_end: bool = False
) -> Iterator[list[ChangeEvent]]:
    """The events of an interval, and the entries a history keeps in their place (`history/untold.py`).

    Changes of documents that were there before carry the stored pre-image. One cluster time is never in two
    lists. Raises `CommandError` 286 if an oplog does not go back that far.
    """
    shards = {
        name: _ShardReader(source, name, after, through, marks_end=marks_end) for name in source.shards()
    }
    if len(shards) == 1:
        for reader in shards.values():
            while (events := reader.next_events()) is not None:
                if events:
                    yield events
        return
    merge = MergeShards(shards, _token)
    waiting = dict(shards)
    while waiting:
        name = min(waiting, key=lambda shard: waiting[shard].position)
        reader = waiting[name]
        events = reader.next_events()
        if events is None:
            del waiting[name]
            merge.offer(name, Batch([]), FOREVER)
        else:
            merge.offer(name, Batch(events), reader.position)
        ready = merge.take()
        if ready.items:
            yield ready.items


class _ShardReader:
    """One shard's part of an interval on its way through the stages."""

    def __init__(self, source: OplogSource, shard: str, after: int, through: int, *, marks_end: bool) -> None:
        self.position = after
        """everything up to this cluster time was handed out"""
        self._shard = shard
        self._lookups = source.lookups(shard, after, through)
        self._has_images = self._lookups.pre_image is not _NO_LOOKUPS.pre_image
        self._part = DeploymentPart(shard, self._lookups, marks_end=marks_end)
        self._batches = source.entries(shard, after, through)

    def next_events(self) -> list[ChangeEvent] | None:
        """The events of the next batch of entries, None at the end."""
        raw = next(self._batches, None)
        if raw is None:
            return None
        entries = list(map(self._part.read, raw))
        batch = self._part.events_of(entries)
        noops = [entry for entry in entries if entry.head.op == "n"]
        is_special = batch.failure is not None or any(map(is_untold_noop, noops))
        events = self._one_by_one(entries) if is_special else batch.items
        if self._has_images:
            self._add_images(events)
        self.position = entries[-1].ts
        return events

    def _one_by_one(self, entries: list[OplogEntry]) -> list[ChangeEvent]:
        """The events, and in their places the entries that only some streams can make something of."""
        events: list[ChangeEvent] = []
        for entry in entries:
            batch = self._part.events(entry)
            if batch.failure is not None or (not batch.items and is_untold_noop(entry)):
                events.append(untold(entry, self._shard))
            else:
                events += batch.items
        return events

    def _add_images(self, events: list[ChangeEvent]) -> None:
        for event in events:
            if event.kind.operation_type in _CHANGE_A_DOCUMENT:
                event.pre_image = find_pre_image(event, self._lookups)


def _token(event: ChangeEvent) -> bytes:
    return resume_token(event).data.encode()
