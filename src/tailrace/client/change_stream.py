"""A driver's change stream by the specification, without any I/O.

Whoever drives it asks for `next_command`, sends that and hands in what came of it, by `receive` or `fail`.
Events come out of `take`; None is "nothing yet". A failure gets a verdict: to resume, which means to send
the next command, now an aggregate, to a server selected anew; or to raise.

::

    OPENING ── aggregate answered ──▶ OPEN ── cursor closed by the server, batch taken ──▶ ENDED
       │                             │  ▲
       │        getMore failed       ▼  │ aggregate answered
       │        and is resumable   INTERRUPTED ── the aggregate was refused ──▶ ENDED
       └── aggregate failed ──▶ ENDED

The documents are whatever the replies hold; only `_id` is looked at. `docs/driver.md` maps every rule of the
specification to its place here.
"""

from collections import deque
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, Final

from tailrace.client import commands
from tailrace.client.commands import Command, Cursor
from tailrace.client.errors import MissingResumeTokenError
from tailrace.client.fragments import FragmentCollector
from tailrace.client.options import Document, Pipeline, StreamOptions, Target
from tailrace.client.resumable import CURSOR_NOT_FOUND, CommandFailure, is_resumable

OPERATION_TIME_SINCE: Final = 7
"""The wire version of MongoDB 4.0, from which on a stream can start at a time."""


class Phase(Enum):
    """Where a stream stands."""

    OPENING = auto()
    OPEN = auto()
    INTERRUPTED = auto()
    """There is no cursor; the next command opens one behind the position."""
    ENDED = auto()


class Verdict(Enum):
    """What a failure means for the application."""

    RESUME = auto()
    RAISE = auto()


class ChangeStreamMachine:
    """One change stream: its options, its position, its cursor, and the batch that is being handed out."""

    def __init__(
        self, target: Target, pipeline: Pipeline, options: StreamOptions, *, merge_fragments: bool = False
    ) -> None:
        self.options = options
        self.phase = Phase.OPENING
        self.cursor: Cursor | None = None
        """The cursor to read from, and to kill when the stream ends."""
        self._target = target
        self._pipeline = list(pipeline)
        start = options.start
        self._token: Document | None = start.get("startAfter") or start.get("resumeAfter")
        self._operation_time: Any = start.get("startAtOperationTime")
        self._starts_after = "startAfter" in start
        self._has_returned = False
        self._batch: deque[Document] = deque()
        self._post_batch_token: Document | None = None
        self._fragments = FragmentCollector() if merge_fragments else None

    # -- what the application sees --------------------------------------------------------------------

    @property
    def resume_token(self) -> Document | None:
        """The token that a resume would use now."""
        return self._token

    @property
    def is_alive(self) -> bool:
        """Whether more events may come."""
        return self.phase is not Phase.ENDED

    @property
    def has_events(self) -> bool:
        """Whether `take` need not wait for another reply."""
        return bool(self._batch)

    def take(self) -> Document | None:
        """The next event that is here already; the position is behind it from now on."""
        batch = self._batch
        while batch:
            event = batch.popleft()
            # A reply is decoded to documents, but nothing keeps a pipeline from removing their `_id`.
            token = event.get("_id")
            if token is None:
                self.end()
                raise MissingResumeTokenError
            if self._fragments is not None:
                whole = self._fragments.add(event)
                if whole is None:
                    continue
                event = whole
            self._has_returned = True
            if batch or self._post_batch_token is None:
                self._token = token
            else:
                self._token = self._post_batch_token
            if not batch:
                self._end_if_exhausted()
            return event
        self._end_if_exhausted()
        return None

    def end(self) -> None:
        """No more events; a cursor that is still there is to be killed."""
        self.phase = Phase.ENDED
        self._batch.clear()

    # -- commands -------------------------------------------------------------------------------------

    @property
    def needs_cursor(self) -> bool:
        """Whether the next command is an aggregate, for a server selected by the read preference.

        Else it is a getMore, for the server that holds the cursor.
        """
        return self.phase is not Phase.OPEN

    def next_command(self, wire_version: int) -> Command:
        """What to send now, on a connection of this wire version."""
        if self.phase is Phase.OPEN and self.cursor is not None:
            return commands.get_more(self.cursor, self.options, wire_version)
        start = self.options.start if self.phase is Phase.OPENING else self._resume_point(wire_version)
        return commands.aggregate(self._target, start, self._pipeline, self.options)

    def _resume_point(self, wire_version: int) -> Document:
        """The start options of an aggregate that goes on at the position: the "Resume Process"."""
        if self._token is not None:
            starts_after = self._starts_after and not self._has_returned
            return {"startAfter" if starts_after else "resumeAfter": self._token}
        if self._operation_time is not None and wire_version >= OPERATION_TIME_SINCE:
            return {"startAtOperationTime": self._operation_time}
        return self.options.start

    # -- replies --------------------------------------------------------------------------------------

    def receive(self, reply: Document, wire_version: int) -> None:
        """The answer to the command that `next_command` gave."""
        cursor: Mapping[str, Any] = reply["cursor"]
        is_first = self.needs_cursor
        events = cursor["firstBatch" if is_first else "nextBatch"]
        self._post_batch_token = cursor.get("postBatchResumeToken")
        if self.phase is Phase.OPENING:
            self._note_operation_time(reply, events, wire_version)
        self.phase = Phase.OPEN
        self.cursor = _cursor_of(cursor)
        self._batch = deque(events)
        if not events:
            if self._post_batch_token is not None and not (self._fragments and self._fragments.is_between):
                self._token = self._post_batch_token
            self._end_if_exhausted()

    def _note_operation_time(self, reply: Document, events: Any, wire_version: int) -> None:
        """A stream that knows neither token nor time can be resumed at the time it was opened."""
        if (
            not self.options.start
            and not events
            and self._post_batch_token is None
            and wire_version >= OPERATION_TIME_SINCE
        ):
            self._operation_time = reply.get("operationTime")

    def _end_if_exhausted(self) -> None:
        """The server has closed the cursor, and all that it sent is taken."""
        if self.phase is Phase.OPEN and self.cursor is None:
            self.phase = Phase.ENDED

    # -- failures -------------------------------------------------------------------------------------

    def fail(self, failure: CommandFailure) -> Verdict:
        """The command that `next_command` gave has failed."""
        if self.phase is Phase.OPENING:
            self.phase = Phase.ENDED
            return Verdict.RAISE
        if self.phase is Phase.INTERRUPTED:
            # The one attempt to resume has failed. If the server refused it, another one would be refused,
            # too; if it was not reached or out of time, whoever asks for the next event may try again.
            if failure.misuse or (failure.from_server and not failure.timed_out):
                self.phase = Phase.ENDED
            return Verdict.RAISE
        if failure.code == CURSOR_NOT_FOUND:
            self.cursor = None  # there is nothing to kill
        if is_resumable(failure):
            self.interrupt()
            return Verdict.RESUME
        if failure.timed_out:
            self.interrupt()
        else:
            self.end()
        return Verdict.RAISE

    def interrupt(self) -> None:
        """The fate of a getMore is unknown: the next command opens another cursor at the position."""
        self.phase = Phase.INTERRUPTED
        if self._fragments is not None:
            self._fragments.forget()

    def release(self) -> Command | None:
        """The command that frees the cursor, if there is one, and leaves the stream without it.

        To be sent to the server that holds the cursor, and to no other; nobody cares how it ends.
        """
        cursor, self.cursor = self.cursor, None
        return None if cursor is None else commands.kill_cursors(cursor)


def _cursor_of(reply: Mapping[str, Any]) -> Cursor | None:
    """The cursor that a reply names; id 0 is none."""
    if not reply["id"]:
        return None
    database, _, collection = reply["ns"].partition(".")
    return Cursor(reply["id"], database, collection)
