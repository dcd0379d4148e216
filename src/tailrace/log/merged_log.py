"""The event log of a sharded cluster: the heads of all shards as one log, in the order of cluster time.

Every shard promises a cluster time up to which the log has got everything (`OplogStore.promised`). The log
is complete up to the smallest promise, and streams read up to there: nothing that comes later belongs before
what they have shown. An idle shard promises what the common clock shows, so it delays nobody; one that is
writing delays the others until its commit is delivered or has failed. Then the log advances and wakes the
streams that see something of what it has passed.

A shard takes part from the time it joins until it leaves. Promises are read and streams are woken in the
event loop's thread only.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from typing import Final, cast

from tailrace.events.change_event import ChangeEvent
from tailrace.events.cluster_time import END_OF_TIME
from tailrace.events.merge import merge_by_time, settle_events
from tailrace.events.promise import Promise, common_promise, promise
from tailrace.events.stages.check_resumability import history_lost
from tailrace.events.stages.lookups import DocumentLookup, Lookups
from tailrace.log.event_log import EntryItem, EventLog, LogItem, Slice
from tailrace.log.head import HeadLog, place_lost
from tailrace.log.ports import Clock, OplogStore
from tailrace.log.verbatim_inserts import VerbatimInserts

_time_of: Final = attrgetter("ts")


class TiedItem(LogItem):
    """Entries of several shards that have the same cluster time; their events are ordered by token.

    With one clock there are none; data that was written under several clocks may have them.
    """

    __slots__ = ("items",)

    def __init__(self, items: Sequence[EntryItem]) -> None:
        super().__init__(items[0].ts)
        self.items = items

    @property
    def weight(self) -> int:
        return sum(item.weight for item in self.items)


@dataclass(slots=True)
class _Stay:
    """The time for which a shard is part of the cluster."""

    head: HeadLog
    store: OplogStore
    joined: int
    """Entries after this time count ..."""
    left: int = END_OF_TIME
    """... up to this one."""

    @property
    def end(self) -> int:
        """The cluster time after which it has nothing so far."""
        return min(self.head.newest, self.left)

    @property
    def lost_through(self) -> int:
        """The cluster time up to which some of what counts is gone."""
        lost = min(self.head.lost_through, self.left)
        return lost if lost > self.joined else 0


class MergedLog(EventLog):
    """One log over the heads of the shards."""

    def __init__(self, clock: Clock, document: DocumentLookup) -> None:
        """``document`` finds a document on any shard."""
        self.lookups: dict[str, Lookups] = defaultdict(lambda: Lookups(document=document))
        super().__init__(self.lookups)
        self._clock = clock
        self._document = document
        self._heads: dict[str, HeadLog] = {}
        self._stays: list[_Stay] = []
        self._newest = promise(0)
        self._left_through = 0
        self._gone_through = 0

    # -- the shards -----------------------------------------------------------------------------------------

    @property
    def shards(self) -> set[str]:
        """The names of the shards that are part of the cluster."""
        return {stay.head.shard for stay in self._stays if stay.left == END_OF_TIME}

    @property
    def stores(self) -> list[OplogStore]:
        """The stores of all shards that can be read, including those that have left."""
        return list({id(stay.store): stay.store for stay in self._stays}.values())

    def add(self, head: HeadLog, store: OplogStore, joined: int = 0, *, joins_now: bool = False) -> None:
        """Add a shard; what it logged up to ``joined``, or before it joins now, is not part of the log."""
        self._add_stay(_Stay(head, store, max(store.promised, self._newest) if joins_now else joined))
        store.on_settled.append(self._advance)
        self._advance()

    def add_former(self, head: HeadLog, store: OplogStore, left: int) -> None:
        """Add what is left of a shard that left earlier; it may have come back since."""
        self._add_stay(_Stay(head, store, 0, left))
        self._left_through = max(self._left_through, left)

    def lose(self, left: int) -> None:
        """Record that a shard left earlier and that nothing is left of it."""
        self._left_through = max(self._left_through, left)
        self._gone_through = max(self._gone_through, left)

    def _add_stay(self, stay: _Stay) -> None:
        head = stay.head
        name = head.shard
        found = head.lookups[name]
        self._heads[name] = head
        self.lookups[name] = replace(found, document=self._document)
        self._stays.append(stay)

    def remove(self, name: str) -> None:
        """Remove a shard: what it has promised so far counts, and nothing that it may still write.

        Its store has to stay open until all streams have read it to the end.
        """
        stay = next(stay for stay in self._stays if stay.head.shard == name and stay.left == END_OF_TIME)
        stay.left = self._left_through = stay.store.promised
        stay.store.on_settled.remove(self._advance)
        self._advance()

    def _advance(self) -> None:
        """Move to the smallest promise, and wake the streams that see something of what is passed."""
        before = self._newest
        newest = common_promise(stay.store.promised for stay in self._stays if stay.left == END_OF_TIME)
        if newest <= before:
            return
        self._newest = newest
        if self.waiters:
            for stay in self._stays:
                self._offer(stay.head, max(before, stay.joined), min(newest, stay.left))

    def _offer(self, head: HeadLog, after: int, through: int) -> None:
        if after >= through:
            return
        items = head.in_memory(after, through)
        if items is None:
            self.waiters.wake_all()
            return
        for item in items:
            self.waiters.offer(item.entry, head.heads_in(item))

    # -- what streams ask -----------------------------------------------------------------------------------

    @property
    def newest(self) -> Promise:
        """The smallest promise of all shards."""
        return self._newest

    @property
    def now(self) -> int:
        """At or after everything that a client can know of, and before everything written from now on."""
        return max(self._clock.now, self._newest)

    @property
    def lost_through(self) -> int:
        """The cluster time up to which a shard has lost entries, or is itself gone."""
        return max(self._gone_through, self.truncated_through)

    @property
    def truncated_through(self) -> int:
        """The cluster time of the newest entry that a shard has removed."""
        return max([stay.lost_through for stay in self._stays], default=0)

    def check_start(self, start: int) -> None:
        """Raise ChangeStreamHistoryLost if a shard lacks something from ``start`` on, or left since."""
        if start <= self._left_through:
            raise history_lost(start)
        for stay in self._stays:
            if stay.left == END_OF_TIME:
                stay.head.check_start(max(start, stay.joined + 1))

    def check_place(self, after: int) -> None:
        """Raise CappedPositionLost if a shard has lost something after a cluster time."""
        if self.lost_through > after:
            raise place_lost(after)

    def read(self, after: int) -> Slice:
        """Return the next items of all shards, merged."""
        through: int = self._newest
        if after >= through:
            return Slice((), after)
        # Only those that have something: what a slice cannot take of a shard is read again.
        ahead = [stay for stay in self._stays if stay.joined < through and stay.end > after]
        pieces: list[tuple[_Stay, Sequence[LogItem]]] = []
        for stay in ahead:
            found = stay.head.read(max(after, stay.joined), len(ahead))
            # One that was read to its end keeps its promise for the rest.
            if found.scanned < min(stay.end, through):
                through = found.scanned
            pieces.append((stay, found.items))
        parts = [_cut_after(items, min(through, stay.left)) for stay, items in pieces]
        return Slice(merge_by_time([part for part in parts if part], _time_of, _tied), through)

    def run_of(self, item: LogItem) -> VerbatimInserts | None:
        """Return the inserts of an item as a run."""
        if not isinstance(item, EntryItem) or item.entry.head.op != "c":
            return None  # checked first, as most entries are one operation
        return self._heads[item.shard].run_of(item)

    def events_of(self, item: LogItem) -> Sequence[ChangeEvent] | None:
        """Return the canonical events of an item, computed once by the head of its shard."""
        if isinstance(item, EntryItem):
            return self._heads[item.shard].events_of(item)
        assert isinstance(item, TiedItem)  # there are no others
        events = chain.from_iterable(self._heads[tied.shard].events_or_entry(tied) for tied in item.items)
        return settle_events(list(events))


def _cut_after(items: Sequence[LogItem], through: int) -> Sequence[LogItem]:
    if not items or items[-1].ts <= through:
        return items
    return items[: bisect_right(items, through, key=_time_of)]


def _tied(items: list[LogItem]) -> list[LogItem]:
    return [TiedItem(cast("list[EntryItem]", items))]  # heads have no other items
