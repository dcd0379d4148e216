"""The event log: one ordered sequence of canonical events, addressed by cluster time.

A stream that reads it cannot tell where an answer comes from: memory, the oplog on disk, a history that goes
further back, or an archive. What is read are *items*. One from the oplog is an entry with the canonical
events that happened in it, computed when the first stream asks for them, and once for all streams. One from
the history (`recorded.py`) has its events already.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from tailrace.events.change_event import ChangeEvent
from tailrace.events.oplog_entry import OplogEntry
from tailrace.events.promise import Promise
from tailrace.events.recovered.served import check_recorded
from tailrace.events.scope import check_kept
from tailrace.events.stages.lookups import Lookups
from tailrace.events.stages.oplog_match import EntryFilter
from tailrace.events.stages.parts import DeploymentPart
from tailrace.events.stages.plan import Plan
from tailrace.events.stages.scope_match import ScopeMatch
from tailrace.events.stages.stage import VerbatimRow
from tailrace.log.shared_output import SharedOutput
from tailrace.log.verbatim_inserts import VerbatimInserts
from tailrace.log.waiting import Waiter, Waiters
from tailrace.namespaces import EVERYTHING_KEPT, KeptPeriods

_EVENT_WEIGHT: Final = 1500
_RUN_EVENT_WEIGHT: Final = 700


class LogItem(ABC):
    """A piece of the log that ends with the cluster time `ts`, never inside of one."""

    __slots__ = ("ts",)

    def __init__(self, ts: int) -> None:
        self.ts = ts

    @property
    @abstractmethod
    def weight(self) -> int:
        """The bytes of memory it takes with its events, about."""


class VerbatimRun(Protocol):
    """Events that many streams show verbatim, without an object for each."""

    def seen_by(
        self, scope: ScopeMatch, *, expanded: bool, only_inserts: bool
    ) -> Sequence[VerbatimRow] | None:
        """Return the rows that a stream shows of them; None if it has to read them one by one.

        With ``only_inserts``, the stream does not show other changes verbatim: it adds images, or shows the
        raw update.
        """


class EntryItem(LogItem):
    """One entry and its events; `events` is None until a stream asked, or if they cannot be computed."""

    __slots__ = ("_run", "entry", "events", "is_unsound", "shard")

    def __init__(self, entry: OplogEntry, shard: str = "") -> None:
        super().__init__(entry.ts)
        self.entry = entry
        self.shard = shard
        """The shard whose oplog has it; "" on a replica set."""
        self.events: Sequence[ChangeEvent] | None = None
        self.is_unsound = False
        """Whether its events cannot be computed: a stream that sees the entry fails with the reason."""
        self._run: VerbatimInserts | bool = False

    def run(self, part: DeploymentPart) -> VerbatimInserts | None:
        """Return its inserts as a run, if it is a batch of plain inserts into one collection."""
        if self._run is False:
            found = part.inserts(self.entry)
            self._run = True if found is None else VerbatimInserts(self.entry, *found)
        return self._run if isinstance(self._run, VerbatimInserts) else None

    @property
    def weight(self) -> int:
        weight = len(self.entry.raw) + (_EVENT_WEIGHT * len(self.events) if self.events else 0)
        if isinstance(self._run, VerbatimInserts):
            weight += 2 * len(self.entry.raw) + _RUN_EVENT_WEIGHT * len(self._run)
        return weight


class Slice(NamedTuple):
    """Some items in order, and how far the log was read to find them."""

    items: Sequence[LogItem]
    scanned: int
    """The cluster time up to which there is nothing else; the reader continues after it."""


class EventLog(ABC):
    """What streams read."""

    is_shared = True
    """Whether several streams read it, so that what one computes is stored for the others."""

    def __init__(self, lookups: Mapping[str, Lookups]) -> None:
        self.waiters = Waiters()
        """The streams that wait for new items."""
        self.shared_output = SharedOutput()
        self.lookups = lookups
        """What the view parts of streams look up, by shard; that of a replica set is called ""."""
        self.served = EVERYTHING_KEPT
        """The namespaces whose streams are served, by the options of a server."""
        self.is_recorded = False
        """Whether its entries were recovered from events, which do not have all that some streams show."""

    @property
    @abstractmethod
    def newest(self) -> Promise:
        """The log's promise: the cluster time up to which it is complete."""

    @property
    def now(self) -> int:
        """The cluster time of the newest change that a client can know of."""
        return self.newest

    @property
    def begin(self) -> int:
        """The cluster time from which on a stream without a start point shows events."""
        # One tick after the newest change, so that a resume from the first position does not show it either.
        return self.now + 1

    def has_more(self, after: int) -> bool:
        """Return whether there may be something after a cluster time."""
        return after < self.newest

    @property
    def kept(self) -> KeptPeriods:
        """The namespaces whose events it has, and since when."""
        return KeptPeriods()

    def check_plan(self, plan: Plan) -> None:
        """Raise 115 or 286 unless the log has all that a stream could show, from its start on."""
        if self.is_recorded:
            check_recorded(plan)
        check_kept(plan.scope, KeptPeriods(((0, self.served),)), plan.start)
        check_kept(plan.scope, self.kept, plan.start)

    @abstractmethod
    def check_start(self, start: int) -> None:
        """Raise ChangeStreamHistoryLost (286) if the log no longer holds everything from ``start`` on."""

    @abstractmethod
    def check_place(self, after: int) -> None:
        """Raise CappedPositionLost (136) if some of the items after a cluster time are gone."""

    def is_loaded(self, after: int) -> bool:  # noqa: ARG002 - a log in memory has everything
        """Return whether `read` answers at once; if not, await `fetch` first where nobody may be delayed."""
        return True

    async def fetch(self, after: int, visible: EntryFilter) -> int:  # noqa: ARG002 - a log in memory has it
        """Load what is after a cluster time into memory, without blocking the event loop.

        Returns from where on to read: nothing is ``visible`` between. If it is not where the caller was,
        there may be more to fetch.
        """
        return after

    @abstractmethod
    def read(self, after: int) -> Slice:
        """Return the next items after a cluster time that was checked, a bounded number of them."""

    @abstractmethod
    def run_of(self, item: LogItem) -> VerbatimRun | None:
        """Return the events of an item as a run, if they can be shown without an object for each."""

    @abstractmethod
    def events_of(self, item: LogItem) -> Sequence[ChangeEvent] | None:
        """Return the canonical events of an item; None if they cannot be computed."""

    @property
    def lost_through(self) -> int:
        """The cluster time up to which some of its items may be gone."""
        return 0

    async def wait(self, waiter: Waiter, seconds: float) -> bool:
        """Wait until there is something a stream can see; return whether it came in time."""
        return await self.waiters.wait(waiter, seconds)
