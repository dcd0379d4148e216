"""Watch PyMongo's `AsyncMongoClient`, `AsyncDatabase` or `AsyncCollection`: the change stream for asyncio.

A call that is cancelled loses no event: the next call opens a cursor at the same position.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from functools import partial
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar, Unpack

from pymongo import AsyncMongoClient
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase

from tailrace.client.driver import client_and_target
from tailrace.client.flow import Flow, R, run_async
from tailrace.client.options import Keywords, Pipeline
from tailrace.client.stream import ChangeStreamFlow, T


async def watch_async(
    target: AsyncMongoClient[T] | AsyncDatabase[T] | AsyncCollection[T],
    pipeline: Pipeline = (),
    *,
    session: AsyncClientSession | None = None,
    merge_fragments: bool = False,
    **options: Unpack[Keywords],
) -> "AsyncChangeStream[T]":
    """Open a change stream on a collection, a database or the whole deployment, with the options of `watch`.

    Used as ``async with await watch_async(collection) as stream:``.
    """
    client, what = client_and_target(
        target, AsyncMongoClient, AsyncDatabase, AsyncCollection, "an async client, database or collection"
    )
    stream: AsyncChangeStream[T] = AsyncChangeStream(
        target, what, client, pipeline, session, options, merge_fragments=merge_fragments
    )
    await stream._run(stream._opening())
    return stream


def awatch(
    target: AsyncMongoClient[T] | AsyncDatabase[T] | AsyncCollection[T],
    pipeline: Pipeline = (),
    *,
    session: AsyncClientSession | None = None,
    merge_fragments: bool = False,
    **options: Unpack[Keywords],
) -> "AsyncOpening[AsyncChangeStream[T]]":
    """Open a change stream, with the options of `watch`.

    Used as ``async with awatch(collection) as stream:``, or as ``stream = await awatch(collection)``.
    """
    return AsyncOpening(
        partial(watch_async, target, pipeline, session=session, merge_fragments=merge_fragments, **options)
    )


class _Closable(Protocol):
    async def close(self) -> None: ...


C = TypeVar("C", bound=_Closable)


class AsyncOpening(Generic[C]):
    """What is opened when it is awaited, or when its block begins, at whose end it is closed."""

    def __init__(self, opening: Callable[[], Coroutine[Any, Any, C]]) -> None:
        self._opening = opening
        self._opened: C | None = None

    def __await__(self) -> Generator[Any, None, C]:
        return self._opening().__await__()

    async def __aenter__(self) -> C:
        self._opened = await self
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is not None:
            await self._opened.close()


class AsyncChangeStream(ChangeStreamFlow[T]):
    """An open change stream: an async iterator of events, and a context manager that closes it."""

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        """Wait for the next event; raise `StopAsyncIteration` when the stream is closed or invalidated."""
        event = self._take()
        if event is None:
            event = await self._run(self._waiting())
            if event is None:
                raise StopAsyncIteration
        return event

    next = __anext__

    async def try_next(self) -> T | None:
        """Return the next event, or None if the server has none after at most one getMore."""
        event = self._take()
        if event is not None and self._machine.is_alive:
            return event
        return await self._run(self._trying(event))

    async def close(self) -> None:
        """Free the cursor on the server; a second call does nothing."""
        await run_async(self._closing())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self, flow: Flow[R]) -> R:
        with self._time_limit():
            return await run_async(flow)
