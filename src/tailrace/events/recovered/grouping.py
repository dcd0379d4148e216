"""Events in the order of the recorded stream, to one entry for each cluster time."""

from collections.abc import Iterable

from tailrace.events.cluster_time import END_OF_TIME
from tailrace.events.recovered.entries import EntryRecovery, UnrecoverableEventError
from tailrace.events.recovered.shown_event import ShownEvent, pieces_left
from tailrace.events.stream_release import StreamRelease


class EventGroups:
    """The events of a transaction can come in several batches; those of the last time wait for the next.

    Entries before an event without one are returned first; then `add` and `rest` raise the error of it.
    """

    def __init__(self, recovery: EntryRecovery, after: int, through: int = END_OF_TIME) -> None:
        """Events outside of the interval are left out."""
        self._recovery = recovery
        self._after = after
        self._through = through
        self.is_past = False
        """Whether there was an event after the interval, so nothing more belongs to it."""
        self._failure: UnrecoverableEventError | None = None
        self._pieces: list[bytes] = []
        """The first fragments of a split event."""
        self._events: list[ShownEvent] = []
        """The events of the last time."""

    @property
    def is_open(self) -> bool:
        """Whether events wait for others of their time."""
        return bool(self._events or self._pieces or self._failure)

    def is_rest_alone(self, release: StreamRelease) -> bool:
        """Whether what waits is an entry of its own, to which nothing can follow."""
        if self._pieces or len(self._events) != 1:
            return False
        return self._events[0].lsid is None and not release.shows_applied_operations

    def add(self, documents: Iterable[bytes]) -> list[bytes]:
        """Add a batch; return the entries that are complete."""
        if self._failure is not None:
            raise self._failure
        entries: list[bytes] = []
        try:
            for raw in documents:
                self._pieces.append(raw)
                if pieces_left(raw):
                    continue
                event = ShownEvent(self._pieces)
                self._pieces = []
                if event.time <= self._after:
                    continue
                if event.time > self._through:
                    self.is_past = True
                    break
                if self._events and self._events[0].time != event.time:
                    entries += self.rest()
                self._events.append(event)
        except UnrecoverableEventError as error:
            if not entries:
                raise
            self._failure = error
        return entries

    def rest(self) -> list[bytes]:
        """Return the entry of what waits: there is nothing more of its time."""
        if self._failure is not None:
            raise self._failure
        events, self._events = self._events, []
        return [self._recovery.entry(events)] if events else []
