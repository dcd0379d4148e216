"""The oplog of the source as a store that the event log reads (`log/ports.py`).

The tail delivers new entries; everything else is asked of the source.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from tailrace.events.cluster_time import END_OF_TIME
from tailrace.events.oplog_entry import is_first_entry, parse_entry
from tailrace.events.promise import Promise, promise
from tailrace.events.stages.lookups import DocumentQuestion, Lookups, Rebuild
from tailrace.log.head import SLICE_BYTES
from tailrace.log.ports import CommitListener
from tailrace.mongod.front.batched_questions import BatchedQuestions
from tailrace.mongod.front.questions import Questions
from tailrace.mongod.front.source_shard import SourceShard
from tailrace.mongod.front.time_waiters import TimeWaiters
from tailrace.mongod.server.net.turns import paced
from tailrace.sources.archives.entries import entry_time
from tailrace.sources.conditions import EVERYTHING

_AT_ONCE: Final = 256
"""Entries that are delivered before others have their turn."""


@dataclass(frozen=True, slots=True)
class TailedEntries:
    """Entries that became visible at once."""

    entries: Sequence[tuple[int, bytes]]


class SourceStore:
    """See `OplogStore`. The source removes entries whether a history holds them or not."""

    held_through: int | None = None
    oplog_size = 1
    oplog_bytes = 0

    def __init__(
        self,
        source: SourceShard,
        questions: Questions,
        limit: int = END_OF_TIME,
        rebuild: Rebuild | None = None,
    ) -> None:
        """``limit`` is the largest time that is promised at first; see `limit`.

        ``rebuild`` finds pre-images before the source is asked.
        """
        self.source = source
        self.questions = questions
        self.on_commit: list[CommitListener] = []
        self.on_settled: list[Callable[[], None]] = []
        self.last_committed = source.newest.time
        self.truncated_through = 0
        pre_images = BatchedQuestions(questions, self._newest, source.pre_images)
        documents = BatchedQuestions(questions, self._newest, source.documents, collection_of)
        self.lookups = Lookups(
            self._entry, pre_images.find, documents.find, pre_images.expecting, documents.expecting, rebuild
        )
        self.remembered: Callable[[int], bytes | None] = lambda _: None
        """Returns the entry of a cluster time if it is in memory."""
        self.limit = limit
        """The cluster time up to which promises are made: of a shard, that of the list of shards."""
        self._idle_through = 0
        self._idle_after: tuple[int, int] | None = None
        self.is_away = False
        """Whether the source does not answer at present."""
        self._oldest: bytes | None = None
        self._waiters = TimeWaiters()

    @property
    def set_id(self) -> str:
        return self.source.identity

    @property
    def promised(self) -> Promise:
        """The time of the newest entry, or a later one up to which it is known that there is none."""
        return promise(min(max(self.last_committed, self._idle_through), self.limit))

    def promise_idle(self, through: int, newest: int) -> None:
        """Promise that the entries up to ``newest`` are all up to ``through``, once they were delivered."""
        self._idle_after = (through, newest)
        self.settle()

    def settle(self) -> None:
        """Say that `promised` may have moved."""
        if self._idle_after is not None and self._idle_after[1] <= self.last_committed:
            self._idle_through = max(self._idle_through, self._idle_after[0])
            self._idle_after = None
        for listener in tuple(self.on_settled):
            listener()

    def hold_transaction(self, began: int, committed: int) -> None:
        """Do nothing: the source decides what it removes."""

    # -- new entries --------------------------------------------------------------------------------------

    async def accept(self, entries: Sequence[bytes]) -> None:
        """Deliver the entries that follow the last ones."""
        for first in range(0, len(entries), _AT_ONCE):
            await paced(self._commit, entries[first : first + _AT_ONCE])

    async def _commit(self, piece: Sequence[bytes]) -> None:
        timed = [(entry_time(raw), raw) for raw in piece]
        # First, because what listeners look up has to be as new as these entries.
        self.last_committed = timed[-1][0]
        for listener in tuple(self.on_commit):
            listener(TailedEntries(timed))
        self._waiters.wake(self.last_committed)
        self.settle()

    def skip_to(self, time: int) -> None:
        """Continue after a cluster time, because the source no longer has all entries before."""
        self.last_committed = time
        self._waiters.wake(self.last_committed)
        self.settle()

    async def reach(self, time: int) -> None:
        """Wait until everything up to a cluster time was delivered."""
        if time > self.last_committed:
            await self._waiters.wait(time)

    # -- older entries, in another thread than the event loop's ----------------------------------------------

    @contextmanager
    def snapshot(self) -> Iterator["SourceState"]:
        yield SourceState(self, self.last_committed)

    def refresh_oldest(self) -> None:
        """Ask the source how far back its oplog goes."""
        first = self.source.oplog.first()
        self._oldest = None if first is None else first.raw
        self.truncated_through = 0 if first is None or is_first_entry(first) else first.ts - 1

    def oldest_entry(self) -> tuple[int, bytes] | None:
        """The source's oldest entry when it was asked last."""
        return None if self._oldest is None else (parse_entry(self._oldest).ts, self._oldest)

    # -- look-ups -----------------------------------------------------------------------------------------

    def _entry(self, ts: int, term: int) -> bytes | None:
        raw = self.remembered(ts)
        if raw is not None:
            return raw if parse_entry(raw).term == term else None
        return self.questions.ask(self.source.entry, self.last_committed, ts, term)

    def _newest(self) -> int:
        return self.last_committed


def collection_of(question: DocumentQuestion) -> Hashable:
    """What documents have in common that are asked for together: namespace and UUID."""
    return question[0], question[2]


class SourceState:
    """The entries up to a majority committed time, which never change; see `OplogState`."""

    def __init__(self, store: SourceStore, through: int) -> None:
        self._store = store
        self._through = through

    def entry(self, ts: int) -> bytes | None:
        for entries in self._store.source.oplog.entries(ts - 1, ts, EVERYTHING):
            return entries[0]
        return None

    def entries(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        """See `OplogState`; raises ChangeStreamHistoryLost (286) if the source has removed some of them."""
        for entries in self._store.source.oplog.entries(after, self._through, EVERYTHING, SLICE_BYTES):
            for raw in entries:
                yield entry_time(raw), raw

    def oldest_entry(self) -> tuple[int, bytes] | None:
        return self._store.oldest_entry()

    def truncated_through(self) -> int:
        """0: `entries` finds out what the source has removed until then."""
        return 0
