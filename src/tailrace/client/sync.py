"""`watch`: a blocking change stream on PyMongo's `MongoClient`, `Database` or `Collection`."""

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack

import pymongo
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import PyMongoError
from pymongo.read_preferences import _ServerMode
from pymongo.synchronous.client_session import ClientSession
from pymongo.synchronous.pool import Connection

from tailrace.client.change_stream import ChangeStreamMachine, Verdict
from tailrace.client.commands import Command
from tailrace.client.driver import Address, Exchange, Settings, cursor_address
from tailrace.client.options import Document, Keywords, Pipeline, StreamOptions, Target

T = TypeVar("T", bound=Mapping[str, Any])


def watch(
    target: MongoClient[T] | Database[T] | Collection[T],
    pipeline: Pipeline = (),
    *,
    session: ClientSession | None = None,
    merge_fragments: bool = False,
    **options: Unpack[Keywords],
) -> "ChangeStream[T]":
    """Open a change stream on a collection, a database or everything; the server has been asked on return.

    The options have PyMongo's names; what a newer server knows besides goes into ``stage_options``, fields of
    `$changeStream`, or ``command_options``, fields of the aggregate. With ``merge_fragments`` the events that
    `$changeStreamSplitLargeEvent` split are put together again.

    Read concern and read preference are those of the target. The server accepts no read concern but
    `majority`, and none at all, which means the same.

    This is to be preferred to an aggregation with a `$changeStream` stage, which does not resume.
    """
    match target:
        case MongoClient():
            client, what = target, Target.cluster()
        case Database():
            client, what = target.client, Target(target.name)
        case Collection():
            client, what = target.database.client, Target(target.database.name, target.name)
        case _:
            raise TypeError(f"a client, a database or a collection can be watched, not {target!r}")
    machine = ChangeStreamMachine(
        what, copy.deepcopy(list(pipeline)), StreamOptions.of(options), merge_fragments=merge_fragments
    )
    settings = Settings(target.read_preference, target.read_concern, target.codec_options)
    return ChangeStream(client, machine, settings, session)


class ChangeStream(Generic[T]):
    """An open change stream: an iterator of events, and a context manager that closes it."""

    def __init__(
        self,
        client: MongoClient[T],
        machine: ChangeStreamMachine,
        settings: Settings,
        session: ClientSession | None,
    ) -> None:
        if client.options.load_balanced:
            raise pymongo.errors.ConfigurationError("a load balancer needs PyMongo's own watch")
        self._client = client
        self._machine = machine
        self._settings = settings
        self._session = client._ensure_session(session)
        self._owns_session = session is None and self._session is not None and self._session._implicit
        self._address: Address | None = None
        self._abandoned: tuple[Address, Command] | None = None
        """A cursor that could not be killed yet: its server did not answer."""
        self._seconds: float | None = client.options.timeout
        self._take: Callable[[], T | None] = machine.take  # type: ignore[assignment]
        if settings.decodes_late:
            self._take = self._take_decoded
        try:
            with self._time_limit():
                self._exchange()
        except BaseException:
            self.close()
            raise

    # -- iteration ------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        """The next event, however long it takes; `StopIteration` when the stream is closed or invalidated."""
        event = self._take()
        if event is not None:
            return event
        with self._time_limit():
            while self._machine.is_alive:
                self._advance()
                event = self._take()
                if event is not None:
                    return event
        self.close()
        raise StopIteration

    next = __next__

    def try_next(self) -> T | None:
        """The next event, or None if the server has none after at most one getMore.

        The resume token may have moved all the same: this is how to see all of its values.
        """
        event = self._take()
        if event is None and self._machine.is_alive:
            with self._time_limit():
                self._advance()
            event = self._take()
        if not self._machine.is_alive:
            self.close()
        return event

    @property
    def resume_token(self) -> Document | None:
        """The token that an automatic resume would use now: behind the last event returned, or further on."""
        return copy.deepcopy(self._machine.resume_token)

    @property
    def alive(self) -> bool:
        """Whether more events may come; False once the stream is closed, invalidated or failed."""
        return self._machine.is_alive

    @property
    def pending(self) -> bool:
        """Whether the server has sent events that were not returned yet."""
        return self._machine.has_events

    # -- its end --------------------------------------------------------------------------------------

    def close(self) -> None:
        """Free the cursor on the server; closing twice is no mistake."""
        self._machine.end()
        self._release()
        if self._owns_session and self._session is not None:
            self._session.end_session()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # A stream that was dropped, or whose constructor failed early, may not have all of its parts.
        if hasattr(self, "_address"):
            self._release_later()

    # -- commands -------------------------------------------------------------------------------------

    def _take_decoded(self) -> T | None:
        event = self._machine.take()
        return None if event is None else self._settings.decode(event)

    def _time_limit(self) -> AbstractContextManager[object]:
        """One `timeoutMS` for all that happens in one call, a resume included."""
        return nullcontext() if self._seconds is None else pymongo.timeout(self._seconds)

    def _advance(self) -> None:
        """At most one getMore, and at most one attempt to resume for one error."""
        if self._machine.needs_cursor:
            self._exchange()
            if self._machine.has_events:
                return
        if self._machine.is_alive:
            self._exchange()

    def _exchange(self) -> None:
        """Send the next command; after a resumable error, open the stream again."""
        machine = self._machine
        exchange = Exchange(machine, self._settings)
        try:
            reply = self._run(exchange)
        except Exception as error:
            failure = exchange.failure(error)
            verdict = machine.fail(failure)
            if failure.from_server:
                self._release()
            else:
                self._abandon()
            if verdict is Verdict.RAISE:
                if not machine.is_alive:
                    self.close()
                raise
        except BaseException:
            # Ctrl-C in the middle of a command: whether its reply was read is unknown.
            machine.interrupt()
            self._release_later()
            raise
        else:
            machine.receive(reply, exchange.wire_version)
            self._address = exchange.address
            if self._abandoned is not None:
                self._kill_abandoned()
            return
        self._exchange()

    def _run(self, exchange: Exchange) -> dict[str, Any]:
        def send(
            session: ClientSession | None, _server: object, connection: Connection, preference: _ServerMode
        ) -> dict[str, Any]:
            command, keywords = exchange.prepare(connection)
            return connection.command(
                command.database, command.body, preference, session=session, client=self._client, **keywords
            )

        opens = self._machine.needs_cursor
        return self._client._retryable_read(
            send,
            self._settings.read_preference,
            self._session,
            operation="aggregate" if opens else "getMore",
            address=None if opens else self._address,
            retryable=opens,
        )

    def _release(self) -> None:
        """Kill the cursor on its server, now."""
        command = self._machine.release()
        if command is not None and self._address is not None:
            self._kill(command, self._address)

    def _abandon(self) -> None:
        """Leave the cursor to be killed when its server answers again: nobody waits for that."""
        command = self._machine.release()
        if command is not None and self._address is not None:
            self._abandoned = self._address, command

    def _kill_abandoned(self) -> None:
        """Kill the cursor of before if it is on the server that has just answered."""
        abandoned, self._abandoned = self._abandoned, None
        if abandoned is not None and abandoned[0] == self._address:
            self._kill(abandoned[1], abandoned[0])

    def _kill(self, command: Command, address: Address) -> None:
        with suppress(PyMongoError):
            self._client._retryable_read(
                lambda session, _server, connection, _preference: connection.command(
                    command.database, command.body, session=session, client=self._client
                ),
                self._settings.read_preference,
                self._session,
                operation="killCursors",
                address=address,
                retryable=False,
            )

    def _release_later(self) -> None:
        """Let PyMongo kill the cursor in the background: this is no moment to send anything."""
        cursor = self._machine.cursor
        command = self._machine.release()
        if command is not None and cursor is not None and self._address is not None:
            self._client._close_cursor_soon(cursor.id, cursor_address(self._address, command))
