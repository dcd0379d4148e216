"""A sharded cluster inside a test: real sockets, real stores, routers that behave like mongos.

>>> with ShardedCluster(shards=2) as cluster:
...     client = cluster.client()
...     found = client.admin.command("hello")["msg"], len(client.admin.command("listShards")["shards"])
>>> found
('isdbgrid', 2)
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO, Unpack

import bson
from bson import Timestamp
from pymongo import MongoClient

from tailrace.events.cluster_time import to_timestamp
from tailrace.mongod.cluster.cluster import Cluster
from tailrace.mongod.server.emulation.fail_points import FAIL_COMMAND, FailPoint
from tailrace.mongod.server.node import Node
from tailrace.mongod.server.options import ServerOptions
from tailrace.testing.in_thread import Document, InThread, Mode, Options


class ShardedCluster(InThread[Cluster]):
    """A cluster for a `with` block, or from `start` to `stop`.

    A restart picks new ports, unless they were given.
    """

    name = "cluster"

    def __init__(
        self, shards: int = 2, routers: int = 1, *, log: TextIO | None = None, **options: Unpack[Options]
    ) -> None:
        """``log`` gets a copy of all servers' logs. Without ``data`` the data is removed at the end."""
        options.setdefault("port", 0)
        super().__init__(ServerOptions(shards=shards, routers=routers, **options), log)

    def _new(self) -> Cluster:
        return Cluster(self.options, wall=self.wall, log=self._log)

    # -- access ---------------------------------------------------------------------------------------------

    @property
    def cluster(self) -> Cluster:
        """The cluster; use it only in its event loop, see `call`."""
        return self._running

    @property
    def shards(self) -> list[str]:
        """The names of the shards."""
        return list(self.cluster.shards)

    @property
    def cluster_time(self) -> Timestamp:
        """The time of the newest write on any shard."""
        return to_timestamp(self.cluster.states.last_committed)

    def client(self, router: int | None = None, **options: Any) -> "MongoClient[Document]":
        """Return a new PyMongo client of one router, or of all; it is closed with the cluster."""
        uri = self.uri if router is None else f"mongodb://{self.cluster.routers[router].address}/"
        return self._client(uri, options)

    def shard_client(self, name: str, **options: Any) -> "MongoClient[Document]":
        """Return a new client of a shard, or of the config server with the name `config`."""
        return self._client(self.cluster.server(name).uri, options)

    def oplog(self, shard: str) -> list[Document]:
        """Every oplog entry of a shard, oldest first."""
        return [bson.decode(entry) for entry in self.call(self._entries(self.cluster.server(shard)))]

    # -- faults ---------------------------------------------------------------------------------------------

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
        """Switch on a fail point of a router or a shard during a block; yield it."""
        node: Node = self.cluster.routers[router] if shard is None else self.cluster.server(shard).first
        with self._fail_point(node, name, mode, data) as point:
            yield point
