"""A replica set inside a test: real sockets, a real store, and the means to disturb it.

The server runs in a thread with an event loop of its own, so that a test may block as it likes. Its data is
in memory where the system has a place for that; everything else is as `tailrace serve` does it. Ready within
milliseconds, so a test that needs a set for itself can have one.

>>> with ReplicaSet() as replica_set:
...     with replica_set.client().shop.orders.watch() as stream:
...         inserted = replica_set.client().shop.orders.insert_one({"item": "teapot"})
...         next(stream)["fullDocument"]["item"]
'teapot'
"""

import asyncio
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TextIO, TypedDict, TypeVar, Unpack

import bson
from bson import Timestamp
from pymongo import MongoClient

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.model.cluster_time import to_timestamp
from tailrace.server.fail_points import CUT_OFF, FAIL_COMMAND, FailPoint
from tailrace.server.logbook import Logbook
from tailrace.server.member_fail_points import set_fail_point
from tailrace.server.options import ServerOptions
from tailrace.server.server import Server
from tailrace.store.catalog import OPLOG_NS
from tailrace.store.clock import WallClock

if TYPE_CHECKING:
    from tailrace.testing.history_builder import HistoryBuilder

T = TypeVar("T")
Document = dict[str, Any]
Mode = str | Mapping[str, int | float]
"""`"alwaysOn"`, `"off"`, `{"times": n}`, `{"skip": n}` or `{"activationProbability": p}`"""

_MEMORY: Final = Path("/dev/shm")
_ENOUGH_MEMORY: Final = 1 << 30
"""Containers often have a very small one; a disk is the better place then."""
_CALL_SECONDS: Final = 30.0
_SELECTION_MS: Final = 5000


class Options(TypedDict, total=False):
    """What a set may be started with: the fields of `ServerOptions`; the port is a free one by default."""

    host: str
    port: int
    data: Path | None
    replica_set: str | None
    advertise: str | None
    history: Path | None
    head: bool
    oplog_bytes: int
    max_bytes: int
    max_connections: int
    log_level: str
    server_version: str
    members: int
    parameters: Mapping[str, Any]


class ReplicaSet:
    """A replica set, of one member if not told otherwise, for a `with` block; or from `start` to `stop`."""

    def __init__(
        self, *, log: TextIO | None = None, builds_history: bool = False, **options: Unpack[Options]
    ) -> None:
        """``log`` gets a copy of the server's log. Without ``data`` everything ends with the set.

        With ``builds_history`` the history is built in this process while the set runs, without Spark.
        """
        options.setdefault("port", 0)
        self._builds_history = builds_history
        self._builder: HistoryBuilder | None = None
        self.options = ServerOptions(**options)
        self.wall = WallClock()
        self._log = Logbook(self.options.log_level, log)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._clients: list[MongoClient[Document]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._server: Server | None = None

    # -- life -----------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the server; it accepts connections when this returns."""
        if self._server is not None:
            raise RuntimeError("the replica set is running already")
        if self.options.data is None:
            self._folder = tempfile.TemporaryDirectory(
                prefix="tailrace-", dir=memory_folder(), ignore_cleanup_errors=True
            )
            self.options = replace(self.options, data=Path(self._folder.name))
        loop = self._loop = asyncio.new_event_loop()
        # A set that nobody stopped must not keep the process from ending.
        self._thread = threading.Thread(target=loop.run_forever, name="tailrace-replica-set", daemon=True)
        self._thread.start()
        try:
            self._start_server()
        except BaseException:
            self._end_loop()
            self._remove_data()
            raise
        return self

    def stop(self) -> None:
        """Close the clients, stop the server and remove its data; what is stopped stays so."""
        for client in self._clients:
            client.close()
        self._clients = []
        if self._loop is None:
            return
        try:
            self._stop_server()
        finally:
            self._end_loop()
            self._remove_data()

    def restart(self) -> None:
        """Stop and start on the same data and port; clients find it again by themselves."""
        self._stop_server()
        self._start_server()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start_server(self) -> None:
        self._server = self.call(self._started())
        others = tuple(member.port for member in self._server.members[1:])
        self.options = replace(self.options, port=self._server.port, member_ports=others)
        if self._builds_history:
            self._builder = self._new_builder().start()

    def _new_builder(self) -> "HistoryBuilder":
        from tailrace.testing.history_builder import HistoryBuilder  # its packages are not everybody's

        if self.options.history is None:
            raise RuntimeError("to build a history, say where it is")
        return HistoryBuilder(self.server.store, self.options.history)

    async def _started(self) -> Server:
        server = Server(self.options, wall=self.wall, log=self._log)
        await server.start()
        return server

    def _stop_server(self) -> None:
        builder, self._builder = self._builder, None
        if builder is not None:
            builder.stop()
        server, self._server = self._server, None
        if server is not None:
            self.call(server.stop())

    def _end_loop(self) -> None:
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _remove_data(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
            self.options = replace(self.options, data=None)

    # -- access ---------------------------------------------------------------------------------------

    @property
    def server(self) -> Server:
        """The server itself; to be touched in its event loop only, see `call`."""
        if self._server is None:
            raise RuntimeError("the replica set is not running")
        return self._server

    @property
    def uri(self) -> str:
        """The connection string."""
        return self.server.uri

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the first member."""
        return self.options.host, self.server.port

    @property
    def members(self) -> list[str]:
        """The addresses of all members, `host:port`."""
        return [member.member for member in self.server.members]

    @property
    def primary(self) -> str | None:
        """The address of the member that takes writes now; None while there is none."""
        primary = self.server.primary
        return None if primary is None else primary.member

    def client(self, **options: Any) -> "MongoClient[Document]":
        """A new PyMongo client with these options, closed with the set at the latest."""
        client: MongoClient[Document] = MongoClient(
            self.uri, **{"serverSelectionTimeoutMS": _SELECTION_MS, **options}
        )
        self._clients.append(client)
        return client

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the server's event loop and wait for its result."""
        if self._loop is None:
            work.close()
            raise RuntimeError("the replica set is not running")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=_CALL_SECONDS)

    def log(self) -> list[Document]:
        """The newest lines of the server's log, those of earlier starts included."""
        return [json.loads(line) for line in self._log.newest()]

    def oplog(self) -> list[Document]:
        """Every oplog entry, oldest first, as a driver would read it from `local.oplog.rs`."""
        return [bson.decode(entry) for entry in self.call(self._entries())]

    async def _entries(self) -> list[bytes]:
        with self.server.store.snapshot() as snapshot:
            oplog = snapshot.catalog.collection(OPLOG_NS)
            return [] if oplog is None else [entry for _, entry in snapshot.records(oplog)]

    @property
    def cluster_time(self) -> Timestamp:
        """The time of the newest write."""
        return to_timestamp(self.server.last_write_time())

    def catch_up(self) -> None:
        """Have everything that was written so far in the history, and streams know of it."""
        history = self.server.history
        if self._builder is None or history is None:
            raise RuntimeError("this replica set builds no history")
        self._builder.build()
        self.call(history.look())

    # -- disturbances ---------------------------------------------------------------------------------

    def advance_clock(self, seconds: float) -> None:
        """Let time pass at once, back if negative: what was due meanwhile is done when this returns.

        Cursors and sessions that nobody used expire, so do pre-images; the next write has the new time.
        """
        self.call(self.server.advance_clock(seconds))

    def truncate_oplog(self, before: Timestamp | None = None) -> None:
        """Remove oplog entries older than a time, by default all but the newest entry.

        A stream that was not there yet cannot be resumed any more (286, ChangeStreamHistoryLost), unless
        there is a history. What that does not hold yet is not removed.
        """
        time = self.server.last_write_time() if before is None else before.time << 32 | before.inc
        self.call(self.server.truncate_oplog(time))

    def step_down(self, seconds: float = 60) -> None:
        """Let the primary stop being it; it may be elected again after that many seconds, or by `step_up`.

        Another member follows at once, if there is one.
        """
        self.call((self.server.primary or self.server).step_down(seconds))

    def step_up(self, member: int = 0) -> None:
        """Let a member be elected primary now, in a new term."""
        self.call(self.server.members[member].step_up())

    @contextmanager
    def cut_off(self, member: int) -> Iterator[None]:
        """A member that neither clients nor the others can reach, for the time of a block."""
        with self.fail_point(CUT_OFF, data={"member": member}):
            yield

    @contextmanager
    def fail_point(
        self,
        name: str = FAIL_COMMAND,
        mode: Mode = "alwaysOn",
        data: Mapping[str, Any] | None = None,
        *,
        member: int = 0,
    ) -> Iterator[FailPoint]:
        """A fail point in a mode for the time of a block; what it yields counts how often it acted.

        Each member has its own.
        """
        point = self.call(self._configure(member, name, mode, data or {}))
        try:
            yield point
        finally:
            if self._server is not None:
                self.call(self._configure(member, name, "off", data or {}))

    def settle(self) -> None:
        """Undo what a test may have left on a shared set: fail points, transactions that hold locks."""
        self.call(self._settle())

    async def _settle(self) -> None:
        over = CommandError(ErrorCode.Interrupted, "the test that began this transaction is over")
        for member in self.server.members:
            member.fail_points.disable_all()
            member.transactions.abort_all(over)
        for prepared in self.server.store.prepared:
            await prepared.abort()

    async def _configure(self, member: int, name: str, mode: Mode, data: Mapping[str, Any]) -> FailPoint:
        return set_fail_point(self.server.members[member], name, mode, data)


def memory_folder() -> str | None:
    """Where files live in memory, if there is room; None is the system's usual place."""
    if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ENOUGH_MEMORY:
        return str(_MEMORY)
    return None
