"""The head: the newest part of the event log, in memory, and the oplog on disk before it.

The store delivers the entries of every commit in the event loop's thread. They stay in memory, up to a size;
streams that read older ones read the oplog in pieces (`segments.py`).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from typing import Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.change_event import ChangeEvent
from tailrace.events.cluster_time import in_words
from tailrace.events.oplog_entry import Head, goes_back_to
from tailrace.events.promise import Promise, promise
from tailrace.events.stages.check_resumability import history_lost
from tailrace.events.stages.parts import DeploymentPart
from tailrace.events.stages.unwind_transaction import holds_operations
from tailrace.lake.deferred_entries import events_or_deferred
from tailrace.log.event_log import EntryItem, EventLog, LogItem, Slice
from tailrace.log.ports import OplogCommit, OplogStore
from tailrace.log.segments import Segments
from tailrace.log.verbatim_inserts import VerbatimInserts

SLICE_ITEMS: Final = 1000
SLICE_BYTES: Final = 512 << 10
"""What a stream processes before others get their turn: a slice ends with the item that reaches this."""
MAX_WEIGHT: Final = 96 << 20
"""Memory for the newest entries and their events."""


class HeadLog(EventLog):
    """The event log of one store."""

    def __init__(
        self, store: OplogStore, *, shard: str = "", max_weight: int = MAX_WEIGHT, marks_end: bool = False
    ) -> None:
        """``shard`` is the store's name in a cluster."""
        super().__init__({shard: store.lookups})
        self.shard = shard
        self.transformed = 0
        """How many entries were transformed; each is at most once, for any number of streams."""
        self._store = store
        self._part = DeploymentPart(shard, self.lookups[shard], marks_end=marks_end)
        self._max_weight = max_weight
        self._begins_after = store.last_committed
        self._newest = promise(store.last_committed)
        self._items: list[EntryItem] = []
        self._times: list[int] = []
        self._sizes: list[int] = []
        """The size of all entries up to each item, dropped ones included, to look up where a slice ends."""
        self._size = 0
        self._weight = 0
        self._older = Segments()
        store.on_commit.append(self._accept)

    @property
    def newest(self) -> Promise:
        """The cluster time of the newest commit."""
        return self._newest

    def check_start(self, start: int) -> None:
        """Raise ChangeStreamHistoryLost if entries from ``start`` on are gone."""
        if not has_entries_from(self._store, start):
            raise history_lost(start)

    def check_place(self, after: int) -> None:
        """Raise CappedPositionLost if entries after a cluster time were removed."""
        # Even if memory still has them: what a stream gets must not depend on the size of memory.
        if self.lost_through > after:
            raise place_lost(after)

    @property
    def lost_through(self) -> int:
        """The cluster time of the newest entry that was removed."""
        return self._store.truncated_through

    def read(self, after: int, logs: int = 1) -> Slice:
        """Return the next items after a cluster time; of one among several ``logs``, its share of a slice."""
        if after < self._begins_after:
            return self._read_older(after)
        times = self._times
        if not times or times[-1] <= after:
            return Slice((), max(self._newest, after))
        first = bisect_right(times, after)
        before = self._sizes[first - 1] if first else self._sizes[0] - len(self._items[0].entry.raw)
        end = bisect_left(self._sizes, before + SLICE_BYTES // logs, first) + 1
        items = self._items[first : min(end, first + SLICE_ITEMS // logs)]
        is_rest = first + len(items) == len(times)
        return Slice(items, self._newest if is_rest else items[-1].entry.ts)

    def events_of(self, item: LogItem) -> Sequence[ChangeEvent] | None:
        """Return the canonical events of an item, computed once."""
        assert isinstance(item, EntryItem)  # the head has no others
        if item.events is None and not item.is_unsound:
            self.transformed += 1
            batch = self._part.events(item.entry)
            if batch.failure is None:
                self._weigh(item, batch.items)
            else:
                item.is_unsound = True
        return item.events

    def run_of(self, item: LogItem) -> VerbatimInserts | None:
        """Return the inserts of an item as a run."""
        assert isinstance(item, EntryItem)  # as in `events_of`
        if item.events is not None or not holds_operations(item.entry):
            return None
        before = item.weight
        run = item.run(self._part)
        self._add_weight(item, item.weight - before)
        return run

    def _weigh(self, item: EntryItem, events: list[ChangeEvent]) -> None:
        """Store an item's events, and count the memory they need."""
        before = item.weight
        item.events = events
        self._add_weight(item, item.weight - before)

    def _add_weight(self, item: EntryItem, more: int) -> None:
        if item.entry.ts <= self._begins_after:
            self._older.add_weight(more)
            return
        self._weight += more
        if self._weight > self._max_weight:
            self._trim()

    def _read_older(self, after: int) -> Slice:
        known = self._older.find(after)
        if known is not None:
            return known
        end = min(self._begins_after, self._older.next_start(after) or self._begins_after)
        found = self._load(after, end)
        # A store that is far away lets others run meanwhile, and one of them may have stored it.
        if self._older.find(after) is None:
            self._older.add(after, found)
        return found

    def _load(self, after: int, end: int) -> Slice:
        """Read a piece of the oplog: what is after a cluster time, up to another or until it is enough."""
        items: list[EntryItem] = []
        size = 0
        scanned = end
        with self._store.snapshot() as snapshot:
            # The snapshot decides: the store may not have been notified yet of what the writer removed.
            if snapshot.truncated_through() > after:
                raise place_lost(after)
            for ts, raw in snapshot.entries(after):
                if ts > end:
                    break
                if len(items) >= SLICE_ITEMS or size >= SLICE_BYTES:
                    scanned = items[-1].entry.ts
                    break
                items.append(EntryItem(self._part.read(raw), self.shard))
                size += len(raw)
        return Slice(items, scanned)

    def restart(self, after: int) -> None:
        """Forget the entries in memory, because those up to a cluster time will not be delivered."""
        self._items, self._times, self._sizes = [], [], []
        self._weight = 0
        self._begins_after = after
        self._newest = promise(after)
        self.waiters.wake_all()

    def _accept(self, commit: OplogCommit) -> None:
        """Add the entries of a commit and wake the streams that see them."""
        for ts, raw in commit.entries:
            item = EntryItem(self._part.read(raw), self.shard)
            self._items.append(item)
            self._times.append(ts)
            self._size += len(raw)
            self._sizes.append(self._size)
            self._weight += item.weight
            self._newest = promise(ts)
            if self.waiters:
                self.waiters.offer(item.entry, self.heads_in(item))
        if self._weight > self._max_weight:
            self._trim()

    def in_memory(self, after: int, through: int) -> Sequence[EntryItem] | None:
        """Return the items of an interval; None if memory no longer has all of them."""
        if after < self._begins_after:
            return None
        times = self._times
        return self._items[bisect_right(times, after) : bisect_right(times, through)]

    def events_or_entry(self, item: EntryItem) -> list[ChangeEvent]:
        """Return the events of an item as a history holds them: a deferred entry in place of its events."""
        return events_or_deferred(self._part, item.entry, self.shard)

    def heads_in(self, item: EntryItem) -> Collection[Head] | None:
        """Return the heads of the operations of a transaction or batch; None for other entries."""
        if not holds_operations(item.entry):
            return None
        run = self.run_of(item)
        if run is not None:
            return (run.head,)
        events = self.events_of(item)
        return None if events is None else {event.entry.head for event in events}

    def _trim(self) -> None:
        """Drop the older half; streams that still need it read the disk."""
        keep = len(self._items) // 2 or 1
        gone = self._items[:-keep]
        if gone:
            self._begins_after = gone[-1].entry.ts
            self._weight -= sum(item.weight for item in gone)
            del self._items[:-keep], self._times[:-keep], self._sizes[:-keep]


def has_entries_from(store: OplogStore, start: int) -> bool:
    """Return whether the oplog of a store has everything from a cluster time on."""
    with store.snapshot() as snapshot:
        oldest = snapshot.oldest_entry()
    return oldest is None or goes_back_to(oldest[1], start)


def place_lost(after: int) -> CommandError:
    """Return the error of a stream whose next entries were removed while it was open."""
    return CommandError(
        ErrorCode.CappedPositionLost,
        f"the oplog was truncated past {in_words(after)} before the stream had read it",
    )
