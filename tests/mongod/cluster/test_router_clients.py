"""The Node.js driver and mongosh on routers: the programs for replica sets, and some for sharding."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tailrace.testing.sharded_cluster import ShardedCluster
from tests.clients.programs import FOLDER, MONGOSH, Document, need, run, tokens_since
from tests.clients.test_node import run_mongosh, run_node

Run = Callable[[ShardedCluster, Path], Document]

DATABASE = "shop"


def node(cluster: ShardedCluster, home: Path) -> Document:
    return run_node(router(cluster, 0), home, DATABASE)


def mongosh(cluster: ShardedCluster, home: Path) -> Document:
    return run_mongosh(router(cluster, 0), home, DATABASE)


def node_sharding(cluster: ShardedCluster, home: Path) -> Document:
    need("mongodb")
    return run(["node", FOLDER / "node_router.js", router(cluster, 0), router(cluster, 1), DATABASE], home)


def mongosh_sharding(cluster: ShardedCluster, home: Path) -> Document:
    need("mongosh")
    script = FOLDER / "mongosh_router.js"
    return run(
        [MONGOSH, router(cluster, 0), "--quiet", "--norc", "--file", script], home, TAILRACE_DATABASE=DATABASE
    )


def router(cluster: ShardedCluster, number: int) -> str:
    return f"mongodb://{cluster.cluster.routers[number].address}/"


@pytest.fixture(scope="module")
def cluster() -> Iterator[ShardedCluster]:
    with ShardedCluster(shards=2, routers=2) as cluster:
        yield cluster


@pytest.mark.parametrize("program", [node, mongosh, node_sharding, mongosh_sharding])
def test_a_program_runs_and_sees_the_tokens_that_pymongo_sees(
    program: Run, cluster: ShardedCluster, tmp_path: Path
) -> None:
    client = cluster.client(router=1)
    start = client.admin.command("ping")["operationTime"]
    seen = program(cluster, tmp_path)["tokens"]
    everything = tokens_since(client, DATABASE, start)
    client.drop_database(DATABASE)
    assert seen
    assert [token for token in everything if token in seen] == seen
