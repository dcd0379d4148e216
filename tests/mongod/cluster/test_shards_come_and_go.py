"""Shards join and leave a running cluster: data, streams and routers keep working."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from tailrace.testing.sharded_cluster import ShardedCluster
from tests.mongod.cluster.folding import drained
from tests.mongod.cluster.refusals import code_of

Document = dict[str, Any]


@pytest.fixture
def cluster() -> Iterator[ShardedCluster]:
    with ShardedCluster(shards=2) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: ShardedCluster) -> "MongoClient[Document]":
    return cluster.client()


def remove(client: "MongoClient[Document]", name: str) -> list[Document]:
    """Call removeShard until the shard is gone; returns all replies."""
    replies: list[Document] = []
    while not replies or replies[-1]["state"] != "completed":
        replies.append(client.admin.command("removeShard", name))
        if replies[-1]["state"] == "ongoing":
            for database in replies[-1]["dbsToMove"]:
                client.admin.command("movePrimary", database, to="shard0")
            for ns in replies[-1]["collectionsToMove"]:
                client.admin.command("moveCollection", ns, toShard="shard0")
    return replies


def shards_of(client: "MongoClient[Document]") -> list[str]:
    return [shard["_id"] for shard in client.admin.command("listShards")["shards"]]


class Writer(threading.Thread):
    """Inserts documents, and changes some, until it is stopped."""

    def __init__(self, client: "MongoClient[Document]") -> None:
        super().__init__()
        self._items = client.shop.items
        self._stopping = threading.Event()
        self.expected: list[tuple[str, int]] = []
        self.failure: BaseException | None = None

    def run(self) -> None:
        number = 0
        try:
            while not self._stopping.is_set():
                number += 1
                self._items.insert_one({"_id": number, "k": number % 100})
                self.expected.append(("insert", number))
                if number % 3 == 0:
                    self._items.update_one({"_id": number, "k": number % 100}, {"$set": {"n": 1}})
                    self.expected.append(("update", number))
        except BaseException as error:
            self.failure = error

    def stop(self) -> None:
        self._stopping.set()
        self.join()
        assert self.failure is None, self.failure


def test_streams_continue(cluster: ShardedCluster, client: "MongoClient[Document]") -> None:
    """A shard joins, gets a range, gives it back and leaves, while a writer writes and streams are open."""
    client.admin.command("enableSharding", "shop", primaryShard="shard0")
    client.admin.command("shardCollection", "shop.items", key={"k": 1})
    client.admin.command("split", "shop.items", middle={"k": 50})
    writer = Writer(cluster.client())
    with client.shop.items.watch(max_await_time_ms=200) as stream, client.watch() as late:
        writer.start()
        try:
            assert client.admin.command("addShard", "extra")["shardAdded"] == "extra"
            client.admin.command("moveChunk", "shop.items", find={"k": 70}, to="extra")
            before = len(writer.expected)
            while len(writer.expected) < before + 50:
                assert writer.is_alive(), writer.failure
            replies = remove(client, "extra")
        finally:
            writer.stop()
        assert [reply["state"] for reply in replies][0 :: len(replies) - 1] == ["started", "completed"]
        client.shop.items.insert_one({"_id": 0, "k": 70})
        expected = [*writer.expected, ("insert", 0)]
        for one in (stream, late):
            shown = [one.next() for _ in expected]
            assert [(event["operationType"], event["documentKey"]["_id"]) for event in shown] == expected
        assert stream.try_next() is None
        middle = shown[len(shown) // 2]["_id"]
    assert shards_of(client) == ["shard0", "shard1"]
    assert client.shop.items.count_documents({}) == len({number for _, number in expected})
    # A new stream from before the removal could miss events of the removed shard.
    with pytest.raises(OperationFailure) as caught, client.watch(resume_after=middle) as stream:
        stream.next()
    assert caught.value.code == 286


def test_remove(cluster: ShardedCluster, client: "MongoClient[Document]") -> None:
    """The replies, and what a client has to move."""
    client.admin.command("enableSharding", "shop", primaryShard="shard1")
    client.shop.items.insert_many([{"_id": n, "k": n} for n in range(10)])
    client.shop.placed.insert_one({"_id": 1})
    client.admin.command("enableSharding", "other", primaryShard="shard0")
    client.other.there.insert_one({"_id": 1})
    client.admin.command("moveCollection", "other.there", toShard="shard1")
    client.shop.items.create_index("k")
    client.admin.command("shardCollection", "shop.items", key={"k": 1})
    started = client.admin.command("removeShard", "shard1")
    assert (started["state"], started["shard"], started["dbsToMove"]) == ("started", "shard1", ["shop"])
    assert started["collectionsToMove"] == ["other.there"]
    assert client.config.shards.find_one({"_id": "shard1"})["draining"] is True  # type: ignore[index]
    assert code_of(client.admin, "removeShard", "shard0") == 117
    assert code_of(client.admin, "removeShard", "nowhere") == 70
    assert code_of(client.admin, "moveChunk", "shop.items", find={"k": 1}, to="shard1") == 96
    ongoing = client.admin.command("removeShard", "shard1")
    assert ongoing["state"] == "ongoing"
    assert (ongoing["remaining"]["dbs"], ongoing["remaining"]["collectionsToMove"]) == (1, 1)
    completed = remove(client, "shard1")[-1]
    assert (completed["msg"], completed["shard"]) == ("removeshard completed successfully", "shard1")
    assert shards_of(client) == ["shard0"]
    assert client.shop.items.count_documents({}) == 10
    assert client.shop.placed.count_documents({}) == client.other.there.count_documents({}) == 1
    assert code_of(client.admin, "removeShard", "shard0") == 20
    assert code_of(client.admin, "removeShard", "shard1") == 70
    what = [entry["what"] for entry in client.config.changelog.find({"what": {"$regex": "emoveShard"}})]
    assert what == ["removeShard.start", "removeShard"]


def test_a_removed_shard_joins_again(cluster: ShardedCluster, client: "MongoClient[Document]") -> None:
    """It keeps running as a replica set, and its new databases become part of the cluster."""
    client.admin.command("enableSharding", "shop", primaryShard="shard1")
    client.shop.items.insert_one({"_id": 1})
    host = next(shard["host"] for shard in client.config.shards.find() if shard["_id"] == "shard1")
    alone = cluster.shard_client("shard1")
    remove(client, "shard1")
    assert alone.shop.list_collection_names() == []
    alone.own.things.insert_one({"_id": 1})
    assert "own" not in client.list_database_names()
    assert code_of(client.admin, "addShard", "shard1/elsewhere:27017") == 96
    assert code_of(client.admin, "addShard", "config") == 2
    assert code_of(client.admin, "addShard", "no good") == 2
    alone.shop.items.insert_one({"_id": 2})
    assert code_of(client.admin, "addShard", host) == 96  # both have a database shop
    alone.drop_database("shop")
    with client.watch(max_await_time_ms=200) as stream:
        assert client.admin.command("addShard", host)["shardAdded"] == "shard1"
        assert client.admin.command("addShard", host)["shardAdded"] == "shard1"
        client.own.things.insert_one({"_id": 2})
        assert stream.next()["documentKey"] == {"_id": 2}
    assert [found["_id"] for found in client.own.things.find()] == [1, 2]
    assert client.config.databases.find_one({"_id": "own"})["primary"] == "shard1"  # type: ignore[index]


def test_after_a_restart(cluster: ShardedCluster, client: "MongoClient[Document]") -> None:
    """A cluster starts with its shards, and continues to drain one."""
    client.admin.command("addShard", "")
    assert shards_of(client) == ["shard0", "shard1", "shard2"]
    client.admin.command("enableSharding", "shop", primaryShard="shard0")
    client.admin.command("shardCollection", "shop.items", key={"k": "hashed"})
    client.shop.items.insert_many([{"_id": n, "k": n} for n in range(100)])
    client.admin.command("removeShard", "shard1")
    client.close()
    cluster.restart()
    client = cluster.client()
    assert shards_of(client) == ["shard0", "shard1", "shard2"]
    remove(client, "shard1")
    client.close()
    cluster.restart()
    client = cluster.client()
    assert shards_of(client) == ["shard0", "shard2"]
    assert client.shop.items.count_documents({}) == 100
    assert client.admin.command("addShard", "")["shardAdded"] == "shard3"


def test_writes_on_a_removed_shard_are_not_in_streams(
    cluster: ShardedCluster, client: "MongoClient[Document]"
) -> None:
    """Neither at once nor after a restart, wherever the streams begin."""
    host = next(shard["host"] for shard in client.config.shards.find() if shard["_id"] == "shard1")
    alone = cluster.shard_client("shard1")
    remove(client, "shard1")
    start = client.admin.command("appendOplogNote", data={"left": 1})["operationTime"]
    alone.own.things.insert_one({"_id": "away"})
    client.admin.command("addShard", host)
    client.own.things.insert_one({"_id": "back"})
    client.admin.command("removeShard", "shard1")  # draining does not make it join again

    def shown() -> list[Any]:
        with cluster.client().own.watch(start_at_operation_time=start, max_await_time_ms=100) as stream:
            return [event["documentKey"]["_id"] for event in drained(stream) if "documentKey" in event]

    assert shown() == ["back"]
    client.close()
    cluster.restart()
    assert shown() == ["back"]
