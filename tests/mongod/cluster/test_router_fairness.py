"""On a router, too, no command holds up another one, and every command can be ended."""

from collections.abc import Iterator

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from tailrace.testing.in_thread import Document
from tailrace.testing.sharded_cluster import ShardedCluster
from tests.mongod.cluster.spreading import raw_client
from tests.mongod.server.endless import COMMANDS, Running, computing, operations, prepare
from tests.mongod.server.running import wait_for

INTERRUPTED = 11601
OUT_OF_TIME = 50
NAMES = ("find", "project", "lookup", "update", "update by a filter", "findAndModify", "validator")


@pytest.fixture(scope="module")
def cluster() -> Iterator[ShardedCluster]:
    with ShardedCluster(shards=2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def spread(client: MongoClient[Document]) -> Database[Document]:
    """The collections of the commands, one of them with documents on both shards."""
    database = client.fair
    client.admin.command("enableSharding", database.name, primaryShard="shard0")
    client.admin.command("shardCollection", f"{database.name}.c", key={"_id": 1})
    client.admin.command("split", f"{database.name}.c", middle={"_id": 2})
    client.admin.command("moveChunk", f"{database.name}.c", find={"_id": 2}, to="shard1")
    prepare(database)
    return database


@pytest.mark.parametrize("name", NAMES)
def test_others_are_answered_while_a_command_computes_and_kill_op_ends_it(
    client: MongoClient[Document], cluster: ShardedCluster, spread: Database[Document], name: str
) -> None:
    with computing(client, cluster.uri, spread.name, COMMANDS[name]) as command:
        for number in range(3):
            assert client.admin.command("ping")["ok"] == 1
            other = {"_id": f"{name} {number}"}
            spread.others.insert_one(other)
            assert spread.others.find_one(other) == other
        for operation in operations(client, spread.name):
            client.admin.command("killOp", op=operation["opid"])
        assert command.join() == INTERRUPTED


@pytest.mark.parametrize("name", NAMES)
def test_the_time_limit_ends_a_computation(
    cluster: ShardedCluster, spread: Database[Document], name: str
) -> None:
    command = Running(cluster.uri, spread.name, {**COMMANDS[name], "maxTimeMS": 200})
    assert command.join() == OUT_OF_TIME
    command.client.close()


@pytest.mark.parametrize("name", ["project", "update"])
def test_a_computation_ends_with_its_client(
    client: MongoClient[Document], cluster: ShardedCluster, spread: Database[Document], name: str
) -> None:
    with raw_client(cluster) as other:
        other.send({**COMMANDS[name], "$db": spread.name})
        wait_for(lambda: bool(operations(client, spread.name)))
        # When others can write, the writer has given an update back.
        spread.others.insert_one({})
    wait_for(lambda: not operations(client, spread.name))
