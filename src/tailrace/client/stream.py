"""The flow of a change stream: open, read, resume, kill the cursor, close.

`ChangeStreamFlow` sends what the machine (`change_stream.py`) decides, and reports replies and errors to it.
`ChangeStream` (`sync.py`) and `AsyncChangeStream` (`aio.py`) derive from it and run its flows. What does not
wait, such as taking an event that has already arrived, is plain code without a flow.
"""

import copy
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import Any, Generic, TypeVar

import pymongo
from pymongo.errors import OperationFailure, PyMongoError

from tailrace.client.change_stream import ChangeStreamMachine, Verdict
from tailrace.client.commands import Command
from tailrace.client.driver import (
    Address,
    AnyClient,
    AnySession,
    Exchange,
    Settings,
    cursor_address,
    failure_of,
    read_call,
)
from tailrace.client.flow import Flow
from tailrace.client.options import (
    Document,
    Keywords,
    Pipeline,
    StreamOptions,
    Target,
    with_other_start,
)
from tailrace.client.token_order import text_of
from tailrace.events.resume_token import ResumeToken

T = TypeVar("T", bound=Mapping[str, Any])


class ChangeStreamFlow(Generic[T]):
    """Shared by `ChangeStream` and `AsyncChangeStream`: all of their state, and their flows."""

    def __init__(
        self,
        watched: Any,
        target: Target,
        client: AnyClient[T],
        pipeline: Pipeline,
        session: AnySession | None,
        options: Keywords,
        *,
        merge_fragments: bool,
    ) -> None:
        """Read preference, read concern and codec options are those of ``watched``, PyMongo's object."""
        if client.options.load_balanced:
            raise pymongo.errors.ConfigurationError("a load balancer needs PyMongo's own watch")
        machine = ChangeStreamMachine(
            target, copy.deepcopy(list(pipeline)), StreamOptions.of(options), merge_fragments=merge_fragments
        )
        self._watched = watched
        self._target = target, client
        self._options = options
        self._client = client
        self._machine = machine
        self._settings = Settings(watched.read_preference, watched.read_concern, watched.codec_options)
        self._session: Any = client._ensure_session(session)  # type: ignore[arg-type]
        self._owns_session = session is None and self._session is not None and self._session._implicit
        self._command = partial(read_call, client, self._settings.read_preference, self._session)
        self._address: Address | None = None
        self._abandoned: tuple[Address, Command] | None = None
        """A cursor that is still to be killed: its server did not answer."""
        self._seconds: float | None = client.options.timeout
        self._take: Callable[[], T | None] = machine.take  # type: ignore[assignment]
        if self._settings.decodes_late:
            self._take = self._take_decoded

    @property
    def resume_token(self) -> Document | None:
        """The token that an automatic resume would use now: the last event's, or a newer one."""
        return copy.deepcopy(self._machine.resume_token)

    @property
    def alive(self) -> bool:
        """Whether more events may come; False after the stream was closed, was invalidated or failed."""
        return self._machine.is_alive

    @property
    def pending(self) -> bool:
        """Whether the server has sent events that were not returned yet."""
        return self._machine.has_events

    def __del__(self) -> None:
        # The constructor may have failed before the attributes were set.
        if hasattr(self, "_address"):
            self._kill_in_background()

    def _take_decoded(self) -> T | None:
        event = self._machine.take()
        return None if event is None else self._settings.decode(event)

    def _time_limit(self) -> AbstractContextManager[object]:
        """One `timeoutMS` for everything that happens in one call, a resume included."""
        return nullcontext() if self._seconds is None else pymongo.timeout(self._seconds)

    # -- flows ----------------------------------------------------------------------------------------

    def _opening(self) -> Flow[None]:
        try:
            yield from self._exchange()
        except BaseException:
            yield from self._closing()
            raise

    def _waiting(self) -> Flow[T | None]:
        """Read until there is an event; return None when the stream is over."""
        while self._machine.is_alive:
            yield from self._advance()
            event = self._take()
            if event is not None:
                return event
        yield from self._closing()
        return None

    def _trying(self, event: T | None) -> Flow[T | None]:
        """Send at most one getMore if there is no event yet; close the stream if it is over."""
        if event is None and self._machine.is_alive:
            yield from self._advance()
            event = self._take()
        if not self._machine.is_alive:
            yield from self._closing()
        return event

    def _closing(self) -> Flow[None]:
        self._machine.end()
        yield from self._release()
        if self._owns_session:
            yield self._session.end_session

    def _advance(self) -> Flow[None]:
        """Send at most one getMore, and make at most one attempt to resume for one error."""
        if self._machine.needs_cursor:
            yield from self._exchange()
            if self._machine.has_events:
                return
        if self._machine.is_alive:
            yield from self._exchange()

    def _exchange(self) -> Flow[None]:
        """Send the next command; after a resumable error, open the stream again."""
        machine = self._machine
        while True:
            exchange = Exchange(machine, self._settings)
            opens = machine.needs_cursor
            try:
                reply = yield self._command(
                    exchange.prepare,
                    operation="aggregate" if opens else "getMore",
                    address=None if opens else self._address,
                    retryable=opens,
                )
            except Exception as error:
                failure = failure_of(error, exchange.wire_version)
                hidden = machine.token_to_prove(failure)
                if hidden is not None and (yield from self._has_event(hidden)):
                    yield from self._release()
                    machine.pass_hidden(hidden)
                    continue
                verdict = machine.fail(failure)
                if failure.from_server:
                    yield from self._release()
                else:
                    self._abandon()
                if verdict is Verdict.RAISE:
                    if not machine.is_alive:
                        yield from self._closing()
                    raise
                if verdict is Verdict.DROP:
                    return
            except BaseException:
                # Interrupted or cancelled during a command: whether its reply was read is unknown.
                machine.interrupt()
                self._kill_in_background()
                raise
            else:
                machine.receive(reply, exchange.wire_version)
                self._address = exchange.address
                if not machine.is_alive:
                    # If the stream was closed meanwhile, its session has ended, so nothing can be sent in it.
                    self._kill_in_background()
                if self._abandoned is not None:
                    yield from self._kill_abandoned()
                return

    def _has_event(self, token: Document) -> Flow[bool]:
        """Whether the stream without its pipeline has the event of a token.

        The server reported an event after it, so there is one to wait for.
        """
        splits = ResumeToken.parse_data(text_of(token)).fragment is not None
        stages: Pipeline = [{"$changeStreamSplitLargeEvent": {}}] if splits else []
        options = with_other_start(self._options, token)
        probe = type(self)(self._watched, *self._target, stages, None, options, merge_fragments=False)
        try:
            yield from probe._opening()
            if not probe.pending:
                yield from probe._waiting()
        except OperationFailure:
            return False
        finally:
            yield from probe._closing()
        return True

    # -- the cursor's end -----------------------------------------------------------------------------

    def _release(self) -> Flow[None]:
        """Kill the cursor on its server, now."""
        command = self._machine.release()
        if command is not None and self._address is not None:
            yield from self._kill(command, self._address)

    def _abandon(self) -> None:
        """Postpone the kill until the cursor's server answers again, so that no caller waits for it."""
        command = self._machine.release()
        if command is not None and self._address is not None:
            self._abandoned = self._address, command

    def _kill_abandoned(self) -> Flow[None]:
        """Kill the abandoned cursor if it is on the server that has just answered; else forget it."""
        abandoned, self._abandoned = self._abandoned, None
        if abandoned is not None and abandoned[0] == self._address:
            yield from self._kill(abandoned[1], abandoned[0])

    def _kill(self, command: Command, address: Address) -> Flow[None]:
        with suppress(PyMongoError):
            yield self._command(
                lambda *_: (command, {}), operation="killCursors", address=address, retryable=False
            )

    def _kill_in_background(self) -> None:
        """Let PyMongo kill the cursor later: nothing can be sent now."""
        cursor = self._machine.cursor
        command = self._machine.release()
        if command is not None and cursor is not None and self._address is not None:
            self._client._close_cursor_soon(cursor.id, cursor_address(self._address, command))
