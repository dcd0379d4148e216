"""`process`: every event handled at least once, across crashes of the application and outages of the server.

The position is saved behind events that were handled: whenever all that the server sent is done, at least
once a second, and when the loop ends. What was handled after the last save is handled again by the next run,
so a handler has to bear to see an event twice.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar, Unpack

from pymongo import AsyncMongoClient, MongoClient
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import ConnectionFailure

from tailrace.client import aio
from tailrace.client.aio import AsyncChangeStream
from tailrace.client.options import Document, Keywords, Pipeline
from tailrace.client.sync import ChangeStream, watch
from tailrace.client.token_store import AsyncTokenStore, TokenStore

T = TypeVar("T", bound=Mapping[str, Any])

SAVE_SECONDS: Final = 1.0
_SHORTEST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0


class _Progress:
    """When to save, when to stop, and how long to wait for a server that is away."""

    def __init__(self, limit: int | None, patience: float | None) -> None:
        self.handled = 0
        self._limit = limit
        self._patience = patience
        self._saved: Document | None = None
        self._saved_at = time.monotonic()
        self._away_since: float | None = None
        self._pause = _SHORTEST_PAUSE

    def is_over(self) -> bool:
        return self._limit is not None and self.handled >= self._limit

    def token_to_save(self, token: Document | None, *, is_due: bool) -> Document | None:
        """The token, if it is due and another one than that which was saved last."""
        if token is None or token == self._saved:
            return None
        now = time.monotonic()
        if not is_due and now - self._saved_at < SAVE_SECONDS:
            return None
        self._saved, self._saved_at = token, now
        return token

    def answered(self) -> None:
        """The server is there."""
        self._away_since, self._pause = None, _SHORTEST_PAUSE

    def next_pause(self, *, can_go_on: bool) -> float | None:
        """How long to wait before the server is tried again; None if it was away for too long."""
        if not can_go_on:
            return None
        now = time.monotonic()
        if self._away_since is None:
            self._away_since = now
        if self._patience is not None and now - self._away_since >= self._patience:
            return None
        pause, self._pause = self._pause, min(self._pause * 2, _LONGEST_PAUSE)
        return pause


def with_start(options: Keywords, token: Document | None) -> Keywords:
    """Options that begin behind a saved token, or as given if there is none.

    `startAfter` also takes the token of an invalidation, after which a stream has to be opened anew.
    """
    if token is None:
        return options
    kept: Keywords = {**options, "resume_after": None, "start_at_operation_time": None, "start_after": token}
    return kept


def process(
    target: MongoClient[T] | Database[T] | Collection[T],
    handle: Callable[[T], object],
    store: TokenStore,
    pipeline: Pipeline = (),
    *,
    max_events: int | None = None,
    patience: float | None = None,
    merge_fragments: bool = False,
    **options: Unpack[Keywords],
) -> int:
    """Call ``handle`` with every event behind the stored token; the number of events when it is over.

    It is over after ``max_events``, when the stream is invalidated, or with an error: the handler's, the
    server's, or a network error when the server was away for ``patience`` seconds, if that is given.
    """
    started = with_start(options, store.load())
    with watch(target, pipeline, merge_fragments=merge_fragments, **started) as stream:
        return process_stream(stream, handle, store, max_events=max_events, patience=patience)


def process_stream(
    stream: ChangeStream[T],
    handle: Callable[[T], object],
    store: TokenStore,
    *,
    max_events: int | None = None,
    patience: float | None = None,
) -> int:
    """The same with a stream that is open already, and was opened behind the stored token."""
    progress = _Progress(max_events, patience)
    behind = stream.resume_token
    while stream.alive and not progress.is_over():
        try:
            event = stream.try_next()
        except ConnectionFailure:
            pause = progress.next_pause(can_go_on=stream.alive)
            if pause is None:
                raise
            time.sleep(pause)
            continue
        progress.answered()
        if event is not None:
            try:
                handle(event)
            except BaseException:
                # This event is to come again; those before it are done.
                if behind is not None:
                    store.save(behind)
                raise
            progress.handled += 1
        behind = stream.resume_token
        token = progress.token_to_save(behind, is_due=progress.is_over() or not stream.pending)
        if token is not None:
            store.save(token)
    return progress.handled


async def process_async(
    target: AsyncMongoClient[T] | AsyncDatabase[T] | AsyncCollection[T],
    handle: Callable[[T], Awaitable[object]],
    store: AsyncTokenStore,
    pipeline: Pipeline = (),
    *,
    max_events: int | None = None,
    patience: float | None = None,
    merge_fragments: bool = False,
    **options: Unpack[Keywords],
) -> int:
    """The twin of `process` for asyncio."""
    started = with_start(options, await store.load())
    async with await aio.watch(target, pipeline, merge_fragments=merge_fragments, **started) as stream:
        return await process_stream_async(stream, handle, store, max_events=max_events, patience=patience)


async def process_stream_async(
    stream: AsyncChangeStream[T],
    handle: Callable[[T], Awaitable[object]],
    store: AsyncTokenStore,
    *,
    max_events: int | None = None,
    patience: float | None = None,
) -> int:
    """The same with a stream that is open already, and was opened behind the stored token."""
    progress = _Progress(max_events, patience)
    behind = stream.resume_token
    while stream.alive and not progress.is_over():
        try:
            event = await stream.try_next()
        except ConnectionFailure:
            pause = progress.next_pause(can_go_on=stream.alive)
            if pause is None:
                raise
            await asyncio.sleep(pause)
            continue
        progress.answered()
        if event is not None:
            try:
                await handle(event)
            except BaseException:
                # This event is to come again; those before it are done.
                if behind is not None:
                    await store.save(behind)
                raise
            progress.handled += 1
        behind = stream.resume_token
        token = progress.token_to_save(behind, is_due=progress.is_over() or not stream.pending)
        if token is not None:
            await store.save(token)
    return progress.handled
