"""Fixtures for modules that define a fixture `cluster`."""

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
    """A client that uses all routers."""
    return cluster.client()


@pytest.fixture
def database(client: MongoClient[Document], request: pytest.FixtureRequest) -> Database[Document]:
    """A database for one test, on the first shard."""
    name = str(request.node.name).partition("[")[0].removeprefix("test_")[:60]
    client.admin.command("enableSharding", name, primaryShard="shard0")
    return client[name]
