"""Access control on routers and shards: the users of the cluster, checked where a client connects."""

from collections.abc import Iterator
from typing import Any

import pytest
from bson import Binary, Int64
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from tailrace.testing.in_thread import Document
from tailrace.testing.sharded_cluster import ShardedCluster

Client = MongoClient[Document]
ROOT: dict[str, Any] = {"username": "root", "password": "the password"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ShardedCluster]:
    with ShardedCluster(shards=2, auth=True, first_user=("root", "the password")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def root(cluster: ShardedCluster) -> Client:
    client = cluster.client(**ROOT)
    client.admin.command("enableSharding", "shop")
    client.admin.command("shardCollection", "shop.orders", key={"_id": "hashed"})
    client.shop.orders.insert_many([{"_id": number} for number in range(20)])
    client.shop.command("createUser", "reader", pwd="p", roles=["read"])
    client.shop.command("createUser", "writer", pwd="p", roles=["readWrite"])
    return client


def user(cluster: ShardedCluster, name: str) -> Client:
    return cluster.client(username=name, password="p", authSource="shop")


def test_a_router_requires_a_log_in(cluster: ShardedCluster, root: Client) -> None:
    with pytest.raises(OperationFailure) as failure:
        cluster.client().shop.orders.find_one()
    assert failure.value.code == 13


def test_users_on_a_router(cluster: ShardedCluster, root: Client) -> None:
    reader, writer = user(cluster, "reader"), user(cluster, "writer")
    assert reader.shop.orders.count_documents({}) == root.shop.orders.count_documents({}) >= 20
    with pytest.raises(OperationFailure) as failure:
        reader.shop.orders.insert_one({})
    assert failure.value.code == 13
    writer.shop.orders.insert_one({"_id": "w"})
    writer.shop.orders.delete_one({"_id": "w"})
    with writer.start_session() as session, session.start_transaction():
        for number in range(100, 110):
            writer.shop.orders.insert_one({"_id": number}, session=session)
    assert writer.shop.orders.delete_many({"_id": {"$gte": 100}}).deleted_count == 10
    for command in ({"listShards": 1}, {"addShard": "shard7"}, {"balancerStop": 1}, {"shutdown": 1},
                    {"moveChunk": "shop.orders", "find": {"_id": 1}, "to": "shard0"}):  # fmt: skip
        with pytest.raises(OperationFailure) as failure:
            writer.admin.command(command)
        assert failure.value.code == 13, command
    assert len(root.admin.command("listShards")["shards"]) == 2


def test_streams_on_a_router(cluster: ShardedCluster, root: Client) -> None:
    root.shop.command("createUser", "leaving", pwd="p", roles=["read"])
    client = user(cluster, "leaving")
    with client.shop.orders.watch(max_await_time_ms=100) as stream:
        root.shop.orders.insert_one({"_id": "seen"})
        assert next(stream)["documentKey"] == {"_id": "seen"}
        root.shop.command("revokeRolesFromUser", "leaving", roles=["read"])
        root.shop.orders.delete_one({"_id": "seen"})
        with pytest.raises(OperationFailure) as failure:
            stream.try_next()
    assert failure.value.code == 13
    with pytest.raises(OperationFailure) as failure:
        user(cluster, "reader").watch()
    assert failure.value.code == 13


def test_shards_accept_the_users_of_the_cluster(cluster: ShardedCluster, root: Client) -> None:
    host = root.admin.command("listShards")["shards"][0]["host"].partition("/")[2]
    uri = f"mongodb://{host}/?directConnection=true"
    nobody: Client = MongoClient(uri)
    with nobody, pytest.raises(OperationFailure) as failure:
        nobody.shop.orders.find_one()
    assert failure.value.code == 13
    reader: Client = MongoClient(uri, username="reader", password="p", authSource="shop")
    with reader:
        assert reader.shop.orders.find_one() is not None
        with pytest.raises(OperationFailure) as failure:
            reader.local["oplog.rs"].find_one()
        assert failure.value.code == 13
    direct: Client = MongoClient(uri, **ROOT)
    with direct:
        assert direct.local["oplog.rs"].find_one() is not None
        with pytest.raises(OperationFailure, match="change them on a router") as failure:
            direct.shop.command("createUser", "x", pwd="p", roles=[])
        assert failure.value.code == 20


def test_transactions_of_two_users_with_the_same_session_id(cluster: ShardedCluster, root: Client) -> None:
    reader, writer = user(cluster, "reader"), user(cluster, "writer")
    root.shop.command("grantRolesToUser", "reader", roles=["readWrite"])
    lsid = {"id": Binary(b"same id for both", 4)}
    fields = {"lsid": lsid, "txnNumber": Int64(1), "autocommit": False}
    for client, name in ((reader, "r"), (writer, "w")):
        documents = [{"_id": f"{name}{number}"} for number in range(10)]
        command = {"insert": "orders", "documents": documents, "startTransaction": True, **fields}
        assert client.shop.command(command)["n"] == 10
    writer.admin.command({"commitTransaction": 1, **fields})
    reader.admin.command({"abortTransaction": 1, **fields})
    left = {found["_id"] for found in root.shop.orders.find({"_id": {"$type": "string"}})}
    assert left == {f"w{number}" for number in range(10)}
