"""More shards than a process keeps open clients for: one replica set under many connection strings."""

import pickle
from collections.abc import Iterator
from itertools import pairwise

import bson
import pytest

from tailrace.events.cluster_time import from_timestamp
from tailrace.pipeline.history.build import time_slices
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.sources.planning import UNLIMITED, Planner
from tailrace.testing.replica_set import ReplicaSet

SHARDS = 66
DOCUMENTS = 400
SIZE = 10_000


@pytest.fixture(scope="module")
def source() -> Iterator[DeploymentSource]:
    with ReplicaSet() as replica_set:
        orders = replica_set.client().shop.orders
        for number in range(DOCUMENTS):
            orders.insert_one({"_id": number, "text": "x" * SIZE})
        host, port = replica_set.address
        uris = {
            f"shard{number}": f"mongodb://{host}:{port}/?directConnection=true&w={number + 1}"
            for number in range(SHARDS)
        }
        with DeploymentSource(uris) as opened:
            yield opened


def test_a_batch_is_planned_and_every_shard_is_read(source: DeploymentSource) -> None:
    source = pickle.loads(pickle.dumps(source))
    planner = Planner(source)
    promised = source.promised()
    end = planner.batch_end(0, promised, SHARDS * 20, UNLIMITED)
    intervals = planner.intervals(0, end, 2)
    assert len(intervals) == 2
    assert set(source.oldest_of(source.shards()).values()) == {0}
    for shard in ("shard0", "shard63", "shard64", "shard65"):
        read = [
            bson.decode(raw)["ts"]
            for interval in intervals
            for batch in source.entries(shard, *interval)
            for raw in batch
        ]
        assert len(read) == 20
        assert all(left < right for left, right in pairwise(read))
        assert from_timestamp(read[-1]) <= end < promised


def test_a_task_holds_little_of_each_shard(source: DeploymentSource) -> None:
    """One shard alone would send all of its entries at once."""
    promised = source.promised()
    batches = list(source.entries("shard0", 0, promised))
    assert sum(map(len, batches)) > DOCUMENTS
    assert max(sum(map(len, batch)) for batch in batches) < 2_000_000
    first = next(time_slices(source, 0, promised, 1))
    assert len(first) == SHARDS
    assert sum(entries.size for entries in first.values()) < SHARDS * 17 * (SIZE + 300)
