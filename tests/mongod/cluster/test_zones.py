"""Zones: which shards may own which ranges of a collection."""

from collections.abc import Iterator
from typing import Any

import pytest
from bson import MaxKey, MinKey
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from tailrace.testing.sharded_cluster import ShardedCluster
from tests.mongod.cluster.test_balancer import balance

Document = dict[str, Any]
SHARDS = ("shard0", "shard1", "shard2")


@pytest.fixture
def cluster() -> Iterator[ShardedCluster]:
    with ShardedCluster(shards=3) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: ShardedCluster) -> "MongoClient[Document]":
    client = cluster.client()
    client.admin.command("enableSharding", "shop", primaryShard="shard0")
    client.admin.command("addShardToZone", "shard1", zone="low")
    client.admin.command("addShardToZone", "shard2", zone="high")
    return client


def code_of(client: "MongoClient[Document]", command: Document) -> int | None:
    with pytest.raises(OperationFailure) as failure:
        client.admin.command(command)
    return failure.value.code


def put(
    client: "MongoClient[Document]", low: Any, high: Any, zone: str | None, ns: str = "shop.items"
) -> None:
    client.admin.command({"updateZoneKeyRange": ns, "min": {"k": low}, "max": {"k": high}, "zone": zone})


def held(cluster: ShardedCluster) -> list[list[int]]:
    clients = [cluster.shard_client(shard) for shard in SHARDS]
    return [sorted(document["k"] for document in client.shop.items.find()) for client in clients]


def test_shards_and_ranges_are_stored(client: "MongoClient[Document]") -> None:
    client.admin.command("addShardToZone", "shard1", zone="high")
    client.admin.command("addShardToZone", "shard1", zone="high")
    assert client.config.shards.find_one({"_id": "shard1"}, {"tags": 1, "_id": 0}) == {
        "tags": ["low", "high"]
    }
    put(client, 0, 10, "low")
    put(client, 0, 10, "high")
    (stored,) = client.config.tags.find({}, {"_id": 0})
    assert stored == {"ns": "shop.items", "min": {"k": 0}, "max": {"k": 10}, "tag": "high"}
    put(client, 1, 10, None)
    assert client.config.tags.count_documents({}) == 1
    put(client, 0, 10, None)
    assert client.config.tags.count_documents({}) == 0
    client.admin.command("removeShardFromZone", "shard1", zone="low")
    assert client.config.shards.find_one({"_id": "shard1"}, {"tags": 1, "_id": 0}) == {"tags": ["high"]}


def test_refusals(client: "MongoClient[Document]") -> None:
    update = {"updateZoneKeyRange": "shop.items", "min": {"k": 5}, "max": {"k": 15}, "zone": "low"}
    assert code_of(client, {"addShardToZone": "none", "zone": "low"}) == 70
    assert code_of(client, {"removeShardFromZone": "shard0", "zone": "none"}) == 177
    assert code_of(client, {**update, "zone": "none"}) == 177
    assert code_of(client, {**update, "max": {"k": 5}}) == 2
    put(client, 0, 10, "low")
    assert code_of(client, update) == 178
    assert code_of(client, {"removeShardFromZone": "shard1", "zone": "low"}) == 163
    client.admin.command("shardCollection", "shop.other", key={"k": 1})
    assert code_of(client, {**update, "updateZoneKeyRange": "shop.other", "min": {"x": 1}}) == 61


def test_an_empty_collection_is_sharded_by_its_zones(client: "MongoClient[Document]") -> None:
    put(client, 0, 10, "low")
    put(client, 20, MaxKey(), "high")
    client.admin.command("shardCollection", "shop.items", key={"k": 1})
    uuid = client.config.collections.find_one({"_id": "shop.items"}, {"uuid": 1})
    assert uuid is not None
    chunks = client.config.chunks.find({"uuid": uuid["uuid"]}).sort("min", 1)
    found = [(chunk["min"]["k"], chunk["max"]["k"], chunk["shard"]) for chunk in chunks]
    assert [ends[:2] for ends in found] == [(MinKey(), 0), (0, 10), (10, 20), (20, MaxKey())]
    assert (found[1][2], found[3][2]) == ("shard1", "shard2")


def test_moves_respect_zones(cluster: ShardedCluster, client: "MongoClient[Document]") -> None:
    client.admin.command("shardCollection", "shop.items", key={"k": 1})
    client.shop.items.insert_many([{"k": number} for number in range(-2, 4)])
    client.admin.command("split", "shop.items", middle={"k": 0})
    put(client, 0, 100, "low")
    move: Document = {"moveRange": "shop.items", "min": {"k": 0}, "max": {"k": 2}, "toShard": "shard2"}
    assert code_of(client, move) == 20
    client.admin.command({**move, "toShard": "shard1"})
    assert held(cluster) == [[-2, -1, 2, 3], [0, 1], []]
    assert balance(cluster) == 0  # the balancer is off
    status = client.admin.command("balancerCollectionStatus", "shop.items")
    assert status["firstComplianceViolation"] == "zoneViolation"
    client.admin.command("balancerStart")
    balance(cluster)
    assert held(cluster) == [[-2, -1], [0, 1, 2, 3], []]
    put(client, 0, 100, "high")
    balance(cluster)
    assert held(cluster) == [[-2, -1], [], [0, 1, 2, 3]]


def test_ranges_follow_their_collection(client: "MongoClient[Document]") -> None:
    client.admin.command("shardCollection", "shop.items", key={"k": 1})
    put(client, 0, 10, "low")
    client.admin.command("renameCollection", "shop.items", to="shop.renamed")
    assert [each["ns"] for each in client.config.tags.find()] == ["shop.renamed"]
    client.shop.renamed.drop()
    assert client.config.tags.count_documents({}) == 0


def test_resharding_with_zones(cluster: ShardedCluster, client: "MongoClient[Document]") -> None:
    client.admin.command("shardCollection", "shop.items", key={"old": 1})
    client.shop.items.insert_many([{"k": number, "old": number} for number in range(6)])
    client.admin.command("updateZoneKeyRange", "shop.items", min={"old": 0}, max={"old": 3}, zone="low")
    assert code_of(client, {"reshardCollection": "shop.items", "key": {"k": 1}}) == 2
    zones = [{"zone": "high", "min": {"k": MinKey()}, "max": {"k": 4}}]
    client.admin.command("reshardCollection", "shop.items", key={"k": 1}, zones=zones)
    assert held(cluster)[2][:4] == [0, 1, 2, 3]
    (stored,) = client.config.tags.find({}, {"_id": 0})
    assert stored == {"ns": "shop.items", "min": {"k": MinKey()}, "max": {"k": 4}, "tag": "high"}


def test_a_number_of_chunks_for_a_range_key_is_ignored(client: "MongoClient[Document]") -> None:
    client.admin.command("shardCollection", "shop.many", key={"k": 1}, numInitialChunks=5)
    with ShardedCluster(shards=1, server_version="6.0.27") as older:
        command = {"shardCollection": "shop.many", "key": {"k": 1}, "numInitialChunks": 5}
        assert code_of(older.client(), command) == 72
