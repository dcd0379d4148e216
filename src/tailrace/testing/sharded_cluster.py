"""A sharded cluster inside a test: real sockets, real stores, routers that drivers take for mongos.

>>> with ShardedCluster(shards=2) as cluster:
...     client = cluster.client()
...     found = client.admin.command("hello")["msg"], len(client.admin.command("listShards")["shards"])
>>> found
('isdbgrid', 2)
"""

import asyncio
import json
import tempfile
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TextIO, TypeVar, Unpack

import bson
from bson import Timestamp
from pymongo import MongoClient

from tailrace.cluster.cluster import Cluster
from tailrace.model.cluster_time import to_timestamp
from tailrace.server.fail_points import FAIL_COMMAND, FailPoint
from tailrace.server.logbook import Logbook
from tailrace.server.member_fail_points import set_fail_point
from tailrace.server.options import ServerOptions
from tailrace.server.server import Server
from tailrace.store.clock import WallClock
from tailrace.testing.replica_set import Mode, Options, memory_folder

T = TypeVar("T")
Document = dict[str, Any]

_CALL_SECONDS: Final = 60.0
_SELECTION_MS: Final = 5000


class ShardedCluster:
    """A cluster for a `with` block; or from `start` to `stop`."""

    def __init__(
        self, shards: int = 2, routers: int = 1, *, log: TextIO | None = None, **options: Unpack[Options]
    ) -> None:
        """``log`` gets a copy of all servers' log. Without ``data`` everything ends with the cluster."""
        options.setdefault("port", 0)
        self.options = ServerOptions(shards=shards, routers=routers, **options)
        self.wall = WallClock()
        self._log = Logbook(self.options.log_level, log)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._clients: list[MongoClient[Document]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._cluster: Cluster | None = None

    # -- life -----------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the cluster; its routers accept connections when this returns."""
        if self._cluster is not None:
            raise RuntimeError("the cluster is running already")
        if self.options.data is None:
            self._folder = tempfile.TemporaryDirectory(
                prefix="tailrace-", dir=memory_folder(), ignore_cleanup_errors=True
            )
            self.options = replace(self.options, data=Path(self._folder.name))
        loop = self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=loop.run_forever, name="tailrace-cluster", daemon=True)
        self._thread.start()
        try:
            self._cluster = self.call(self._started())
        except BaseException:
            self._end()
            raise
        return self

    async def _started(self) -> Cluster:
        cluster = Cluster(self.options, wall=self.wall, log=self._log)
        await cluster.start()
        return cluster

    def stop(self) -> None:
        """Close the clients, stop the cluster and remove its data."""
        for client in self._clients:
            client.close()
        self._clients = []
        if self._loop is None:
            return
        try:
            self._stop_cluster()
        finally:
            self._end()

    def restart(self) -> None:
        """Stop and start on the same data; ports that were not given are others now."""
        self._stop_cluster()
        self._cluster = self.call(self._started())

    def _stop_cluster(self) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            self.call(cluster.stop())

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

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- access ---------------------------------------------------------------------------------------------

    @property
    def cluster(self) -> Cluster:
        """The cluster itself; to be touched in its event loop only, see `call`."""
        if self._cluster is None:
            raise RuntimeError("the cluster is not running")
        return self._cluster

    @property
    def uri(self) -> str:
        """The connection string; it names all routers."""
        return self.cluster.uri

    @property
    def shards(self) -> list[str]:
        """The names of the shards."""
        return list(self.cluster.shards)

    @property
    def cluster_time(self) -> Timestamp:
        """The time of the newest write on any shard."""
        return to_timestamp(self.cluster.states.last_committed)

    def client(self, router: int | None = None, **options: Any) -> "MongoClient[Document]":
        """A new PyMongo client of one router, or of all of them; closed with the cluster at the latest."""
        uri = self.uri if router is None else f"mongodb://{self.cluster.routers[router].member}/"
        return self._client(uri, options)

    def shard_client(self, name: str, **options: Any) -> "MongoClient[Document]":
        """A new client of a shard, or of the config server by the name `config`."""
        return self._client(self.cluster.server(name).uri, options)

    def _client(self, uri: str, options: Mapping[str, Any]) -> "MongoClient[Document]":
        client: MongoClient[Document] = MongoClient(
            uri, **{"serverSelectionTimeoutMS": _SELECTION_MS, **options}
        )
        self._clients.append(client)
        return client

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the cluster's event loop and wait for its result."""
        if self._loop is None:
            work.close()
            raise RuntimeError("the cluster is not running")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=_CALL_SECONDS)

    def log(self) -> list[Document]:
        """The newest lines of the log, those of earlier starts included."""
        return [json.loads(line) for line in self._log.newest()]

    def oplog(self, shard: str) -> list[Document]:
        """Every oplog entry of a shard, oldest first."""
        return [bson.decode(entry) for entry in self.call(self._entries(self.cluster.server(shard)))]

    @staticmethod
    async def _entries(server: Server) -> list[bytes]:
        with server.store.snapshot() as snapshot:
            return [entry for _, entry in snapshot.entries()]

    # -- disturbances ---------------------------------------------------------------------------------------

    def truncate_oplog(self, shard: str) -> None:
        """Remove all oplog entries of a shard but the newest."""
        server = self.cluster.server(shard)
        self.call(server.truncate_oplog(server.last_write_time()))

    @contextmanager
    def fail_point(
        self,
        name: str = FAIL_COMMAND,
        mode: Mode = "alwaysOn",
        data: Mapping[str, Any] | None = None,
        *,
        router: int = 0,
        shard: str | None = None,
    ) -> Iterator[FailPoint]:
        """A fail point on a router, or on a shard, for the time of a block."""
        server: Server = self.cluster.routers[router] if shard is None else self.cluster.server(shard)
        point = self.call(self._configure(server, name, mode, data or {}))
        try:
            yield point
        finally:
            if self._cluster is not None:
                self.call(self._configure(server, name, "off", data or {}))

    @staticmethod
    async def _configure(server: Server, name: str, mode: Mode, data: Mapping[str, Any]) -> FailPoint:
        return set_fail_point(server, name, mode, data)
