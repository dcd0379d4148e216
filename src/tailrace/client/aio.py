"""`watch` for asyncio, on PyMongo's `AsyncMongoClient`, `AsyncDatabase` or `AsyncCollection`.

The twin of `tailrace.client.sync`, step for step; what is decided is decided in the machine that both drive.
A call that is cancelled loses nothing: the next one opens a cursor at the same position.
"""

import copy
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack

import pymongo
from pymongo import AsyncMongoClient
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.asynchronous.pool import AsyncConnection
from pymongo.errors import PyMongoError
from pymongo.read_preferences import _ServerMode

from tailrace.client.change_stream import ChangeStreamMachine, Verdict
from tailrace.client.commands import Command
from tailrace.client.driver import Address, Exchange, Settings, cursor_address
from tailrace.client.options import Document, Keywords, Pipeline, StreamOptions, Target

T = TypeVar("T", bound=Mapping[str, Any])


async def watch(
    target: AsyncMongoClient[T] | AsyncDatabase[T] | AsyncCollection[T],
    pipeline: Pipeline = (),
    *,
    session: AsyncClientSession | None = None,
    merge_fragments: bool = False,
    **options: Unpack[Keywords],
) -> "AsyncChangeStream[T]":
    """Open a change stream on a collection, a database or everything; all as in `tailrace.client.watch`.

    Used as ``async with await watch(collection) as stream:``.
    """
    match target:
        case AsyncMongoClient():
            client, what = target, Target.cluster()
        case AsyncDatabase():
            client, what = target.client, Target(target.name)
        case AsyncCollection():
            client, what = target.database.client, Target(target.database.name, target.name)
        case _:
            raise TypeError(f"an async client, database or collection can be watched, not {target!r}")
    machine = ChangeStreamMachine(
        what, copy.deepcopy(list(pipeline)), StreamOptions.of(options), merge_fragments=merge_fragments
    )
    settings = Settings(target.read_preference, target.read_concern, target.codec_options)
    stream = AsyncChangeStream(client, machine, settings, session)
    await stream._open()
    return stream


class AsyncChangeStream(Generic[T]):
    """An open change stream: an async iterator of events, and a context manager that closes it."""

    def __init__(
        self,
        client: AsyncMongoClient[T],
        machine: ChangeStreamMachine,
        settings: Settings,
        session: AsyncClientSession | None,
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

    async def _open(self) -> None:
        try:
            with self._time_limit():
                await self._exchange()
        except BaseException:
            await self.close()
            raise

    # -- iteration ------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        """The next event, however long it takes; `StopAsyncIteration` when the stream is over."""
        event = self._take()
        if event is not None:
            return event
        with self._time_limit():
            while self._machine.is_alive:
                await self._advance()
                event = self._take()
                if event is not None:
                    return event
        await self.close()
        raise StopAsyncIteration

    next = __anext__

    async def try_next(self) -> T | None:
        """The next event, or None if the server has none after at most one getMore."""
        event = self._take()
        if event is None and self._machine.is_alive:
            with self._time_limit():
                await self._advance()
            event = self._take()
        if not self._machine.is_alive:
            await self.close()
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

    async def close(self) -> None:
        """Free the cursor on the server; closing twice is no mistake."""
        self._machine.end()
        await self._release()
        if self._owns_session and self._session is not None:
            await self._session.end_session()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

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

    async def _advance(self) -> None:
        """At most one getMore, and at most one attempt to resume for one error."""
        if self._machine.needs_cursor:
            await self._exchange()
            if self._machine.has_events:
                return
        if self._machine.is_alive:
            await self._exchange()

    async def _exchange(self) -> None:
        """Send the next command; after a resumable error, open the stream again."""
        machine = self._machine
        exchange = Exchange(machine, self._settings)
        try:
            reply = await self._run(exchange)
        except Exception as error:
            failure = exchange.failure(error)
            verdict = machine.fail(failure)
            if failure.from_server:
                await self._release()
            else:
                self._abandon()
            if verdict is Verdict.RAISE:
                if not machine.is_alive:
                    await self.close()
                raise
        except BaseException:
            # Cancelled in the middle of a command: whether its reply was read is unknown.
            machine.interrupt()
            self._release_later()
            raise
        else:
            machine.receive(reply, exchange.wire_version)
            self._address = exchange.address
            if self._abandoned is not None:
                await self._kill_abandoned()
            return
        await self._exchange()

    async def _run(self, exchange: Exchange) -> dict[str, Any]:
        async def send(
            session: AsyncClientSession | None,
            _server: object,
            connection: AsyncConnection,
            preference: _ServerMode,
        ) -> dict[str, Any]:
            command, keywords = exchange.prepare(connection)
            return await connection.command(
                command.database, command.body, preference, session=session, client=self._client, **keywords
            )

        opens = self._machine.needs_cursor
        return await self._client._retryable_read(
            send,
            self._settings.read_preference,
            self._session,
            operation="aggregate" if opens else "getMore",
            address=None if opens else self._address,
            retryable=opens,
        )

    async def _release(self) -> None:
        """Kill the cursor on its server, now."""
        command = self._machine.release()
        if command is not None and self._address is not None:
            await self._kill(command, self._address)

    def _abandon(self) -> None:
        """Leave the cursor to be killed when its server answers again: nobody waits for that."""
        command = self._machine.release()
        if command is not None and self._address is not None:
            self._abandoned = self._address, command

    async def _kill_abandoned(self) -> None:
        """Kill the cursor of before if it is on the server that has just answered."""
        abandoned, self._abandoned = self._abandoned, None
        if abandoned is not None and abandoned[0] == self._address:
            await self._kill(abandoned[1], abandoned[0])

    async def _kill(self, command: Command, address: Address) -> None:
        async def send(
            session: AsyncClientSession | None,
            _server: object,
            connection: AsyncConnection,
            _preference: _ServerMode,
        ) -> dict[str, Any]:
            return await connection.command(
                command.database, command.body, session=session, client=self._client
            )

        with suppress(PyMongoError):
            await self._client._retryable_read(
                send,
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
