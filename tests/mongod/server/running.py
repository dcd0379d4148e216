"""A server in its own thread, with its whole log."""

import io
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pymongo import MongoClient

from tailrace.testing.in_thread import Document
from tailrace.testing.replica_set import ReplicaSet

__all__ = ["Document", "RunningServer", "connected", "running", "wait_for"]


def wait_for(condition: Callable[[], bool]) -> None:
    """Poll until the condition holds; fails after a timeout."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.002)


class RunningServer(ReplicaSet):
    """A started server; `call` runs a coroutine in its event loop."""

    def __init__(self, **options: Any) -> None:
        self._lines = io.StringIO()
        super().__init__(log=self._lines, **options)
        self.start()

    def log(self) -> list[Document]:
        """Every line since the start, not only the newest ones."""
        return [json.loads(line) for line in self._lines.getvalue().splitlines()]

    def messages(self) -> list[str]:
        return [line["msg"] for line in self.log()]

    def close(self) -> None:
        self.stop()


@contextmanager
def running(**options: Any) -> Iterator[RunningServer]:
    """A server with these options on a free port, stopped after the block."""
    server = RunningServer(**options)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def connected(server: RunningServer, **options: Any) -> Iterator[MongoClient[Document]]:
    """PyMongo on a server, closed after the block."""
    options = {"serverSelectionTimeoutMS": 30_000, **options}
    with MongoClient(server.uri, **options) as client:
        yield client
