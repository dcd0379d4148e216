"""Events per second from the oplogs of a running cluster to the history, as its shards grow.

Clusters of one, three and five shards have the same documents, distributed by their hashed `_id`: inserted in
large batches, then updated with one entry each. The pipeline finds the shards through the router and reads
their oplogs. All shards run in one process, so more shards mean more reading and merging, not more cores. The
rounds alternate.
"""

import tempfile
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter

from pyspark.sql import SparkSession

from bench.figures import print_goal
from bench.server_process import serving
from bench.sharded_streams import SHARDS, Deployment
from tailrace.pipeline.history.settings import PipelineSettings
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.spark.command_sessions import start_session
from tailrace.spark.history_job import HistoryJob

DOCUMENTS = 80_000
"""Enough that the start of a job takes a small part of the time."""
ROUNDS = 3
MASTER = "local[2]"


def build(spark: SparkSession, uri: str) -> tuple[int, float]:
    """Build a new history; return its rows and the seconds."""
    with tempfile.TemporaryDirectory() as folder, DeploymentSource(uri) as source:
        job = HistoryJob(source, PipelineSettings(Path(folder, "history"), interval=None))
        began = perf_counter()
        job.run(spark)
        return job.progress.rows, perf_counter() - began


def main() -> None:
    print(f"sharded-spark: {DOCUMENTS:,} inserts and as many updates, best of {ROUNDS} rounds, {MASTER}")
    best = dict.fromkeys(SHARDS, 0.0)
    with ExitStack() as stack:
        servers = {}
        for shards in SHARDS:
            options = ("--shards", str(shards), "--oplog-size", "1024")
            servers[shards] = stack.enter_context(serving(f"sharded-spark-{shards}", *options))
            Deployment(servers[shards], DOCUMENTS)
        spark = start_session(MASTER, {})
        build(spark, servers[SHARDS[0]].uri)  # warms up Spark and its workers
        for _ in range(ROUNDS):
            for shards, server in servers.items():
                rows, seconds = build(spark, server.uri)
                if rows < 2 * DOCUMENTS:
                    raise SystemExit(f"{rows} rows instead of {2 * DOCUMENTS}")
                best[shards] = max(best[shards], rows / seconds)
        spark.stop()
    for shards, rate in best.items():
        print(f"  {shards} shards{'':<26}{rate:10,.0f} events/s")
    for shards in SHARDS[1:]:
        print_goal(f"{shards} shards to {SHARDS[0]}", best[shards] / best[SHARDS[0]], "at least 0.8")
