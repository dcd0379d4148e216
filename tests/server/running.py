"""A server in a thread of its own, as tests use it: real sockets, a real store, a loop beside the test."""

import asyncio
import io
import json
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pymongo import MongoClient

from tailrace.server.logbook import Logbook
from tailrace.server.options import ServerOptions
from tailrace.server.server import Server

T = TypeVar("T")
Document = dict[str, Any]


def wait_for(condition: Callable[[], bool]) -> None:
    """Look again and again until it holds; a test that waits for longer fails."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.002)


class RunningServer:
    """A started server; `call` runs a coroutine in its event loop."""

    def __init__(self, options: ServerOptions) -> None:
        self._log = io.StringIO()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="server-under-test")
        self._thread.start()
        try:
            self.server = self.call(self._make(options))
            self.call(self.server.start())
        except BaseException:
            self._end_loop()
            raise

    async def _make(self, options: ServerOptions) -> Server:
        return Server(options, log=Logbook(options.log_level, self._log))

    @property
    def uri(self) -> str:
        return self.server.uri

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.server.port

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=30)

    def log(self) -> list[Document]:
        return [json.loads(line) for line in self._log.getvalue().splitlines()]

    def messages(self) -> list[str]:
        return [line["msg"] for line in self.log()]

    def close(self) -> None:
        try:
            self.call(self.server.stop())
        finally:
            self._end_loop()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextmanager
def running(**options: Any) -> Iterator[RunningServer]:
    """A server with these options on a free port, stopped behind the block."""
    server = RunningServer(ServerOptions(**{"port": 0, **options}))
    try:
        yield server
    finally:
        server.close()


@contextmanager
def connected(server: RunningServer, **options: Any) -> Iterator[MongoClient[Document]]:
    """PyMongo on a server, closed behind the block."""
    options = {"serverSelectionTimeoutMS": 5000, **options}
    with MongoClient(server.uri, **options) as client:
        yield client
