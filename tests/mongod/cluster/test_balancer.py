"""When it is on, the balancer moves ranges from the fullest shard to the emptiest."""

from collections.abc import Iterator
from typing import Any

import pytest
from pymongo import MongoClient

from tailrace.testing.sharded_cluster import ShardedCluster

Document = dict[str, Any]
SHARDS = ("shard0", "shard1", "shard2")
CHUNK_MEGABYTES = 0.02


@pytest.fixture
def cluster() -> Iterator[ShardedCluster]:
    with ShardedCluster(shards=3) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: ShardedCluster) -> "MongoClient[Document]":
    client = cluster.client()
    client.config.settings.update_one({"_id": "chunksize"}, {"$set": {"value": CHUNK_MEGABYTES}}, upsert=True)
    client.admin.command("enableSharding", "shop", primaryShard="shard0")
    for name in ("items", "left"):
        client.admin.command("shardCollection", f"shop.{name}", key={"k": 1})
        client.shop[name].insert_many([{"_id": n, "k": n, "s": "x" * 1000} for n in range(300)])
    return client


def held(cluster: ShardedCluster, name: str) -> list[int]:
    clients = (cluster.shard_client(shard) for shard in SHARDS)
    return [client.shop[name].count_documents({}) for client in clients]


def balance(cluster: ShardedCluster) -> int:
    """Run rounds without pauses until nothing is moved; returns how many ranges were moved."""

    async def rounds() -> int:
        number = 0
        while True:
            is_moved = await cluster.cluster.parts.balancer.round()
            for cleanup in list(cluster.cluster.parts.moves.cleanups.values()):
                await cleanup.task
            if not is_moved:
                return number
            number += 1

    return cluster.call(rounds())


def test_off_by_default(cluster: ShardedCluster, client: "MongoClient[Document]") -> None:
    assert client.admin.command("balancerStatus")["mode"] == "off"
    assert balance(cluster) == 0
    status = client.admin.command("balancerCollectionStatus", "shop.items")
    assert (status["balancerCompliant"], status["firstComplianceViolation"]) == (False, "chunksImbalance")
    assert held(cluster, "items") == [300, 0, 0]


def test_balances(cluster: ShardedCluster, client: "MongoClient[Document]") -> None:
    client.config.collections.update_one({"_id": "shop.left"}, {"$set": {"noBalance": True}})
    with client.shop.watch(max_await_time_ms=100) as stream:
        client.admin.command("balancerStart")
        assert client.admin.command("balancerStatus")["mode"] == "full"
        assert balance(cluster) + client.admin.command("balancerStatus")["numBalancerRounds"] > 4
        client.admin.command("balancerStop")
        assert stream.try_next() is None
    assert max(held(cluster, "items")) - min(held(cluster, "items")) < 3 * CHUNK_MEGABYTES * 1100
    assert sum(held(cluster, "items")) == 300
    assert held(cluster, "left") == [300, 0, 0]
    assert client.admin.command("balancerCollectionStatus", "shop.items")["balancerCompliant"]
    assert sorted(found["_id"] for found in client.shop.items.find()) == list(range(300))


def test_runs_in_the_background(cluster: ShardedCluster, client: "MongoClient[Document]") -> None:
    """A stream on config.changelog shows its moves."""
    whole: list[Document] = [
        {"$changeStream": {"allowToRunOnConfigDB": True}},
        {"$match": {"operationType": "insert"}},
    ]
    changes = cluster.shard_client("config").config.changelog.aggregate(whole)
    client.admin.command("balancerStart")
    what = {next(changes)["fullDocument"]["what"] for _ in range(3)}
    assert what == {"moveChunk.start", "moveChunk.commit", "moveChunk.from"}


def test_a_range_that_cannot_be_moved_does_not_stop_others(
    cluster: ShardedCluster, client: "MongoClient[Document]"
) -> None:
    """Two documents with the same `_id` prevent one collection from being drained; the others are drained."""
    client.admin.command("split", "shop.items", middle={"k": 1000})
    client.admin.command("moveRange", "shop.items", min={"k": 1000}, max={"k": 2000}, toShard="shard1")
    client.admin.command("moveRange", "shop.items", min={"k": 2000}, max={"k": 3000}, toShard="shard2")
    client.shop.items.insert_many([{"_id": 1, "k": 1500}, {"_id": 1, "k": 2500}])
    client.admin.command("removeShard", "shard0")
    balance(cluster)
    assert held(cluster, "left")[0] == 0
    assert held(cluster, "items") == [300, 1, 1]
    remaining = client.admin.command("removeShard", "shard0")["remaining"]
    assert remaining["chunks"] > 0
    client.shop.items.delete_many({"_id": 1, "k": {"$gte": 1000}})
    balance(cluster)
    assert held(cluster, "items")[0] == 0
