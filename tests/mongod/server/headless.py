"""A server whose streams read only the history, and a builder of the history in the same process.

Stream tests write and read at once, which works for streams on the head. Here a command that reads a stream
waits in the client until the history has everything that was written before.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bson import Timestamp
from pymongo import monitoring

from tailrace.events.cluster_time import from_timestamp
from tailrace.lake.commit import change_files
from tailrace.lake.table import HistoryTable
from tests.mongod.server.running import RunningServer

_SEES_EVENTS = ("aggregate", "getMore")


class HeadlessServer(RunningServer):
    """A server started with `--head off`, with its own builder of the history."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self._history = folder / "history"
        super().__init__(history=self._history, head=False, builds_history=True, **options)

    def truncate_oplog(self, before: Timestamp | None = None) -> None:
        """Also remove these events from the history, so that streams cannot be resumed there."""
        self.catch_up()
        limit = self.cluster_time if before is None else before
        last_gone = max(entry["ts"] for entry in self.oplog() if entry["ts"] < limit)
        super().truncate_oplog(before)
        table = HistoryTable.open(self._history)
        change_files(table, (), removed=(), begins=from_timestamp(last_gone))
        self.catch_up()


class _CatchUp(monitoring.CommandListener):
    """Makes a headless server catch up before a client reads a stream."""

    def __init__(self) -> None:
        self._servers: dict[int, HeadlessServer] = {}
        self._lock = threading.Lock()
        monitoring.register(self)

    @contextmanager
    def serving(self, server: HeadlessServer) -> Iterator[None]:
        port = server.address[1]
        self._servers[port] = server
        try:
            yield
        finally:
            del self._servers[port]

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        server = self._servers.get(event.connection_id[1] or 0)
        if server is not None and event.command_name in _SEES_EVENTS:
            server.catch_up()

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        pass

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        pass


_catch_up = _CatchUp()


@contextmanager
def running_headless(**options: Any) -> Iterator[HeadlessServer]:
    """A headless server on a free port; it and its history are removed after the block."""
    with TemporaryDirectory(prefix="tailrace-headless-") as folder:
        server = HeadlessServer(Path(folder), **options)
        try:
            with _catch_up.serving(server):
                yield server
        finally:
            server.close()
