"""Change streams on one shard, opened on a router with `$_passthroughToShard`."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest
from bson import Timestamp
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.command_cursor import CommandCursor
from pymongo.database import Database

from tailrace.testing.in_thread import Document
from tailrace.testing.replica_set import ReplicaSet
from tailrace.testing.sharded_cluster import ShardedCluster
from tests.mongod.cluster.folding import drained
from tests.mongod.cluster.refusals import code_of
from tests.mongod.cluster.spreading import spread

Client = MongoClient[Document]
ONE_SHARD = "$_passthroughToShard"
SHARDS = ["shard0", "shard1", "shard2"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ShardedCluster]:
    with ShardedCluster(shards=len(SHARDS)) as cluster:
        yield cluster


@pytest.fixture
def orders(cluster: ShardedCluster, database: Database[Document]) -> Collection[Document]:
    """A collection sharded by `k`: below 100 on the first shard, below 200 on the second, then the third."""
    spread(cluster, database.orders, {"k": 1}, {"k": 100}, {"k": 200})
    return database.orders


def watch(orders: Collection[Document], shard: str, **spec: Any) -> CommandCursor[Document]:
    return on_shard(orders, shard, {"$changeStream": spec})


def on_shard(orders: Collection[Document], shard: str, *pipeline: Document) -> CommandCursor[Document]:
    option: dict[str, Any] = {ONE_SHARD: {"shard": shard}}
    return orders.aggregate(list(pipeline), **option)


def write(orders: Collection[Document]) -> None:
    orders.insert_many([{"_id": number, "k": number * 7 % 300} for number in range(60)])
    for number in range(0, 60, 4):
        orders.update_one({"_id": number, "k": number * 7 % 300}, {"$set": {"n": number}})
        orders.delete_one({"_id": number + 1, "k": (number + 1) * 7 % 300})


def now(client: Client) -> Timestamp:
    time: Timestamp = client.admin.command("ping")["operationTime"]
    return Timestamp(time.time, time.inc + 1)


def test_shows_what_a_client_of_the_shard_sees(
    cluster: ShardedCluster, client: Client, orders: Collection[Document]
) -> None:
    start = now(client)
    write(orders)
    shown = list[list[Document]]()
    for shard in SHARDS:
        direct = cluster.shard_client(shard)[orders.database.name].orders
        with watch(orders, shard, startAtOperationTime=start) as stream:
            shown.append(drained(stream))
        with direct.watch(start_at_operation_time=start, max_await_time_ms=1) as stream_there:
            assert shown[-1] == drained(stream_there)
        assert len(shown[-1]) > 10
    with orders.watch(start_at_operation_time=start, max_await_time_ms=1) as whole:
        together = sorted(chain.from_iterable(shown), key=lambda event: event["_id"]["_data"])
        assert drained(whole) == together


def test_waits_for_its_shard_only(orders: Collection[Document]) -> None:
    with watch(orders, "shard1") as stream:
        orders.insert_one({"_id": 1, "k": 1})
        orders.insert_one({"_id": 2, "k": 250})
        assert stream.try_next() is None
        orders.insert_one({"_id": 3, "k": 150})
        assert stream.next()["documentKey"] == {"k": 150, "_id": 3}


def test_resumes_after_a_token(client: Client, orders: Collection[Document]) -> None:
    start = now(client)
    write(orders)
    with watch(orders, "shard2", startAtOperationTime=start) as stream:
        events = drained(stream)
    with watch(orders, "shard2", resumeAfter=events[3]["_id"]) as stream:
        assert drained(stream) == events[4:]


def test_can_show_moves(client: Client, orders: Collection[Document]) -> None:
    """Refused for streams of a router, because moves are events of shards."""
    orders.insert_one({"_id": 1, "k": 250})
    start = now(client)
    client.admin.command("moveChunk", orders.full_name, find={"k": 250}, to="shard0")
    with watch(orders, "shard0", startAtOperationTime=start) as stream:
        assert drained(stream) == []
    with watch(orders, "shard0", startAtOperationTime=start, showMigrationEvents=True) as stream:
        assert [event["operationType"] for event in drained(stream)] == ["insert"]


def test_is_explained(orders: Collection[Document]) -> None:
    command = {"aggregate": "orders", "pipeline": [{"$changeStream": {}}], ONE_SHARD: {"shard": "shard1"}}
    assert "stages" in orders.database.command("explain", {**command, "cursor": {}})
    assert "stages" in orders.database.command({**command, "explain": True})


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ({"shard": "nowhere"}, 70),
        ({"shard": "config"}, 6273803),
        ({}, 40414),
        ({"shard": "shard0", "other": 1}, 40415),
        ({"shard": 1}, 14),
        ("shard0", 14),
    ],
)
def test_the_shard_must_exist(client: Client, place: Any, code: int) -> None:
    fields = {"pipeline": [{"$changeStream": {}}], "cursor": {}, ONE_SHARD: place}
    assert code_of(client.shop, "aggregate", "orders", **fields) == code


def test_is_for_streams_only(client: Client) -> None:
    fields = {"pipeline": [{"$match": {"a": 1}}], "cursor": {}, ONE_SHARD: {"shard": "shard0"}}
    assert code_of(client.shop, "aggregate", "orders", **fields) == 6273801
    assert code_of(client.shop, "explain", {"aggregate": "orders", **fields}) == 6273801


def test_a_replica_set_ignores_the_shard() -> None:
    with ReplicaSet() as replica_set:
        orders = replica_set.client().shop.orders
        with watch(orders, "shard0") as stream:
            orders.insert_one({"_id": 1})
            assert stream.next()["documentKey"] == {"_id": 1}
        assert on_shard(orders, "shard0").to_list() == [{"_id": 1}]
