"""Tailable cursors on routers: a capped collection is on one shard."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from pymongo import CursorType, MongoClient
from pymongo.database import Database

from tailrace.testing.in_thread import Document
from tailrace.testing.sharded_cluster import ShardedCluster
from tests.mongod.server.running import wait_for

WAITING = {"$match": {"op": "getmore", "cursor.tailable": True}}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ShardedCluster]:
    with ShardedCluster(shards=2) as cluster:
        yield cluster


def test_a_tailable_cursor_follows_an_unsharded_collection(
    client: MongoClient[Document], database: Database[Document]
) -> None:
    database.create_collection("c", capped=True, size=1_000_000)
    database.c.insert_many([{"_id": number} for number in range(3)])
    with database.c.find(cursor_type=CursorType.TAILABLE_AWAIT) as cursor:
        assert [next(cursor)["_id"] for _ in range(3)] == [0, 1, 2]
        database.c.insert_many([{"_id": 3}, {"_id": 4}])
        assert [next(cursor)["_id"] for _ in range(2)] == [3, 4]
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(next, cursor)
            wait_for(lambda: bool(list(client.admin.aggregate([{"$currentOp": {}}, WAITING]))))
            database.c.insert_one({"_id": 5})
            assert waiting.result(10)["_id"] == 5
