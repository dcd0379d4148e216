"""One shard's entries to canonical events, for a history."""

from collections.abc import Sequence
from typing import Final

from tailrace.events.change_event import ChangeEvent
from tailrace.events.stages.lookups import Lookups, PreImageLookup
from tailrace.events.stages.parts import DeploymentPart
from tailrace.lake.deferred_entries import events_or_deferred, is_deferred_noop
from tailrace.sources.source import OplogSource

_NO_LOOKUPS: Final = Lookups()


class ShardStages:
    """The shared part of the stages for one shard and one interval."""

    def __init__(
        self, source: OplogSource, shard: str, after: int, through: int, *, marks_end: bool = False
    ) -> None:
        self._shard = shard
        self._lookups = source.lookups(shard, after, through)
        self._part = DeploymentPart(shard, self._lookups, marks_end=marks_end)

    @property
    def pre_image(self) -> PreImageLookup | None:
        """The look-up of stored pre-images; None if the source has none."""
        find = self._lookups.pre_image
        return None if find is _NO_LOOKUPS.pre_image else find

    def events(self, raws: Sequence[bytes]) -> list[ChangeEvent]:
        """Return the events of the next entries; deferred entries are in the place of their events."""
        entries = list(map(self._part.read, raws))
        batch = self._part.events_of(entries)
        is_special = batch.failure is not None or any(
            entry.head.op == "n" and is_deferred_noop(entry) for entry in entries
        )
        if not is_special:
            return batch.items
        return [event for entry in entries for event in events_or_deferred(self._part, entry, self._shard)]
