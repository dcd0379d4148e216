"""JavaScript is no string, on a replica set and on a router; the codes were seen on a real server."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from bson import Code
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from tailrace.testing.in_thread import Document
from tailrace.testing.replica_set import ReplicaSet
from tailrace.testing.sharded_cluster import ShardedCluster
from tests.mongod.server.raw_client import TIMEOUT_SECONDS, RawClient


@pytest.fixture(scope="module", params=["replica set", "router"])
def client(request: pytest.FixtureRequest) -> Iterator[MongoClient[Document]]:
    deployment = ReplicaSet() if request.param == "replica set" else ShardedCluster(shards=2)
    with deployment as running:
        yield running.client()


@pytest.fixture(autouse=True)
def collection(client: MongoClient[Document]) -> None:
    client.drop_database("codes")
    client.codes.c.insert_one({"_id": 1, "a": 1})
    client.codes.c.create_index("a", name="a_1")


def indexes(**spec: Any) -> Document:
    return {"createIndexes": "c", "indexes": [{"key": {"x": 1}, "name": "n", **spec}]}


def filled(**spec: Any) -> Document:
    return {"update": "c", "updates": [{"q": {}, "u": {"$set": {"z": 1}}, **spec}]}


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (indexes(name=Code("n")), 14),
        (indexes(name=Code("n", {})), 14),
        (indexes(key={"x": Code("text")}), 67),
        (indexes(key={"x": "text"}, weights=Code("x")), 14),
        (indexes(key={"x": "text"}, default_language=Code("en")), 14),
        (indexes(collation={"locale": Code("en")}), 14),
        ({**indexes(), "commitQuorum": Code("majority")}, 14),
        ({"dropIndexes": "c", "index": Code("a_1")}, 14),
        ({"dropIndexes": "c", "index": [Code("a_1")]}, 14),
        ({"create": "t", "timeseries": {"timeField": Code("t")}}, 14),
        ({"create": "t", "timeseries": {"timeField": "t", "metaField": Code("m")}}, 14),
        ({"create": "t", "clusteredIndex": {"key": {"_id": 1}, "unique": True, "name": Code("n")}}, 14),
        ({"create": Code("t")}, 2),
        ({"collMod": "c", "index": {"name": Code("a_1"), "hidden": True}}, 14),
        ({"find": "c", "hint": Code("a_1")}, 9),
        ({"count": "c", "hint": Code("a_1")}, 9),
        ({"aggregate": "c", "pipeline": [], "cursor": {}, "hint": Code("a_1")}, 9),
        ({"findAndModify": "c", "query": {}, "remove": True, "hint": Code("a_1")}, 9),
        ({"delete": "c", "deletes": [{"q": {}, "limit": 0, "hint": Code("a_1")}]}, 9),
        (filled(hint=Code("a_1")), 9),
        (filled(u={"$rename": {"a": Code("z")}}), 2),
        (
            {
                "find": "c",
                "filter": {"$jsonSchema": {"properties": {"a": {"encrypt": {"algorithm": Code("x")}}}}},
            },
            14,
        ),
    ],
    ids=str,
)
def test_javascript_is_refused(client: MongoClient[Document], command: Document, code: int) -> None:
    try:
        reply = client.codes.command(command)
        found = reply["writeErrors"][0]["code"]
    except OperationFailure as error:
        found = error.code
    assert found == code
    assert_all_is_readable(client)


@pytest.mark.parametrize("name", ["commitTransaction", "abortTransaction"])
def test_in_a_recovery_token(client: MongoClient[Document], name: str) -> None:
    with pytest.raises(OperationFailure) as refused:
        client.admin.command({name: 1, "recoveryToken": {"recoveryShardId": Code("shard0")}})
    assert refused.value.code == 14


def test_in_the_description_of_a_client(client: MongoClient[Document]) -> None:
    description = {"driver": {"name": Code("x"), "version": "1"}, "os": {"type": "x"}}
    assert client.address is not None
    with socket.create_connection(client.address, timeout=TIMEOUT_SECONDS) as endpoint:
        reply = RawClient(endpoint).call({"hello": 1, "client": description})
    assert reply["code"] == 14


def assert_all_is_readable(client: MongoClient[Document]) -> None:
    """What one index named by JavaScript once broke."""
    assert "codes" in client.list_database_names()
    assert client.codes.list_collection_names() == ["c"]
    assert client.codes.c.find_one({"a": 1}) is not None
    assert client.codes.command("collStats", "c")["nindexes"] == 2
    assert client.codes.command("dbStats")["indexes"] == 2
    assert client.codes.validate_collection("c")["valid"]
    with client.watch(max_await_time_ms=1) as stream:
        stream.try_next()
