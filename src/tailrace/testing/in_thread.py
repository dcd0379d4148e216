"""Run a deployment inside a test, in a thread with its own event loop, so that the test may block.

The data is stored in memory if the system has room there; everything else is as in `tailrace serve`.
"""

import asyncio
import json
import os
import shutil
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Generic, Protocol, Self, TextIO, TypedDict, TypeVar

from pymongo import MongoClient

from tailrace.mongod.server.admin.audit import AuditLog
from tailrace.mongod.server.admin.logbook import Logbook
from tailrace.mongod.server.emulation.fail_points import FailPoint
from tailrace.mongod.server.emulation.member_fail_points import set_fail_point
from tailrace.mongod.server.net.event_loop import new_event_loop
from tailrace.mongod.server.net.tls import Tls
from tailrace.mongod.server.node import Node
from tailrace.mongod.server.options import ServerOptions
from tailrace.mongod.server.server import Server
from tailrace.mongod.store.clock import WallClock
from tailrace.namespaces import NamespaceChoice
from tailrace.traces import Traces

T = TypeVar("T")
Document = dict[str, Any]
Mode = str | Mapping[str, int | float]
"""`"alwaysOn"`, `"off"`, `{"times": n}`, `{"skip": n}` or `{"activationProbability": p}`"""

_MEMORY: Final = Path("/dev/shm")
_ENOUGH_MEMORY: Final = 1 << 30
"""Containers often have less; data is then stored on disk."""
_CALL_SECONDS: Final = 60.0
_SELECTION_MS: Final = 5000


class Options(TypedDict, total=False):
    """The options of a replica set or a cluster, see `ServerOptions`; by default the port is a free one."""

    host: str
    port: int
    data: Path | None
    replica_set: str | None
    advertise: str | None
    auth: bool
    first_user: tuple[str, str] | None
    tls: Tls | None
    audit: AuditLog | None
    traces: Traces | None
    history: str | Path | None
    kept: NamespaceChoice
    rebuilds_images: bool
    records_snapshot: bool
    head: bool
    oplog_bytes: int
    max_bytes: int
    max_connections: int
    log_level: str
    server_version: str
    members: int
    parameters: Mapping[str, Any]


class Served(Protocol):
    """A `Server` or a `Cluster`."""

    @property
    def uri(self) -> str: ...

    async def start(self) -> None:
        """Open the data and accept connections."""

    async def stop(self) -> None:
        """Close the connections and the data."""


S = TypeVar("S", bound=Served)


class InThread(ABC, Generic[S]):
    """A deployment that runs for a `with` block, or from `start` to `stop`."""

    name = "server"
    """What error messages call it."""

    def __init__(self, options: ServerOptions, log: TextIO | None) -> None:
        self.options = options
        self.wall = WallClock()
        self._log = Logbook(options.log_level, log)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._clients: list[MongoClient[Document]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._served: S | None = None

    @abstractmethod
    def _new(self) -> S:
        """Return what is to be started, with the present options."""

    # -- life -----------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start; connections are accepted when this returns."""
        if self._served is not None:
            raise RuntimeError(f"the {self.name} is running already")
        if self.options.data is None:
            self._folder = tempfile.TemporaryDirectory(
                prefix="tailrace-", dir=memory_folder(), ignore_cleanup_errors=True
            )
            self.options = replace(self.options, data=Path(self._folder.name))
        loop = self._loop = new_event_loop()
        # A daemon, so that the process can end although nobody called `stop`.
        self._thread = threading.Thread(target=loop.run_forever, name=f"tailrace {self.name}", daemon=True)
        self._thread.start()
        try:
            self._start_serving()
        except BaseException:
            self._end()
            raise
        return self

    def stop(self) -> None:
        """Close the clients, stop, and remove temporary data; a second call does nothing."""
        for client in self._clients:
            client.close()
        self._clients = []
        if self._loop is None:
            return
        try:
            self._stop_serving()
        finally:
            self._end()

    def restart(self) -> None:
        """Stop and start on the same data."""
        self._stop_serving()
        self._start_serving()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start_serving(self) -> None:
        self._served = self.call(self._started())

    async def _started(self) -> S:
        served = self._new()
        await served.start()
        return served

    def _stop_serving(self) -> None:
        served, self._served = self._served, None
        if served is not None:
            self.call(served.stop())

    def _end(self) -> None:
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
            self.options = replace(self.options, data=None)

    # -- access ---------------------------------------------------------------------------------------------

    @property
    def _running(self) -> S:
        if self._served is None:
            raise RuntimeError(f"the {self.name} is not running")
        return self._served

    @property
    def uri(self) -> str:
        """The connection string, with all members or all routers."""
        return self._running.uri

    def _client(self, uri: str, options: Mapping[str, Any]) -> "MongoClient[Document]":
        client: MongoClient[Document] = MongoClient(
            uri, **{"serverSelectionTimeoutMS": _SELECTION_MS, **options}
        )
        self._clients.append(client)
        return client

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the event loop of the deployment, and return its result."""
        if self._loop is None:
            work.close()
            raise RuntimeError(f"the {self.name} is not running")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=_CALL_SECONDS)

    def log(self) -> list[Document]:
        """The newest lines of the log, those of earlier starts included."""
        return [json.loads(line) for line in self._log.newest()]

    async def _entries(self, server: Server) -> list[bytes]:
        with server.store.snapshot() as snapshot:
            return [entry for _, entry in snapshot.entries()]

    # -- faults ---------------------------------------------------------------------------------------------

    @contextmanager
    def _fail_point(
        self, node: Node, name: str, mode: Mode, data: Mapping[str, Any] | None
    ) -> Iterator[FailPoint]:
        point = self.call(self._configure(node, name, mode, data or {}))
        try:
            yield point
        finally:
            if self._served is not None:
                self.call(self._configure(node, name, "off", data or {}))

    async def _configure(self, node: Node, name: str, mode: Mode, data: Mapping[str, Any]) -> FailPoint:
        return set_fail_point(node, name, mode, data)


def memory_folder() -> str | None:
    """A folder in memory if there is room; None for the system's folder of temporary files."""
    if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ENOUGH_MEMORY:
        return str(_MEMORY)
    return None
