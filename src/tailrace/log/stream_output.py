"""The output of a stream: finished rows in order, then its error or its end; and its position."""

from collections import deque
from functools import lru_cache
from typing import Final

from tailrace.errors import CommandError
from tailrace.events.change_event import ChangeEvent
from tailrace.events.event_token import resume_token
from tailrace.events.resume_token import ResumeToken
from tailrace.events.stages.parts import ViewPart
from tailrace.events.stages.plan import Plan
from tailrace.events.stages.stage import Batch
from tailrace.log.shared_output import AnyRow

UNLIMITED: Final = 1 << 62


class StreamOutput:
    """Runs the view part and stores its rows until they are taken."""

    def __init__(self, plan: Plan, view: ViewPart, begin: int) -> None:
        """``begin`` is the cluster time from which on a stream without a start point shows events."""
        self._view = view
        self._rows: deque[AnyRow] = deque()
        self.held_bytes = 0
        """The size of the rows that wait to be taken."""
        self._failure: CommandError | None = None
        self._closed_by: ChangeEvent | None = None
        self._is_cut = False
        token = plan.start_token or ResumeToken.high_water_mark(begin, plan.token_version)
        self._position = token.to_bson()
        self._position_time = token.cluster_time

    @property
    def is_ended(self) -> bool:
        """Whether an error or an invalidation ends the output."""
        return self._failure is not None or self._closed_by is not None

    @property
    def is_done(self) -> bool:
        """Whether the stream was invalidated and everything was taken, by a caller who had room for more."""
        return self._closed_by is not None and not self._rows and not self._is_cut

    @property
    def is_failing(self) -> bool:
        """Whether an error comes next."""
        return self._failure is not None and not self._rows

    @property
    def has_resumed(self) -> bool:
        """Whether the event that the client's token names was met; True if the token names none."""
        return self._view.resume.found or not self._view.resume.is_event

    def __bool__(self) -> bool:
        """Whether rows wait to be taken."""
        return bool(self._rows)

    @property
    def has_news(self) -> bool:
        """Whether there are rows, an error or the end to be taken, or that there is nothing more."""
        return bool(self._rows) or self._failure is not None or self._closed_by is not None or self._is_cut

    def view(self, events: Batch[ChangeEvent]) -> Batch[AnyRow]:
        """Return what the view part makes of events; to be added next."""
        rows = self._view(events)
        return Batch([*rows.items], rows.failure, rows.failed_at, rows.closed_by)

    def add(self, rows: Batch[AnyRow]) -> None:
        """Add rows, and the error or the end after them."""
        self._rows += rows.items
        self.held_bytes += sum([len(row.raw) for row in rows.items])
        self._failure = rows.failure
        self._closed_by = rows.closed_by

    def fail(self, error: CommandError) -> None:
        """End the stream with an error after what it has shown so far."""
        self._failure = error

    def take(
        self, count: int = UNLIMITED, size: int = UNLIMITED, *, overhead: int = 0, at_least: int = 1
    ) -> list[AnyRow]:
        """Return the next rows, at most ``count`` and ``size`` bytes; ``at_least`` of them at any size.

        ``overhead`` is what a row takes besides its own bytes. Raises the stream's error after the rows
        before it were taken.
        """
        rows = self._rows
        taken: list[AnyRow] = []
        if len(rows) <= count and self.held_bytes + len(rows) * overhead <= size:
            taken += rows
            rows.clear()
            self.held_bytes = 0
        while rows and len(taken) < count:
            row_size = len(rows[0].raw)
            size -= row_size + overhead
            if size < 0 and len(taken) >= at_least:
                break
            taken.append(rows.popleft())
            self.held_bytes -= row_size
        self._is_cut = len(taken) == count
        if taken:
            last = taken[-1]
            self._position = last.token_document
            self._position_time = last.cluster_time
        elif self._failure is not None and not rows:
            raise self._failure
        return taken

    def position(self, scanned: int) -> bytes:
        """Return the position after what was taken, as the token document clients get.

        That is the last event's token, or a high-water mark if the log was scanned past it and nothing was
        found. A caller who got as many rows as were asked for does not know yet that there are no more.
        """
        if self._rows or self._is_cut:
            return self._position
        resume = self._view.resume
        if self._closed_by is not None:
            return resume_token(self._closed_by, resume.version_of(self._closed_by)).to_bson()
        if scanned > self._position_time:
            return _high_water_mark(scanned, resume.stream_version)
        return self._position


@lru_cache(maxsize=64)
def _high_water_mark(time: int, version: int) -> bytes:
    """The position of a stream that has read everything up to a time; streams that wait share it."""
    return ResumeToken.high_water_mark(time, version).to_bson()
