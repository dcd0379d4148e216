"""Intervals of all shards to canonical events in the order of the whole deployment.

The shard that is furthest behind is read next, so few events wait for their turn and memory does not grow
with the interval. What comes out depends on the interval alone, not on how it is cut into batches.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from tailrace.events.change_event import ChangeEvent
from tailrace.events.event_token import token_document
from tailrace.events.layout.token import token_text
from tailrace.events.oplog_entry import OplogEntry
from tailrace.events.stages.add_pre_image import find_pre_image
from tailrace.events.stages.lookups import Lookups, PreImageLookup
from tailrace.events.stages.merge_shards import FOREVER, MergeShards
from tailrace.events.stages.plan import DeploymentPart
from tailrace.events.stages.stage import Batch
from tailrace.lake.deferred_entries import is_untold_noop, untold
from tailrace.sources.archives.entries import entry_time
from tailrace.sources.source import OplogSource

_NO_LOOKUPS: Final = Lookups()
_CHANGE_A_DOCUMENT: Final = frozenset({"update", "replace", "delete"})


def shared_events(
    source: OplogSource, after: int, through: int, *, marks_end: bool = False
) -> Iterator[list[ChangeEvent]]:
    """The events of an interval, and the entries a history keeps in their place (`lake/deferred_entries.py`).

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


class ShardStages:
    """The stages of one shard for one interval."""

    def __init__(
        self, source: OplogSource, shard: str, after: int, through: int, *, marks_end: bool = False
    ) -> None:
        self._shard = shard
        self._lookups = source.lookups(shard, after, through)
        self._part = DeploymentPart(shard, self._lookups, marks_end=marks_end)

    @property
    def pre_image(self) -> PreImageLookup | None:
        """Finds stored pre-images; None if the source has none."""
        find = self._lookups.pre_image
        return None if find is _NO_LOOKUPS.pre_image else find

    def events(self, raws: Sequence[bytes]) -> list[ChangeEvent]:
        """The events of the next entries, and in their places the entries that only some streams can read."""
        entries = list(map(self._part.read, raws))
        batch = self._part.events_of(entries)
        is_special = batch.failure is not None or any(
            entry.head.op == "n" and is_untold_noop(entry) for entry in entries
        )
        return self._one_by_one(entries) if is_special else batch.items

    def _one_by_one(self, entries: list[OplogEntry]) -> list[ChangeEvent]:
        events: list[ChangeEvent] = []
        for entry in entries:
            batch = self._part.events(entry)
            if batch.failure is not None or (not batch.items and is_untold_noop(entry)):
                events.append(untold(entry, self._shard))
            else:
                events += batch.items
        return events

    def add_images(self, events: Sequence[ChangeEvent]) -> None:
        """Give changes of documents that were there before their stored pre-images."""
        if self.pre_image is None:
            return
        for event in events:
            if event.kind.operation_type in _CHANGE_A_DOCUMENT:
                event.pre_image = find_pre_image(event, self._lookups)


class _ShardReader:
    """One shard's part of an interval on its way through the stages."""

    def __init__(self, source: OplogSource, shard: str, after: int, through: int, *, marks_end: bool) -> None:
        self.position = after
        """everything up to this cluster time was handed out"""
        self._stages = ShardStages(source, shard, after, through, marks_end=marks_end)
        self._batches = source.entries(shard, after, through)

    def next_events(self) -> list[ChangeEvent] | None:
        """The events of the next batch of entries, None at the end."""
        raws = next(self._batches, None)
        if raws is None:
            return None
        events = self._stages.events(raws)
        self._stages.add_images(events)
        self.position = entry_time(raws[-1])
        return events


def _token(event: ChangeEvent) -> bytes:
    return token_text(token_document(event))
