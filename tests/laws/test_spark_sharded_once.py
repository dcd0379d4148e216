"""Once, on a cluster: the process with all shards is killed, and so are workers; the history misses nothing.

As in `test_spark_once.py`, clients write all the time; here through a router, into collections that are
spread over three shards, with transactions that write to several of them.
"""

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
from bson import Timestamp
from pyspark.sql import SparkSession
from tests.laws.law_seeds import BASE_SEED
from tests.laws.test_spark_engine import events_of
from tests.laws.test_spark_once import (
    SECONDS,
    python_processes_below,
    start_driver,
    wait_for_commits,
    writing,
)
from tests.laws.wire_streams import WireStream
from tests.server.served import ServedProcess, served
from tests.spark.pipeline_runs import RunningJob, Said, holds, newest_time

from tailrace.spark import change_stream
from tailrace.spark.oplogs.deployment import DeploymentSource
from tailrace.spark.pipeline.job import HistoryJob
from tailrace.spark.pipeline.settings import PipelineSettings

IMPATIENT = "serverSelectionTimeoutMS=1500"
SHARDED = ("single", "batches", "left", "right")


def shard_all(process: ServedProcess) -> Timestamp:
    """Spread the writers' collections over the shards; the time behind it."""
    with process.client() as client:
        for name in SHARDED:
            client.admin.command("shardCollection", f"once.{name}", key={"_id": "hashed"})
        return newest_time(client)


def kill_on_a_cluster(spark: SparkSession, seed: int, rounds: int, folder: Path) -> None:
    """Kill workers, the planner and the cluster; the driver and its JVM stay."""
    rng = random.Random(seed)
    history = folder / "history"
    jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    killed = {"python": 0, "cluster": 0}
    with served(folder, "--shards", "3", "--log-level", "error") as process:
        start = shard_all(process)
        with DeploymentSource(f"{process.uri}?{IMPATIENT}") as source:
            log = Said()
            job = RunningJob(spark, HistoryJob(source, PipelineSettings(history), log))
            job.start()
            try:
                with writing(process, seed):
                    for _ in range(rounds):
                        wait_for_commits(history, rng.choice((0, 0, 1, 2)), job)
                        time.sleep(rng.uniform(0.0, 0.3))
                        victims = python_processes_below(jvm)
                        if victims and rng.random() < 0.7:
                            killed["python"] += 1
                            with suppress(ProcessLookupError):
                                os.kill(rng.choice(victims), signal.SIGKILL)
                        else:
                            killed["cluster"] += 1
                            process.kill()
                            process.start()
                with process.client() as client:
                    end = newest_time(client)
                    assert holds(history, end)
            finally:
                job.end()
            assert job.error is None, log.reasons
            assert min(killed.values()) > 0, seed
        compare(spark, process, history, start, end)


def compare(
    spark: SparkSession, process: ServedProcess, history: Path, start: Timestamp, end: Timestamp
) -> None:
    """The history has to be what a router's stream shows that was never disturbed."""
    options = {"showExpandedEvents": True, "startAtOperationTime": start}
    with process.client() as client:
        expected = WireStream(client, "", options).all_events(end)
    shown = change_stream(spark, history, None, options, output="event", documentsAs="bson")
    assert len(expected) > 100
    assert events_of(shown)[: len(expected)] == expected


def kill_drivers_of_a_cluster(spark: SparkSession, seed: int, rounds: int, folder: Path) -> None:
    """Kill drivers with all of their processes, at times the cluster with them."""
    rng = random.Random(seed)
    history = folder / "history"
    with served(folder, "--shards", "3", "--log-level", "error") as process:
        start = shard_all(process)
        with writing(process, seed, pause=0.2):
            for _ in range(rounds):
                driver = start_driver(process, history, folder)
                try:
                    wait_for_commits(history, rng.randrange(1, 6))
                    time.sleep(rng.uniform(0.0, 0.1))
                    if rng.random() < 0.5:
                        process.kill()
                        process.start()
                finally:
                    os.killpg(driver.pid, signal.SIGKILL)
                    driver.wait(SECONDS)
        driver = start_driver(process, history, folder)
        try:
            with process.client() as client:
                end = newest_time(client)
            assert holds(history, end)
        finally:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait(SECONDS)
        compare(spark, process, history, start, end)


def test_workers_and_the_cluster_are_killed(spark: SparkSession, tmp_path: Path) -> None:
    kill_on_a_cluster(spark, BASE_SEED, 6, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(BASE_SEED + 1, BASE_SEED + 4))
def test_more_of_a_cluster_is_killed(spark: SparkSession, seed: int, tmp_path: Path) -> None:
    kill_on_a_cluster(spark, seed, 80, tmp_path)


@pytest.mark.slow
def test_drivers_of_a_cluster_are_killed(spark: SparkSession, tmp_path: Path) -> None:
    kill_drivers_of_a_cluster(spark, BASE_SEED, 6, tmp_path)
