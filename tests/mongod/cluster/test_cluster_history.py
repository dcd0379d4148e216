"""A cluster with a history: streams on routers reach further back than the shards' oplogs."""

from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.errors import OperationFailure

from tailrace.errors import UsageError
from tailrace.events.cluster_time import from_timestamp
from tailrace.mongod.cluster.cluster import Cluster
from tailrace.mongod.cluster.placement.config_catalog import cluster_id
from tailrace.testing.history_builder import HistoryBuilder, StoreSource
from tailrace.testing.sharded_cluster import ShardedCluster

Document = dict[str, Any]


def cluster_source(cluster: Cluster) -> StoreSource:
    """The oplogs of the shards that a cluster has now."""
    stores = {name: shard.store for name, shard in cluster.shards.items()}
    with cluster.config.store.snapshot() as snapshot:
        identity = str(cluster_id(snapshot))
    return StoreSource(stores, identity, lambda: cluster.merged_log.newest)


def spread(client: MongoClient[Document]) -> Collection[Document]:
    """A collection sharded by `k`, with the documents from 100 on on the second shard."""
    client.admin.command("enableSharding", "shop", primaryShard="shard0")
    client.admin.command("shardCollection", "shop.orders", key={"k": 1})
    client.admin.command("split", "shop.orders", middle={"k": 100})
    client.admin.command("moveChunk", "shop.orders", find={"k": 100}, to="shard1")
    client.shop.command("collMod", "orders", changeStreamPreAndPostImages={"enabled": True})
    return client.shop.orders


def take(stream: Any, count: int) -> list[Document]:
    return [stream.next() for _ in range(count)]


def write(client: MongoClient[Document], first: int) -> int:
    """Inserts, updates, a transaction over shards, deletes; returns the number of events."""
    orders = client.shop.orders
    orders.insert_many([{"_id": n, "k": n * 70 % 200, "v": 0} for n in range(first, first + 20)])
    orders.update_many({"_id": {"$gte": first}}, {"$inc": {"v": 1}})
    with client.start_session() as session, session.start_transaction():
        for n in range(first, first + 6):
            orders.update_one({"_id": n}, {"$set": {"v": "in a transaction"}}, session=session)
    return 46 + orders.delete_many({"_id": {"$gte": first + 15}}).deleted_count


async def look(cluster: ShardedCluster) -> None:
    """Make the cluster read its history again."""
    history = cluster.cluster.config.history
    assert history is not None
    await history.look()


def keep(cluster: ShardedCluster, path: Path) -> None:
    """Put everything into the history and truncate the oplogs."""
    HistoryBuilder(cluster_source(cluster.cluster), path).build()
    cluster.call(look(cluster))
    for shard in cluster.shards:
        cluster.truncate_oplog(shard)


OPTIONS: Document = {"full_document": "whenAvailable", "full_document_before_change": "whenAvailable"}


def test_streams_read_events_that_are_only_in_the_history(tmp_path: Path) -> None:
    with ShardedCluster(shards=2, history=tmp_path) as cluster:
        client = cluster.client()
        orders = spread(client)
        with orders.watch(**OPTIONS) as stream:
            events = take(stream, write(client, 0))
            keep(cluster, tmp_path)
            events += take(stream, write(client, 100))
        for position in range(0, len(events), 7):
            with orders.watch(resume_after=events[position]["_id"], **OPTIONS) as resumed:
                assert take(resumed, len(events) - position - 1) == events[position + 1 :]
        status = client.admin.command("serverStatus")["history"]
        assert status["exists"]
        assert status["events"] > 0
        cluster.restart()
        orders = cluster.client().shop.orders
        with orders.watch(resume_after=events[0]["_id"], **OPTIONS) as resumed:
            assert take(resumed, len(events) - 1) == events[1:]


def test_shards_retain_entries_until_they_are_in_the_history(tmp_path: Path) -> None:
    with ShardedCluster(shards=2, history=tmp_path) as cluster:
        client = cluster.client()
        orders = spread(client)
        with orders.watch() as stream:
            keep(cluster, tmp_path)
            count = write(client, 0)
            for shard in cluster.shards:
                cluster.truncate_oplog(shard)
            assert len(take(stream, count)) == count


@pytest.mark.parametrize("restarts", [False, True])
def test_a_transaction_of_which_the_history_has_a_part_stays_whole(tmp_path: Path, *, restarts: bool) -> None:
    """The entries that prepared it are before the end of the history, those that committed it after."""
    with ShardedCluster(shards=2, history=tmp_path) as cluster:
        client = cluster.client()
        orders = spread(client)
        with orders.watch() as stream, client.start_session() as session:
            with session.start_transaction():
                orders.insert_many([{"_id": n, "k": n * 100} for n in range(2)], session=session)
            events = take(stream, 2)
        prepared = max(
            entry["ts"]
            for shard in cluster.shards
            for entry in cluster.oplog(shard)
            if entry["o"].get("prepare")
        )
        HistoryBuilder(cluster_source(cluster.cluster), tmp_path).build(from_timestamp(prepared))
        if restarts:
            cluster.restart()
        else:
            cluster.call(look(cluster))
        client = cluster.client()
        for shard in cluster.shards:
            cluster.truncate_oplog(shard)
        HistoryBuilder(cluster_source(cluster.cluster), tmp_path).build()
        cluster.call(look(cluster))
        start = client.shop.orders.watch(start_at_operation_time=events[0]["clusterTime"])
        with start as stream:
            assert take(stream, 2) == events


def test_streams_can_be_served_from_the_history_alone(tmp_path: Path) -> None:
    with ShardedCluster(shards=2, history=tmp_path, head=False) as cluster:
        client = cluster.client()
        orders = spread(client)
        builder = HistoryBuilder(cluster_source(cluster.cluster), tmp_path)
        builder.build()
        with orders.watch(max_await_time_ms=50) as stream, builder:
            orders.insert_many([{"_id": n, "k": n * 20} for n in range(10)])
            assert [event["documentKey"]["_id"] for event in take(stream, 10)] == list(range(10))


@pytest.mark.parametrize("is_read", [True, False])
def test_the_history_has_the_events_of_a_removed_shard(tmp_path: Path, *, is_read: bool) -> None:
    """Also after a restart, whether the pipeline has read the shard by then or not."""
    with ShardedCluster(shards=2, history=tmp_path) as cluster:
        client = cluster.client()
        orders = spread(client)
        builder = HistoryBuilder(cluster_source(cluster.cluster), tmp_path)
        builder.build()
        with orders.watch() as stream:
            orders.insert_many([{"_id": n, "k": n * 20} for n in range(10)])
            client.admin.command(
                "moveChunk", "shop.orders", find={"k": 100}, to="shard0", _waitForDelete=True
            )
            events = take(stream, 10)
        while client.admin.command("removeShard", "shard1")["state"] != "completed":
            pass
        orders.insert_one({"_id": "after", "k": 1})
        if is_read:
            builder.build()
            cluster.call(look(cluster))
        cluster.restart()
        orders = cluster.client().shop.orders
        with orders.watch(resume_after=events[2]["_id"]) as resumed:
            shown = [event["documentKey"]["_id"] for event in take(resumed, 8)]
        assert shown == [*range(3, 10), "after"]


def test_events_neither_in_oplogs_nor_in_the_history_are_lost(tmp_path: Path) -> None:
    with ShardedCluster(shards=2) as cluster:
        orders = spread(cluster.client())
        with orders.watch() as stream:
            orders.insert_many([{"_id": n, "k": n * 20} for n in range(10)])
            token = take(stream, 1)[0]["_id"]
        cluster.truncate_oplog("shard1")
        with pytest.raises(OperationFailure) as raised:
            orders.watch(resume_after=token)
        assert raised.value.code == 286


def test_the_history_of_another_cluster_is_refused(tmp_path: Path) -> None:
    with ShardedCluster(shards=2, history=tmp_path) as cluster:
        keep(cluster, tmp_path)
    with pytest.raises(UsageError, match="belongs to"), ShardedCluster(shards=2, history=tmp_path):
        pass
