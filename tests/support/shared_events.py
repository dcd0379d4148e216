"""The canonical events of an interval, made one by one: the reference for the vectorised pipeline."""

from collections.abc import Iterator
from operator import attrgetter

from tailrace.events.change_event import ChangeEvent
from tailrace.events.merge import merge_by_time, settle_events
from tailrace.events.pre_image_key import has_pre_image, pre_image_of
from tailrace.sources.shard_events import ShardStages
from tailrace.sources.source import OplogSource


def shared_events(
    source: OplogSource, after: int, through: int, *, marks_end: bool = False
) -> Iterator[list[ChangeEvent]]:
    """Yield the events of an interval, and its deferred entries (`lake/deferred_entries.py`).

    Updates, replacements and deletes have the stored pre-image. Events of one cluster time are in one list.
    Raises `CommandError` 286 if an oplog begins after the interval.
    """
    shards = [_events_of(source, name, after, through, marks_end=marks_end) for name in source.shards()]
    if len(shards) == 1:
        yield from (events for events in shards[0] if events)
        return
    parts = [[event for events in shard for event in events] for shard in shards]
    yield [*merge_by_time(parts, attrgetter("entry.ts"), settle_events)]


def _events_of(
    source: OplogSource, shard: str, after: int, through: int, *, marks_end: bool
) -> Iterator[list[ChangeEvent]]:
    stages = ShardStages(source, shard, after, through, marks_end=marks_end)
    for raws in source.entries(shard, after, through):
        events = stages.events(raws)
        for event in events:
            if stages.pre_image is not None and has_pre_image(event):
                event.pre_image = stages.pre_image(*pre_image_of(event))
        yield events
