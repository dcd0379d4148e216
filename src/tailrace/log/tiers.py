"""History and head as one log.

What the oplog still has comes from the head, everything older from the history. Entries are removed from the
oplog only after the history holds them, so there is no gap; a reader cannot tell which one answers.
"""

from collections.abc import Sequence

from tailrace.errors import CommandError
from tailrace.events.change_event import ChangeEvent
from tailrace.events.promise import Promise
from tailrace.events.stages.oplog_match import EntryFilter
from tailrace.log.event_log import EventLog, LogItem, Slice, VerbatimRun
from tailrace.log.head import place_lost
from tailrace.log.history_log import HistoryLog
from tailrace.log.recorded import RecordedItem
from tailrace.namespaces import KeptPeriods


class Tiers(EventLog):
    """The event log of a deployment that has a history; ``head`` is the log of its oplogs."""

    def __init__(self, head: EventLog, history: HistoryLog) -> None:
        super().__init__(head.lookups)
        self.waiters = head.waiters
        self.shared_output = head.shared_output
        self.is_recorded = head.is_recorded
        self._head = head
        self._history = history

    @property
    def newest(self) -> Promise:
        """The promise of the head."""
        return self._head.newest

    @property
    def now(self) -> int:
        return self._head.now

    @property
    def kept(self) -> KeptPeriods:
        """Those of the history: a stream that waits for long is continued there."""
        return self._history.kept

    def check_start(self, start: int) -> None:
        """Raise ChangeStreamHistoryLost if neither has everything from ``start`` on."""
        if self._history.begins is None or not self._history.holds_from(start):
            self._head.check_start(start)

    def check_place(self, after: int) -> None:
        """Raise CappedPositionLost if neither has everything after a cluster time."""
        if self._is_past(after):
            self._history.check_place(after)
            if self._history.newest <= after:
                # The oplog of a source does not wait for the history.
                raise place_lost(after)

    def is_loaded(self, after: int) -> bool:
        """True, except for what only the history has."""
        return not self._is_past(after) or self._history.is_loaded(after)

    async def fetch(self, after: int, visible: EntryFilter) -> int:
        """Load a piece of the history, or skip some."""
        return await self._history.fetch(after, visible) if self._is_past(after) else after

    def read(self, after: int) -> Slice:
        """Return the next items, from the tier that has them."""
        if not self._is_past(after):
            try:
                return self._head.read(after)
            except CommandError:
                # The entries were removed just now: then the history has them.
                if self._history.newest <= after:
                    raise
        return self._history.read(after)

    def run_of(self, item: LogItem) -> VerbatimRun | None:
        return self._of(item).run_of(item)

    def events_of(self, item: LogItem) -> Sequence[ChangeEvent] | None:
        return self._of(item).events_of(item)

    def _of(self, item: LogItem) -> EventLog:
        return self._history if isinstance(item, RecordedItem) else self._head

    def _is_past(self, after: int) -> bool:
        """Whether an oplog has lost something after a cluster time."""
        return self._head.lost_through > after
