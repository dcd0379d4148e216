"""Snapshot reads of a router at earlier times: all shards as of one moment, wherever documents were then."""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from bson import Timestamp
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import OperationFailure

from tailrace.testing.sharded_cluster import ShardedCluster
from tests.mongod.server.running import wait_for

Document = dict[str, Any]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ShardedCluster]:
    with ShardedCluster(shards=2) as cluster:
        yield cluster


def time_of(client: "MongoClient[Document]") -> Timestamp:
    found: Timestamp = client.admin.command("ping")["operationTime"]
    return found


def ids_at(database: Database[Document], time: Timestamp) -> list[tuple[int, Any]]:
    concern = {"level": "snapshot", "atClusterTime": time}
    reply = database.command({"find": "items", "sort": {"_id": 1}, "batchSize": 1000, "readConcern": concern})
    assert reply["cursor"]["atClusterTime"] == time
    return [(found["_id"], found.get("n")) for found in reply["cursor"]["firstBatch"]]


def ids_of(database: Database[Document]) -> list[tuple[int, Any]]:
    return [(found["_id"], found.get("n")) for found in database.items.find(sort=[("_id", 1)])]


def test_documents_that_changed_and_moved(
    client: "MongoClient[Document]", database: Database[Document]
) -> None:
    ns = database.items.full_name
    client.admin.command("shardCollection", ns, key={"k": 1})
    client.admin.command("split", ns, middle={"k": 50})
    random = Random(1)
    seen = []
    for number in range(100):
        database.items.insert_one({"_id": number, "k": number, "n": 0})
        database.items.update_one({"_id": random.randrange(100)}, {"$inc": {"n": 1}})
        if number % 3 == 0:
            database.items.delete_one({"_id": random.randrange(100)})
        if number % 20 == 10:
            seen.append((time_of(client), ids_of(database)))
            to = f"shard{(number // 20) % 2}"
            client.admin.command(
                "moveChunk", ns, find={"k": random.choice([1, 60])}, to=to, _waitForDelete=True
            )
    for time, expected in seen:
        assert ids_at(database, time) == expected


def test_a_snapshot_session(client: "MongoClient[Document]", database: Database[Document]) -> None:
    ns = database.items.full_name
    client.admin.command("shardCollection", ns, key={"_id": "hashed"})
    items = database.items
    items.insert_many([{"_id": number, "n": 0} for number in range(50)])
    with client.start_session(snapshot=True) as session:
        for _ in range(3):
            assert [found["n"] for found in items.find(session=session)] == [0] * 50
            items.update_many({}, {"$inc": {"n": 1}})
            items.delete_many({"_id": {"$lt": 10}})
            assert items.distinct("n", session=session) == [0]
            assert items.count_documents({}, session=session) == 50


def test_a_transaction_of_both_shards_is_seen_whole(
    client: "MongoClient[Document]", database: Database[Document]
) -> None:
    ns = database.items.full_name
    client.admin.command("shardCollection", ns, key={"k": 1})
    client.admin.command("split", ns, middle={"k": 50})
    client.admin.command("moveChunk", ns, find={"k": 60}, to="shard1", _waitForDelete=True)
    database.items.insert_many([{"_id": 1, "k": 1, "n": 0}, {"_id": 2, "k": 99, "n": 0}])
    began = time_of(client)
    for _ in range(3):
        with client.start_session() as session, session.start_transaction():
            database.items.update_one({"k": 1}, {"$inc": {"n": 1}}, session=session)
            database.items.update_one({"k": 99}, {"$inc": {"n": 1}}, session=session)
    ended = time_of(client)
    for time in _times_between(began, ended):
        first, second = (n for _, n in ids_at(database, time))
        assert first == second


def code_at(database: Database[Document], time: Timestamp) -> int | None:
    with pytest.raises(OperationFailure) as caught:
        ids_at(database, time)
    return caught.value.code


def test_collections_that_are_copies(
    cluster: ShardedCluster, client: "MongoClient[Document]", database: Database[Document]
) -> None:
    then = time_of(client)
    database.items.insert_many([{"_id": number, "n": number} for number in range(10)])
    assert code_at(database, then) == 246
    then, before = time_of(client), ids_of(database)
    database.items.delete_many({"_id": {"$lt": 5}})
    assert ids_at(database, then) == before
    then = time_of(client)
    placed = client.config.databases.find_one({"_id": database.name}) or {}
    donor = placed["primary"]
    client.admin.command("movePrimary", database.name, to="shard0" if donor == "shard1" else "shard1")
    with cluster.shard_client(donor) as shard:  # until it has removed the original, that can still be read
        wait_for(lambda: not shard[database.name].list_collection_names())
    assert code_at(database, then) == 246
    then, before = time_of(client), ids_of(database)
    database.items.update_many({}, {"$inc": {"n": 1}})
    assert ids_at(database, then) == before


def _times_between(began: Timestamp, ended: Timestamp) -> Iterator[Timestamp]:
    seconds = range(began.time, ended.time + 1)
    for second in seconds:
        first = began.inc if second == began.time else 1
        last = ended.inc if second == ended.time else 40
        yield from (Timestamp(second, number) for number in range(first, last + 1))
