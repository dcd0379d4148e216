"""An archive as an event log: entries of one or more oplogs, pushed in order, for one stream.

The stream's shared part turns each run of entries into events when it is pushed, so that only what the stream
may see is unwound and transformed. The events of several shards are merged as far as all shards promise.
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Final

from tailrace.errors import CommandError
from tailrace.events.change_event import ChangeEvent
from tailrace.events.cluster_time import BEGINNING, END_OF_TIME
from tailrace.events.merge import merge_by_time, settle_events
from tailrace.events.oplog_entry import goes_back_to
from tailrace.events.promise import Promise, common_promise, promise
from tailrace.events.stages.check_resumability import history_lost
from tailrace.events.stages.lookups import Lookups
from tailrace.events.stages.parts import SharedPart
from tailrace.events.stages.plan import Plan
from tailrace.events.stages.stage import Batch
from tailrace.log.event_log import EventLog, LogItem, Slice

_ENDED: Final = promise(END_OF_TIME)
_time_of: Final = attrgetter("entry.ts")


class SelectedEvents(LogItem):
    """Events in order that the pre-filter of the reading stream has let through, and the error after them."""

    __slots__ = ("batch",)

    def __init__(self, ts: int, batch: Batch[ChangeEvent]) -> None:
        super().__init__(ts)
        self.batch = batch

    @property
    def weight(self) -> int:
        """Not stored for others."""
        return 0


class _PushedShard:
    """What one oplog has given so far and the merge has not taken."""

    __slots__ = ("events", "failure", "is_unchecked", "part", "promise")

    def __init__(self, part: SharedPart, *, is_unchecked: bool) -> None:
        self.part = part
        self.is_unchecked = is_unchecked
        """Whether the first entry must show that the oplog goes back to the stream's start."""
        self.events: list[ChangeEvent] = []
        self.promise = promise(BEGINNING)
        self.failure: CommandError | None = None

    def add(self, batch: Batch[ChangeEvent]) -> None:
        if self.failure is not None:
            return
        self.events += batch.items
        self.failure = batch.failure
        through = self.part.scanned if batch.failure is None else batch.failed_at - 1
        self.promise = max(self.promise, promise(through))

    def take(self, through: Promise) -> list[ChangeEvent]:
        """Remove and return the events up to a time."""
        count = 0
        for event in self.events:
            if event.entry.ts > through:
                break
            count += 1
        taken = self.events[:count]
        del self.events[:count]
        return taken


class ArchiveLog(EventLog):
    """The log that one stream reads while its caller pushes entries."""

    is_shared = False

    def __init__(self, plan: Plan, lookups: Mapping[str, Lookups], *, from_oldest: bool) -> None:
        """With ``from_oldest``, the first entry of a shard is the oldest that its oplog has.

        A start point before it raises ChangeStreamHistoryLost.
        """
        super().__init__(lookups)
        self._start = plan.start or 0
        self._version_of = plan.resume_point().version_of
        is_unchecked = from_oldest and plan.start is not None
        self._shards = {
            name: _PushedShard(plan.shared_part(name, found), is_unchecked=is_unchecked)
            for name, found in lookups.items()
        }
        self._ready: list[Batch[ChangeEvent]] = []
        self._failure: CommandError | None = None

    def push(self, shard: str, entries: Sequence[bytes]) -> None:
        """Add the next entries of one shard."""
        pushed = self._shards[shard]
        if pushed.is_unchecked:
            pushed.is_unchecked = False
            if not goes_back_to(entries[0], self._start):
                self._failure = history_lost(self._start)
                return
        batch = pushed.part(Batch(list(entries)))
        if len(self._shards) == 1:
            self._ready.append(batch)
        else:
            pushed.add(batch)
            self._merge()

    def finish(self, shard: str) -> None:
        """Add that a shard has no more entries, so that the others need not wait for it."""
        pushed = self._shards[shard]
        if pushed.failure is None:
            pushed.promise = _ENDED
        if len(self._shards) > 1:
            self._merge()

    def _merge(self) -> None:
        shards = self._shards.values()
        promised = common_promise(shard.promise for shard in shards)
        parts = [shard.take(promised) for shard in shards]
        events = merge_by_time(
            [part for part in parts if part], _time_of, lambda tied: settle_events(tied, self._version_of)
        )
        failed = next((s for s in shards if s.failure is not None and s.promise == promised), None)
        self._ready.append(Batch([*events], None if failed is None else failed.failure))

    @property
    def newest(self) -> Promise:
        """The cluster time up to which all oplogs were read; ended ones do not count."""
        shards = self._shards.values()
        scanned = [shard.part.scanned for shard in shards if shard.promise != _ENDED]
        return promise(min(scanned) if scanned else max(shard.part.scanned for shard in shards))

    @property
    def begin(self) -> int:
        """Everything that is pushed."""
        return 0

    def has_more(self, after: int) -> bool:
        """Return whether there is something to read."""
        return bool(self._ready) or self._failure is not None or after < self.newest

    def check_start(self, start: int) -> None:
        """Done when entries are pushed."""

    def check_place(self, after: int) -> None:
        """Nothing is removed."""

    def read(self, after: int) -> Slice:  # noqa: ARG002 - everything is read once
        """Return everything that is ready; raises ChangeStreamHistoryLost if an oplog begins too late."""
        if self._failure is not None:
            raise self._failure
        ready, self._ready = self._ready, []
        scanned = self.newest
        return Slice([SelectedEvents(scanned, batch) for batch in ready], scanned)

    def run_of(self, item: LogItem) -> None:
        """See `EventLog`."""

    def events_of(self, item: LogItem) -> Sequence[ChangeEvent]:
        assert isinstance(item, SelectedEvents)
        return item.batch.items
