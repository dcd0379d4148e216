"""One blocking interface to both streams, so that one test tests both."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from pymongo import AsyncMongoClient, MongoClient

from tailrace import AsyncChangeStream, watch, watch_async
from tailrace.client.options import Document
from tailrace.spectest.recorder import CommandRecorder

Event = dict[str, Any]

SHELLS = ("sync", "async")
AWAIT_MS = 50
"""short, so that a getMore without events returns soon"""


class Stream(Protocol):
    @property
    def resume_token(self) -> Document | None: ...

    @property
    def alive(self) -> bool: ...

    def next(self) -> Event: ...

    def try_next(self) -> Event | None: ...

    def close(self) -> None: ...


class Blocking:
    """An async stream with blocking methods."""

    def __init__(self, stream: AsyncChangeStream[Event], runner: asyncio.Runner) -> None:
        self.stream = stream
        self._runner = runner

    @property
    def resume_token(self) -> Document | None:
        return self.stream.resume_token

    @property
    def alive(self) -> bool:
        return self.stream.alive

    def next(self) -> Event:
        try:
            return self._runner.run(self.stream.next())
        except StopAsyncIteration:
            raise StopIteration from None

    def try_next(self) -> Event | None:
        return self._runner.run(self.stream.try_next())

    def close(self) -> None:
        self._runner.run(self.stream.close())


@contextmanager
def opened(
    shell: str,
    uri: str,
    namespace: str = "",
    pipeline: list[Event] | None = None,
    *,
    recorder: CommandRecorder | None = None,
    client: dict[str, Any] | None = None,
    **options: Any,
) -> Iterator[Stream]:
    """A stream with its own client; both are closed after the block."""
    options.setdefault("max_await_time_ms", AWAIT_MS)
    settings = {"serverSelectionTimeoutMS": 30_000, **(client or {})}
    if recorder is not None:
        settings["event_listeners"] = [recorder]
    database, _, collection = namespace.partition(".")
    if shell == "sync":
        with MongoClient[Event](uri, **settings) as connected:
            target: Any = connected[database] if database else connected
            with watch(target[collection] if collection else target, pipeline or [], **options) as stream:
                yield stream
        return
    with asyncio.Runner() as runner:
        connected_async = AsyncMongoClient[Event](uri, **settings)
        try:
            target = connected_async[database] if database else connected_async
            opening = watch_async(target[collection] if collection else target, pipeline or [], **options)
            blocking = Blocking(runner.run(opening), runner)
            try:
                yield blocking
            finally:
                blocking.close()
        finally:
            runner.run(connected_async.close())


def take(stream: Stream, count: int) -> list[Event]:
    return [stream.next() for _ in range(count)]


def keys(events: list[Event]) -> list[Any]:
    return [event["documentKey"]["_id"] for event in events]
