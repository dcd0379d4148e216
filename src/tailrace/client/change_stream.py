"""The state machine of a driver's change stream, without I/O.

The caller sends what `next_command` returns and reports the reply to `receive` or the error to `fail`. `take`
returns events; None means that none has arrived. The verdict about an error is either to raise it or to
resume: to send the next command, then an aggregate, to a newly selected server.

::

    OPENING ── aggregate answered ──▶ OPEN ── cursor closed by the server, batch taken ──▶ ENDED
       │                             │  ▲
       │        getMore failed       ▼  │ aggregate answered
       │        and is resumable   INTERRUPTED ── the aggregate was refused ──▶ ENDED
       └── aggregate failed ──▶ ENDED

`end` may be called while a command is under way, by another thread or task. An ended stream never resumes:
the reply or the error of that command is dropped.

Events may be of any mapping type; only their `_id` is read. `docs/driver.md` lists the rules of the
specification and where each is implemented.
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
from tailrace.client.token_order import comes_after, high_water_mark, text_of
from tailrace.errors import CommandError
from tailrace.events.resume_token import EVENT, ResumeToken

TOKEN_NOT_FOUND: Final = 280
"""ChangeStreamFatalError."""
OPERATION_TIME_SINCE: Final = 7
"""The wire version of MongoDB 4.0, the first that accepts `startAtOperationTime`."""


class Phase(Enum):
    """The states of the machine, as in the drawing above."""

    OPENING = auto()
    OPEN = auto()
    INTERRUPTED = auto()
    """There is no cursor; the next command opens one at the position."""
    ENDED = auto()


class Verdict(Enum):
    """What the caller does about an error."""

    RESUME = auto()
    RAISE = auto()
    DROP = auto()
    """The stream was ended while the command was under way."""


class ChangeStreamMachine:
    """One change stream: its options, its position, its cursor, and the events that have arrived."""

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
        self._unproven: Document | None = self._token
        """The token that the cursor was opened after, until the server has sent an event after it."""
        self._hidden: Document | None = None
        """A token whose event the pipeline hides: what is not after it is skipped."""
        self._fragments = FragmentCollector() if merge_fragments else None

    # -- events and position --------------------------------------------------------------------------

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
        """Whether events have arrived that `take` has not returned."""
        return bool(self._batch)

    def take(self) -> Document | None:
        """Return the next event that has arrived, and move the position after it; None if there is none."""
        batch = self._batch
        while batch:
            event = batch.popleft()
            # The user's pipeline may have removed it.
            token = event.get("_id")
            if token is None:
                self.end()
                raise MissingResumeTokenError
            self._unproven = None
            if self._hidden is not None and not comes_after(token, self._hidden):
                continue
            if self._fragments is not None:
                whole = self._fragments.add(event)
                if whole is None:
                    continue
                event = whole
            self._has_returned = True
            self._hidden = None
            if batch or self._post_batch_token is None:
                self._token = token
            else:
                self._token = self._post_batch_token
            if not batch:
                self._end_if_exhausted()
            return event
        self._move_without_event()
        self._end_if_exhausted()
        return None

    def end(self) -> None:
        """Drop all events and end the stream; the caller still has to `release` the cursor."""
        self.phase = Phase.ENDED
        self._batch.clear()

    # -- commands -------------------------------------------------------------------------------------

    @property
    def needs_cursor(self) -> bool:
        """Whether the next command is an aggregate, for a server selected by the read preference.

        Otherwise it is a getMore, for the server that has the cursor.
        """
        return self.phase is not Phase.OPEN

    def next_command(self, wire_version: int) -> Command:
        """The command to send, on a connection of this wire version."""
        if self.phase is Phase.OPEN and self.cursor is not None:
            return commands.get_more(self.cursor, self.options, wire_version)
        start = self.options.start if self.phase is Phase.OPENING else self._resume_point(wire_version)
        return commands.aggregate(self._target, start, self._pipeline, self.options)

    def _resume_point(self, wire_version: int) -> Document:
        """The start options of an aggregate that resumes: the specification's "Resume Process"."""
        if (
            self._hidden is not None
            and self._token is not None
            and not comes_after(self._token, self._hidden)
        ):
            return {"resumeAfter": _mark_of(self._hidden)}
        if self._token is not None:
            starts_after = self._starts_after and not self._has_returned
            return {"startAfter" if starts_after else "resumeAfter": self._token}
        if self._operation_time is not None and wire_version >= OPERATION_TIME_SINCE:
            return {"startAtOperationTime": self._operation_time}
        return self.options.start

    # -- replies --------------------------------------------------------------------------------------

    def receive(self, reply: Document, wire_version: int) -> None:
        """Take the reply to the command that `next_command` returned.

        If the stream has ended meanwhile, only a cursor that the reply opened is noted, for `release`.
        """
        cursor: Mapping[str, Any] = reply["cursor"]
        if self.phase is Phase.ENDED:
            if "firstBatch" in cursor:
                self.cursor = _cursor_of(cursor)
            return
        is_first = self.needs_cursor
        events = cursor["firstBatch" if is_first else "nextBatch"]
        self._post_batch_token = cursor.get("postBatchResumeToken")
        if self.phase is Phase.OPENING:
            self._note_operation_time(reply, events, wire_version)
        self.phase = Phase.OPEN
        self.cursor = _cursor_of(cursor)
        self._batch = deque(events)
        if not events:
            self._move_without_event()
            self._end_if_exhausted()

    def _move_without_event(self) -> None:
        """Move the position to the end of a batch without events, or with skipped ones only."""
        token = self._post_batch_token
        if token is None or (self._fragments and self._fragments.is_between):
            return
        if self._hidden is None or comes_after(token, self._hidden):
            self._token = token

    def _note_operation_time(self, reply: Document, events: Any, wire_version: int) -> None:
        """Save the time at which the stream was opened: without a token it resumes there."""
        if (
            not self.options.start
            and not events
            and self._post_batch_token is None
            and wire_version >= OPERATION_TIME_SINCE
        ):
            self._operation_time = reply.get("operationTime")

    def _end_if_exhausted(self) -> None:
        """End the stream if the server has closed the cursor; called when all events are taken."""
        if self.phase is Phase.OPEN and self.cursor is None:
            self.phase = Phase.ENDED

    # -- a token whose event the pipeline hides -------------------------------------------------------

    def token_to_prove(self, failure: CommandFailure) -> Document | None:
        """The token that the server did not find, if the pipeline may hide its event; otherwise None."""
        token = self._unproven
        if failure.code != TOKEN_NOT_FOUND or not self._pipeline or token is None or self._hidden is not None:
            return None
        return token if self.phase is not Phase.ENDED and _names_event(token) else None

    def pass_hidden(self, token: Document) -> None:
        """Go on after an event that the server has and the pipeline hides.

        The next command opens a cursor at the time of the event, and what is not after it is skipped.
        """
        self._hidden, self._unproven = token, None
        self.interrupt()

    # -- failures -------------------------------------------------------------------------------------

    def fail(self, failure: CommandFailure) -> Verdict:
        """Take the error of the command that `next_command` returned."""
        if self.phase is Phase.ENDED:
            return Verdict.DROP
        if self.phase is Phase.OPENING:
            self.phase = Phase.ENDED
            return Verdict.RAISE
        if self.phase is Phase.INTERRUPTED:
            # The one attempt to resume has failed. If the server refused it, it would refuse another one. If
            # no server was reached in time, or members are changing their roles, the next call tries again.
            if not is_resumable(failure) and not failure.timed_out:
                self.phase = Phase.ENDED
            return Verdict.RAISE
        if failure.code == CURSOR_NOT_FOUND:
            self.cursor = None  # nothing to kill
        if is_resumable(failure):
            self.interrupt()
            return Verdict.RESUME
        if failure.timed_out:
            self.interrupt()
        else:
            self.end()
        return Verdict.RAISE

    def interrupt(self) -> None:
        """Make the next command open another cursor: it is unknown whether a getMore was answered."""
        if self.phase is Phase.ENDED:
            return
        self.phase = Phase.INTERRUPTED
        if self._fragments is not None:
            self._fragments.forget()

    def release(self) -> Command | None:
        """Forget the cursor, and return the command that kills it; None if there is no cursor.

        The command is only for the server that has the cursor. Its errors are ignored.
        """
        cursor, self.cursor = self.cursor, None
        return None if cursor is None else commands.kill_cursors(cursor)


def _cursor_of(reply: Mapping[str, Any]) -> Cursor | None:
    """The cursor in a reply; id 0 means that the server has closed it."""
    if not reply["id"]:
        return None
    database, _, collection = reply["ns"].partition(".")
    return Cursor(reply["id"], database, collection)


def _names_event(token: Document) -> bool:
    """Whether a stream can begin at the time of a token, and skip what is not after it.

    After an invalidation it cannot: the stream would be invalidated again.
    """
    try:
        found = ResumeToken.parse_data(text_of(token))
    except (CommandError, KeyError):
        return False
    return found.kind == EVENT and found.version > 0 and not found.from_invalidate


def _mark_of(token: Document) -> Document:
    """The token of the time of an event, before all events of this time."""
    found = ResumeToken.parse_data(text_of(token))
    return high_water_mark(found.cluster_time, found.version)
