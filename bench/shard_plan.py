"""Seconds to plan a batch of many shards: their promise, the end of the batch, and where it is cut.

All shards are one replica set under different connection strings: each has a client, connections and
questions of its own, and one server answers all of them, a real MongoDB where `make mongod` has fetched one.
The backlog is small: each shard searches its own for commits of several shards, and here one server does that
for all of them.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pymongo import MongoClient

from bench.figures import print_goal
from bench.server_process import serving
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.sources.planning import UNLIMITED, Planner
from tests.oracle.real_server import missing_mongod, real_replica_set

SHARDS = (32, 200)
DOCUMENTS, AT_ONCE = 20_000, 5_000
BATCH = 1_000_000
PARTS = 4
ROUNDS = 7


@contextmanager
def any_server() -> Iterator[tuple[str, MongoClient[dict[str, Any]]]]:
    if missing_mongod() is None:
        with tempfile.TemporaryDirectory() as folder, real_replica_set(Path(folder)) as real:
            yield "mongod", real.client()
    else:
        with serving("shard-plan") as ours:
            yield "tailrace", ours.client


def plan(source: DeploymentSource, planner: Planner) -> tuple[float, float]:
    """Plan the first batch of a large backlog; return seconds and processor seconds."""
    began, worked = time.perf_counter(), time.process_time()
    end = planner.batch_end(0, source.promised(), BATCH, UNLIMITED)
    intervals = planner.intervals(0, end, PARTS)
    seconds, worked = time.perf_counter() - began, time.process_time() - worked
    if len(intervals) != PARTS:
        raise SystemExit(f"the batch has {len(intervals)} parts")
    return seconds, worked


def main() -> None:
    with any_server() as (name, client):
        for start in range(0, DOCUMENTS, AT_ONCE):
            client.shop.orders.insert_many([{"_id": start + number} for number in range(AT_ONCE)])
        assert client.address is not None
        host, port = client.address
        print(f"shard-plan: the first batch of a backlog, shards are one {name}")
        for count in SHARDS:
            # The write concern is of no use here and makes each connection string another one.
            uris = {
                f"shard{number}": f"mongodb://{host}:{port}/?directConnection=true&w={number + 1}"
                for number in range(count)
            }
            with DeploymentSource(uris) as source:
                first, _ = plan(source, Planner(source))
                runs = []
                for number in range(ROUNDS):
                    client.shop.more.insert_one({"_id": f"{count} {number}"})
                    runs.append(plan(source, Planner(source)))
            print_goal(f"{count} shards", min(seconds for seconds, _ in runs), "1.00", " s")
            print(
                f"    processor time {min(worked for _, worked in runs):.2f} s; the first plan {first:.2f} s"
            )
