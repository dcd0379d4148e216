"""Engine, on Spark, of a sharded cluster: its events have the same bytes as those of a router's stream.

Clients write and an administrator moves data on a cluster of two shards; in `make test-slow`, also of one and
of five. Shards join and leave while a pipeline runs. Spark reads the oplogs directly, in batch and streaming,
and through the history.
"""

from pathlib import Path
from time import monotonic
from typing import Any

import bson
import pytest
from bson import Timestamp
from pyspark.sql import DataFrame, SparkSession

from tailrace.bson import documents as bsondocs
from tailrace.events.cluster_time import from_timestamp
from tailrace.lake.table import HistoryTable
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.spark import change_stream
from tailrace.testing.sharded_cluster import ShardedCluster
from tests.laws.law_seeds import BASE_SEED
from tests.laws.test_cluster_laws import Disturbance
from tests.laws.wire_streams import WireStream, note
from tests.spark.frames import events_of, micro_batches, sorted_events_of
from tests.spark.pipeline_runs import SECONDS, build_all, holds, running
from tests.support.client_workload import ClientWorkload

SPEC = {"showExpandedEvents": True, "showRawUpdateDescription": True}
RUNS = [(2, 1)]
SLOW_RUNS = [(1, 0), (5, 2)] + [(shards, 10 + number) for number in range(10) for shards in (1, 2, 5)]


def run_workload(cluster: ShardedCluster, seed: int, operations: int) -> Timestamp:
    """Run operations of clients and commands of an administrator; return a time after all of them."""
    client = cluster.client()
    workload = ClientWorkload(client, seed, "law")
    disturbance = Disturbance(cluster, seed, workload.databases)
    for _ in range(6):
        workload.run(operations // 6)
        disturbance.run_command()
    assert workload.done.total() > operations // 2, workload.refused
    return note(client)


def transaction_of(event: bytes) -> tuple[bytes, int] | None:
    """Return the identity of an event's transaction, None for an event without one."""
    found = bsondocs.decode(event)
    return (bytes(found["lsid"]["id"]), found["txnNumber"]) if "lsid" in found else None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shards", "number"), [*RUNS, *(pytest.param(*run, marks=pytest.mark.slow) for run in SLOW_RUNS)]
)
def test_oplogs_and_history_show_what_a_router_shows(
    spark: SparkSession, tmp_path: Path, shards: int, number: int
) -> None:
    seed = BASE_SEED + number
    with ShardedCluster(shards=shards, routers=2) as cluster:
        client = cluster.client()
        options = {**SPEC, "startAtOperationTime": note(client)}
        end = run_workload(cluster, seed, 120)
        expected = WireStream(cluster.client(0), "", options).all_events(end)
        assert len(expected) > 60, seed

        def rows(source: str | Path, **more: Any) -> DataFrame:
            return change_stream(spark, source, None, options, output="event", documentsAs="bson", **more)

        assert events_of(rows(cluster.uri, partitions=5)) == expected, seed
        frame = rows(cluster.uri, streaming=True, maxEntriesPerTrigger=40 * shards)
        batches = micro_batches(frame, tmp_path / "checkpoint", sorted_events_of)
        assert [event for batch in batches for event in batch] == expected, seed
        transactions = [set(map(transaction_of, batch)) - {None} for batch in batches]
        assert len(batches) > 1
        assert sum(map(len, transactions)) == len(set().union(*transactions)), seed
        history = tmp_path / "history"
        with DeploymentSource(cluster.uri) as source:
            build_all(spark, source, history, max_entries=300)
        assert events_of(rows(history)) == expected, seed


def remove_shard(cluster: ShardedCluster, name: str) -> None:
    """Repeat the command until the shard is removed."""
    admin = cluster.client(0).admin
    deadline = monotonic() + SECONDS
    while admin.command("removeShard", name)["state"] != "completed":
        assert monotonic() < deadline


def test_shards_join_and_leave_while_the_pipeline_runs(spark: SparkSession, tmp_path: Path) -> None:
    """Compare with a stream that was open all the time: later ones cannot start before a shard left."""
    history = tmp_path / "history"
    with ShardedCluster(shards=2) as cluster, DeploymentSource(cluster.uri) as source:
        client = cluster.client(0)
        start = note(client)
        orders = client.shop.orders
        with client.watch(show_expanded_events=True) as stream, running(spark, source, history):
            client.admin.command("enableSharding", "shop", primaryShard="shard1")
            client.admin.command("shardCollection", "shop.orders", key={"_id": "hashed"})
            orders.insert_many([{"_id": number} for number in range(20)])
            assert holds(history, note(client))
            client.admin.command("addShard", "shard2")
            chunk = client.config.chunks.find_one({"shard": "shard0"})
            assert chunk is not None
            client.admin.command("moveRange", "shop.orders", min=chunk["min"], toShard="shard2")
            orders.update_many({}, {"$set": {"moved": True}})
            remove_shard(cluster, "shard0")
            orders.insert_many([{"_id": number} for number in range(20, 40)])
            with client.start_session() as session, session.start_transaction():
                orders.update_many({}, {"$set": {"late": True}}, session=session)
            end = note(client)
            orders.insert_one({"_id": "last"})
            assert holds(history, note(client))
            expected: list[dict[str, Any]] = []
            while not expected or expected[-1].get("documentKey") != {"_id": "last"}:
                expected.append(stream.next())
    options = {"showExpandedEvents": True, "startAtOperationTime": start}
    shown = change_stream(spark, history, None, options, output="event", documentsAs="bson")
    assert [bson.decode(event) for event in events_of(shown)] == expected
    assert {event["clusterTime"] <= end for event in expected} == {True, False}
    rows = HistoryTable.open(history).read(from_timestamp(start), columns=["shard"])
    assert {shard for batch in rows for shard in batch["shard"].to_pylist()} == {"shard0", "shard1", "shard2"}
