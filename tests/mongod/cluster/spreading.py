"""Collections spread over the shards of a cluster, and raw commands."""

import itertools
import socket
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from bson import Binary, Int64
from pymongo import MongoClient
from pymongo.collection import Collection

from tailrace.testing.sharded_cluster import ShardedCluster
from tests.mongod.server.raw_client import TIMEOUT_SECONDS, RawClient

Document = dict[str, Any]
Orders = Collection[Document]

_databases = (f"orders{number}" for number in itertools.count())


def spread(
    cluster: ShardedCluster, collection: Collection[Document], key: Mapping[str, Any], *points: Document
) -> None:
    """Shard a collection, split it at the points, and move the chunks to the shards in turn."""
    admin = collection.database.client.admin
    admin.command("shardCollection", collection.full_name, key=key)
    for point in points:
        admin.command("split", collection.full_name, middle=point)
    for number, point in enumerate(points, 1):
        move(cluster, collection, point, cluster.shards[number % len(cluster.shards)])


def spread_orders(cluster: ShardedCluster, client: MongoClient[Document], *points: int) -> Orders:
    """Orders in their own database on the first shard, sharded by `x` and split at the points."""
    orders = client[next(_databases)].orders
    cluster.call(cluster.cluster.placement.create_database(orders.database.name, cluster.shards[0]))
    spread(cluster, orders, {"x": 1}, *({"x": point} for point in points))
    return orders


def move(
    cluster: ShardedCluster, collection: Collection[Document], point: Mapping[str, Any], shard: str
) -> None:
    """Move the chunk that begins at a point to a shard."""
    sharded = cluster.cluster.placement.sharded(collection.full_name)
    assert sharded is not None
    chunk = sharded.chunks.chunk_of(sharded.key.bound(point))
    if chunk.shard != shard:
        collection.database.client.admin.command(
            "moveRange", collection.full_name, min=dict(chunk.min), max=dict(chunk.max), toShard=shard
        )


def on_shards(cluster: ShardedCluster, collection: Collection[Document]) -> list[list[Any]]:
    """The ids on each shard."""
    found = []
    for shard in cluster.shards:
        own = cluster.shard_client(shard)[collection.database.name][collection.name]
        found.append(sorted(document["_id"] for document in own.find()))
    return found


class RetryableWriter:
    """A session that sends the same retryable command repeatedly, through any router."""

    def __init__(self, cluster: ShardedCluster) -> None:
        self._cluster = cluster
        self.id = Binary(uuid.uuid4().bytes, 4)
        self._number = 0

    @property
    def has_sent(self) -> bool:
        """Whether there is a command to repeat."""
        return self._number > 0

    def send(self, command: Document, database: str, *, router: int = 0) -> Document:
        """Send a new command and return its reply."""
        self._number += 1
        return self.repeat(command, database, router=router)

    def repeat(self, command: Document, database: str, *, router: int = 0) -> Document:
        """Send the last command again."""
        with raw_client(self._cluster, router) as raw:
            session = {"lsid": {"id": self.id}, "txnNumber": Int64(self._number), "$db": database}
            return raw.call({**command, **session})


@contextmanager
def raw_client(cluster: ShardedCluster, router: int = 0) -> Iterator[RawClient]:
    host, _, port = cluster.cluster.routers[router].address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=TIMEOUT_SECONDS) as endpoint:
        yield RawClient(endpoint)


def outcomes(reply: Mapping[str, Any], *names: str) -> Sequence[Any]:
    return [reply.get(name) for name in names]
