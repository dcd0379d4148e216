"""Handle every event at least once, across crashes of the application and outages of the server.

The position is saved after events were handled: when everything that the server sent is handled, at least
once a second, and at the end. The next run repeats the events that were handled after the last save, so a
handler must allow for seeing an event twice.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar, Unpack

from pymongo import AsyncMongoClient, MongoClient
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import PyMongoError

from tailrace.client.aio import AsyncChangeStream, watch_async
from tailrace.client.driver import may_pass
from tailrace.client.flow import Flow, run, run_async
from tailrace.client.options import Document, Keywords, Pipeline
from tailrace.client.outage import Outage
from tailrace.client.sync import ChangeStream, watch
from tailrace.client.token_store import AsyncTokenStore, TokenStore

T = TypeVar("T", bound=Mapping[str, Any])

SAVE_SECONDS: Final = 1.0


def with_start(options: Keywords, token: Document | None) -> Keywords:
    """Options of a stream that starts after a saved token; the given ones if there is no token.

    The token may be that of an invalidation, which `startAfter` accepts and `resumeAfter` does not.
    """
    if token is None:
        return options
    return {**options, "resume_after": None, "start_at_operation_time": None, "start_after": token}


def process(
    target: MongoClient[T] | Database[T] | Collection[T],
    handle: Callable[[T], object],
    store: TokenStore,
    pipeline: Pipeline = (),
    *,
    max_events: int | None = None,
    max_outage: float | None = None,
    merge_fragments: bool = False,
    **options: Unpack[Keywords],
) -> int:
    """Call ``handle`` with every event after the stored token; return how many events were handled.

    It returns after ``max_events``, or when the stream is invalidated. It raises the handler's error, the
    server's, or, if the server does not answer for ``max_outage`` seconds, the network error.
    """
    started = with_start(options, store.load())
    with watch(target, pipeline, merge_fragments=merge_fragments, **started) as stream:
        return process_stream(stream, handle, store, max_events=max_events, max_outage=max_outage)


def process_stream(
    stream: ChangeStream[T],
    handle: Callable[[T], object],
    store: TokenStore,
    *,
    max_events: int | None = None,
    max_outage: float | None = None,
) -> int:
    """`process` with a stream that is already open, and was opened after the stored token."""
    return run(_processing(stream, handle, store, time.sleep, _Progress(max_events, max_outage)))


async def process_async(
    target: AsyncMongoClient[T] | AsyncDatabase[T] | AsyncCollection[T],
    handle: Callable[[T], Awaitable[object]],
    store: AsyncTokenStore,
    pipeline: Pipeline = (),
    *,
    max_events: int | None = None,
    max_outage: float | None = None,
    merge_fragments: bool = False,
    **options: Unpack[Keywords],
) -> int:
    """`process` for asyncio."""
    started = with_start(options, await store.load())
    async with await watch_async(target, pipeline, merge_fragments=merge_fragments, **started) as stream:
        return await process_stream_async(stream, handle, store, max_events=max_events, max_outage=max_outage)


async def process_stream_async(
    stream: AsyncChangeStream[T],
    handle: Callable[[T], Awaitable[object]],
    store: AsyncTokenStore,
    *,
    max_events: int | None = None,
    max_outage: float | None = None,
) -> int:
    """`process_stream` for asyncio."""
    progress = _Progress(max_events, max_outage)
    return await run_async(_processing(stream, handle, store, asyncio.sleep, progress))


def _processing(
    stream: ChangeStream[T] | AsyncChangeStream[T],
    handle: Callable[[T], object],
    store: TokenStore | AsyncTokenStore,
    sleep: Callable[[float], object],
    progress: "_Progress",
) -> Flow[int]:
    position = stream.resume_token
    while stream.alive and not progress.is_over():
        try:
            event = yield stream.try_next
        except PyMongoError as error:
            pause = progress.next_pause(can_resume=may_pass(error) and stream.alive)
            if pause is None:
                raise
            yield partial(sleep, pause)
            continue
        progress.server_answered()
        if event is not None:
            try:
                yield partial(handle, event)
            except BaseException:
                # The next run gets this event again, but not those before it.
                if position is not None:
                    yield partial(store.save, position)
                raise
            progress.handled += 1
        position = stream.resume_token
        token = progress.token_to_save(position, is_due=progress.is_over() or not stream.pending)
        if token is not None:
            yield partial(store.save, token)
    return progress.handled


class _Progress:
    """Decides when to save, when to stop, and how long to wait for a server that does not answer."""

    def __init__(self, max_events: int | None, max_outage: float | None) -> None:
        self.handled = 0
        self._max_events = max_events
        self._saved: Document | None = None
        self._saved_at = time.monotonic()
        self._outage = Outage(max_outage)

    def is_over(self) -> bool:
        return self._max_events is not None and self.handled >= self._max_events

    def token_to_save(self, token: Document | None, *, is_due: bool) -> Document | None:
        """The token, if it is time to save and it differs from the one saved last."""
        if token is None or token == self._saved:
            return None
        now = time.monotonic()
        if not is_due and now - self._saved_at < SAVE_SECONDS:
            return None
        self._saved, self._saved_at = token, now
        return token

    def server_answered(self) -> None:
        self._outage.end()

    def next_pause(self, *, can_resume: bool) -> float | None:
        """Seconds to wait before the next attempt; None to stop trying."""
        return self._outage.next_pause() if can_resume else None
