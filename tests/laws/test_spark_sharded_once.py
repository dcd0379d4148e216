"""Once, on a cluster: after kills of workers and of the cluster's process, no row is missing or doubled.

As in `test_spark_once.py`, clients write all the time; here through a router, into collections that are
distributed over three shards, with transactions that write to several of them.
"""

from pathlib import Path

import pytest
from bson import Timestamp
from pyspark.sql import SparkSession

from tailrace.spark import change_stream
from tests.laws.killed_pipelines import Driver, driving, kill_drivers, pipeline_under_kills
from tests.laws.law_seeds import BASE_SEED
from tests.laws.wire_streams import WireStream
from tests.mongod.server.served import ServedProcess, served
from tests.spark.frames import events_of
from tests.spark.pipeline_runs import holds, newest_time

SHORT_TIMEOUT = "serverSelectionTimeoutMS=1500"
SHARDED = ("single", "batches", "left", "right")


def shard_all(process: ServedProcess) -> Timestamp:
    """Distribute the writers' collections over the shards; return a time after that."""
    with process.client() as client:
        for name in SHARDED:
            client.admin.command("shardCollection", f"once.{name}", key={"_id": "hashed"})
        return newest_time(client)


def kill_on_a_cluster(spark: SparkSession, seed: int, rounds: int, folder: Path) -> None:
    """Kill workers, the planner and the cluster; the driver and its JVM stay."""
    history = folder / "history"
    with served(folder, "--shards", "3", "--log-level", "error") as process:
        start = shard_all(process)
        uri = f"{process.uri}?{SHORT_TIMEOUT}"
        with (
            pipeline_under_kills(process, uri, folder, seed=seed, rounds=rounds, of_workers=0.7),
            process.client() as client,
        ):
            end = newest_time(client)
            assert holds(history, end)
        compare(spark, process, history, start, end)


def compare(
    spark: SparkSession, process: ServedProcess, history: Path, start: Timestamp, end: Timestamp
) -> None:
    """Compare the history with the events of an undisturbed stream on the router."""
    options = {"showExpandedEvents": True, "startAtOperationTime": start}
    with process.client() as client:
        expected = WireStream(client, "", options).all_events(end)
    shown = change_stream(spark, history, None, options, output="event", documentsAs="bson")
    assert len(expected) > 100
    assert events_of(shown)[: len(expected)] == expected


def kill_drivers_of_a_cluster(spark: SparkSession, seed: int, rounds: int, folder: Path) -> None:
    """Kill drivers with all of their processes, in some rounds the cluster before them."""
    history = folder / "history"
    with served(folder, "--shards", "3", "--log-level", "error") as process:
        start = shard_all(process)

        def kill_cluster(_: Driver) -> None:
            process.kill()
            process.start()

        kill_drivers(process, folder, seed=seed, rounds=rounds, first=kill_cluster)
        with driving(process.uri, folder), process.client() as client:
            end = newest_time(client)
            assert holds(history, end)
        compare(spark, process, history, start, end)


@pytest.mark.slow
def test_workers_and_the_cluster_are_killed(spark: SparkSession, tmp_path: Path) -> None:
    kill_on_a_cluster(spark, BASE_SEED, 4, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(BASE_SEED + 1, BASE_SEED + 4))
def test_workers_and_the_cluster_are_killed_often(spark: SparkSession, seed: int, tmp_path: Path) -> None:
    kill_on_a_cluster(spark, seed, 80, tmp_path)


@pytest.mark.slow
def test_drivers_of_a_cluster_are_killed(spark: SparkSession, tmp_path: Path) -> None:
    kill_drivers_of_a_cluster(spark, BASE_SEED, 6, tmp_path)
