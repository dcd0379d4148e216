"""The event log: one ordered sequence of canonical events, addressed by cluster time.

Streams read it and cannot tell where an answer comes from: memory, the oplog on disk, or a history that goes
further back. What is read is an *item*. One from the oplog is an entry together with the canonical events
that happened in it, worked out when the first stream wants them, and once for all streams. One from the
history (`recorded.py`) has its events already.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from tailrace.events.change_event import ChangeEvent
from tailrace.events.oplog_entry import OplogEntry
from tailrace.events.stages.lookups import Lookups
from tailrace.events.stages.plan import DeploymentPart
from tailrace.events.stages.scope_match import ScopeMatch
from tailrace.log.shared_output import CommonSteps
from tailrace.log.verbatim_inserts import InsertRow, InsertRun
from tailrace.log.waiting import Waiter, Waiters

_EVENT_WEIGHT: Final = 1500
_RUN_EVENT_WEIGHT: Final = 700


class LogItem(ABC):
    """A piece of the log; `ts` is the cluster time it ends with, and it never ends within one."""

    __slots__ = ("ts",)

    def __init__(self, ts: int) -> None:
        self.ts = ts

    @property
    @abstractmethod
    def weight(self) -> int:
        """About how many bytes of memory it takes, with its events."""


class Run(Protocol):
    """Events that many streams show as they are, without an object for each."""

    def seen_by(self, scope: ScopeMatch, *, expanded: bool, only_inserts: bool) -> Sequence[InsertRow] | None:
        """The rows a stream shows of them; None if it has to look at them one by one.

        With ``only_inserts`` it shows other changes in a way of its own: with images, or the raw update.
        """


class EntryItem(LogItem):
    """One entry and its events; `events` is None until somebody asked, or if they could not be worked out."""

    __slots__ = ("_run", "entry", "events", "is_unsound", "shard")

    def __init__(self, entry: OplogEntry, shard: str = "") -> None:
        super().__init__(entry.ts)
        self.entry = entry
        self.shard = shard
        """Whose oplog it stands in; "" on a replica set"""
        self.events: Sequence[ChangeEvent] | None = None
        self.is_unsound = False
        """Whether its events cannot be worked out: a stream that sees the entry fails with the reason"""
        self._run: InsertRun | bool = False

    def run(self, part: DeploymentPart) -> InsertRun | None:
        """Its inserts as a run, if it is a batch of plain inserts into one collection; worked out once."""
        if self._run is False:
            found = part.inserts(self.entry)
            self._run = True if found is None else InsertRun(self.entry, *found)
        return self._run if isinstance(self._run, InsertRun) else None

    @property
    def weight(self) -> int:
        """About how many bytes of memory it takes, with its events."""
        weight = len(self.entry.raw) + (_EVENT_WEIGHT * len(self.events) if self.events else 0)
        if isinstance(self._run, InsertRun):
            weight += 2 * len(self.entry.raw) + _RUN_EVENT_WEIGHT * len(self._run)
        return weight


class Slice(NamedTuple):
    """Some items in order, and how far the log was looked at to find them."""

    items: Sequence[LogItem]
    scanned: int
    """cluster time up to which there is nothing else; the reader goes on behind it"""


class EventLog(ABC):
    """What streams read."""

    waiters: Waiters
    """who wants to be told of new items"""
    steps: CommonSteps
    """what streams have worked out for each other"""
    lookups: Mapping[str, Lookups]
    """what the view parts of streams look up, by shard; that of a replica set is called """ ""

    @property
    @abstractmethod
    def newest(self) -> int:
        """The cluster time up to which the log is complete."""

    @property
    def now(self) -> int:
        """The cluster time behind which a stream without a start point begins."""
        return self.newest

    @abstractmethod
    def check_start(self, start: int) -> None:
        """Raise ChangeStreamHistoryLost (286) if the log no longer holds everything from ``start`` on."""

    @abstractmethod
    def check_place(self, after: int) -> None:
        """Raise CappedPositionLost (136) if some of the items behind a cluster time are gone."""

    def is_at_hand(self, after: int) -> bool:  # noqa: ARG002 - a log in memory needs not look
        """Whether `read` answers at once; if not, `fetch` comes first where nobody may be held up."""
        return True

    async def fetch(self, after: int) -> None:  # noqa: B027 - a log in memory has nothing to fetch
        """Have what is behind a cluster time at hand, without holding up the event loop."""

    @abstractmethod
    def read(self, after: int) -> Slice:
        """The next items behind a cluster time that was checked, a bounded number of them."""

    @abstractmethod
    def run_of(self, item: LogItem) -> Run | None:
        """The events of an item as a run, if they can be shown without an object for each."""

    @abstractmethod
    def events_of(self, item: LogItem) -> Sequence[ChangeEvent] | None:
        """The canonical events of an item; None if they cannot be worked out."""

    @property
    def lost_through(self) -> int:
        """The cluster time up to which some of its items may be gone."""
        return 0

    async def wait(self, waiter: Waiter, seconds: float) -> bool:
        """Wait until there is something a stream can see; whether it came in time."""
        return await self.waiters.wait(waiter, seconds)
