"""What a module with a cluster of its own, its fixture `cluster`, need not make again."""

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from tailrace.testing.in_thread import Document
from tailrace.testing.sharded_cluster import ShardedCluster


@pytest.fixture(scope="module")
def client(cluster: ShardedCluster) -> MongoClient[Document]:
    """A client of the first router."""
    return cluster.client(router=0)


@pytest.fixture(scope="module")
def any_router(cluster: ShardedCluster) -> MongoClient[Document]:
    """A client of all routers, which asks now one of them and now another."""
    return cluster.client()


@pytest.fixture
def database(client: MongoClient[Document], request: pytest.FixtureRequest) -> Database[Document]:
    """A database of the test's own, on the first shard."""
    name = str(request.node.name).partition("[")[0].removeprefix("test_")[:60]
    client.admin.command("enableSharding", name, primaryShard="shard0")
    return client[name]
