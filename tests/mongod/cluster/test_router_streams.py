"""Change streams on a router: one ordered stream of all shards, on any router."""

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.errors import OperationFailure

from tailrace.testing.sharded_cluster import ShardedCluster

Document = dict[str, Any]
Client = MongoClient[Document]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ShardedCluster]:
    with ShardedCluster(shards=3, routers=2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def other(cluster: ShardedCluster) -> Client:
    """A client of the other router."""
    return cluster.client(router=1)


@pytest.fixture
def orders(client: Client, request: pytest.FixtureRequest) -> Collection[Document]:
    return spread(client, str(request.node.name).partition("[")[0].removeprefix("test_")[:50])


def spread(client: Client, database: str) -> Collection[Document]:
    """A collection sharded by `k`: below 100 on the first shard, below 200 on the second, then the third."""
    ns = f"{database}.orders"
    client.admin.command("enableSharding", database, primaryShard="shard0")
    client.admin.command("shardCollection", ns, key={"k": 1})
    for shard, bound in (("shard1", 100), ("shard2", 200)):
        client.admin.command("split", ns, middle={"k": bound})
        client.admin.command("moveChunk", ns, find={"k": bound}, to=shard)
    return client[database].orders


def take(stream: Any, count: int) -> list[Document]:
    return [stream.next() for _ in range(count)]


def types(events: list[Document]) -> list[str]:
    return [event["operationType"] for event in events]


# -- one ordered stream -----------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["collection", "database", "cluster"])
def test_shows_all_shards_in_the_order_of_time(client: Client, scope: str) -> None:
    orders = spread(client, f"order_in_{scope}")
    watched: Any = {"collection": orders, "database": orders.database, "cluster": client}[scope]
    with watched.watch() as stream:
        for number in range(60):
            orders.insert_one({"_id": number, "k": number * 70 % 300})
        events = take(stream, 60)
    assert [event["documentKey"] for event in events] == [
        {"k": number * 70 % 300, "_id": number} for number in range(60)
    ]
    times = [event["clusterTime"] for event in events]
    assert times == sorted(set(times))
    tokens = [event["_id"]["_data"] for event in events]
    assert tokens == sorted(tokens)


def test_writers_on_all_routers_at_once(client: Client, other: Client, orders: Collection[Document]) -> None:
    def write(writer: Client, first: int) -> None:
        collection = writer[orders.database.name].orders
        for number in range(first, 300, 2):
            collection.insert_one({"_id": number, "k": number})

    writers = [threading.Thread(target=write, args=(one, n)) for n, one in enumerate((client, other))]
    with orders.watch() as here, other[orders.database.name].orders.watch() as there:
        for writer in writers:
            writer.start()
        events = take(here, 300)
        assert events == take(there, 300)
        for writer in writers:
            writer.join()
    assert sorted(event["documentKey"]["_id"] for event in events) == list(range(300))
    tokens = [event["_id"]["_data"] for event in events]
    assert tokens == sorted(set(tokens))
    by_writer = [[n for e in events if (n := e["documentKey"]["_id"]) % 2 == one] for one in (0, 1)]
    assert by_writer == [list(range(one, 300, 2)) for one in (0, 1)]


def test_a_stream_shows_writes_after_its_opening(orders: Collection[Document]) -> None:
    for number in range(30):
        orders.insert_one({"_id": f"before {number}", "k": number * 10})
        with orders.watch() as stream:
            orders.insert_one({"_id": number, "k": -number})
            assert stream.next()["documentKey"]["_id"] == number


def test_a_transaction_over_shards_appears_once(client: Client, orders: Collection[Document]) -> None:
    with orders.watch() as stream, client.start_session() as session:
        with session.start_transaction():
            for number in range(6):
                orders.insert_one({"_id": number, "k": number * 50}, session=session)
        orders.insert_one({"_id": "after", "k": 1})
        events = take(stream, 7)
    assert sorted(event["documentKey"]["_id"] for event in events[:6]) == list(range(6))
    assert events[6]["documentKey"]["_id"] == "after"
    assert len({(e["lsid"]["id"], e["txnNumber"]) for e in events[:6]}) == 1


def test_only_streams_on_shards_show_moves_of_ranges(
    cluster: ShardedCluster, client: Client, orders: Collection[Document]
) -> None:
    orders.insert_many([{"_id": number, "k": number} for number in range(5)])
    on_shard = cluster.shard_client("shard1")[orders.database.name].orders
    options = {"$changeStream": {"showMigrationEvents": True}}
    with orders.watch() as stream, on_shard.aggregate([options]) as migrating:
        client.admin.command("moveChunk", orders.full_name, find={"k": 1}, to="shard1", _waitForDelete=True)
        orders.insert_one({"_id": "after", "k": 1})
        assert stream.next()["documentKey"]["_id"] == "after"
        moved = [next(migrating) for _ in range(5)]
    assert [event["documentKey"]["_id"] for event in moved] == list(range(5))


# -- resuming ---------------------------------------------------------------------------------------------


def test_any_token_resumes_on_any_router(other: Client, orders: Collection[Document]) -> None:
    with orders.watch() as stream:
        orders.insert_many([{"_id": number, "k": number * 40} for number in range(8)])
        orders.update_many({}, {"$set": {"v": 1}})
        deleted = orders.delete_many({"k": {"$gte": 100}}).deleted_count
        events = take(stream, 16 + deleted)
    there = other[orders.database.name].orders
    for position, event in enumerate(events):
        with there.watch(resume_after=event["_id"]) as resumed:
            assert take(resumed, len(events) - position - 1) == events[position + 1 :]


def test_a_stream_resumes_from_the_position_of_an_empty_one(
    other: Client, orders: Collection[Document]
) -> None:
    with orders.watch(max_await_time_ms=1) as stream:
        orders.insert_one({"_id": 1, "k": 1})
        assert stream.next()["documentKey"]["_id"] == 1
        other.elsewhere.c.insert_one({})
        while stream.try_next() is not None:
            pass
        token = stream.resume_token
    orders.insert_one({"_id": 2, "k": 250})
    with other[orders.database.name].orders.watch(resume_after=token) as resumed:
        assert resumed.next()["documentKey"]["_id"] == 2


def test_positions_never_go_back(orders: Collection[Document]) -> None:
    positions = []
    with orders.watch(max_await_time_ms=5) as stream:
        for number in range(60):
            orders.insert_one({"_id": number, "k": number * 70 % 300})
            stream.try_next()
            assert stream.resume_token is not None
            positions.append(stream.resume_token["_data"])
    assert positions == sorted(positions)


# -- invalidation -----------------------------------------------------------------------------------------


def test_a_sharded_collection_is_dropped_on_each_of_its_shards(orders: Collection[Document]) -> None:
    with orders.database.watch() as stream:
        orders.insert_one({"k": 1})
        assert stream.next()["operationType"] == "insert"
        orders.drop()
        events = take(stream, 3)
    assert types(events) == ["drop"] * 3
    assert len({event["clusterTime"] for event in events}) == 3
    assert len({event["ns"]["coll"] for event in events}) == 1


def test_invalidation_appears_once(other: Client, orders: Collection[Document]) -> None:
    with orders.watch() as stream:
        orders.insert_many([{"_id": number, "k": number * 100} for number in range(3)])
        orders.drop()
        assert types(list(itertools.islice(stream, 5))) == ["insert"] * 3 + ["drop", "invalidate"]
        assert not stream.alive
        token = stream.resume_token
    again = other[orders.database.name].orders
    with pytest.raises(OperationFailure) as raised:
        again.watch(resume_after=token)
    assert raised.value.code == 260
    # The drops on the other shards happened later, so each of them invalidates a resumed stream.
    for _ in range(2):
        with again.watch(start_after=token) as stream:
            assert types(list(itertools.islice(stream, 2))) == ["drop", "invalidate"]
            token = stream.resume_token
    with again.watch(start_after=token) as stream:
        again.insert_one({"_id": "new"})
        assert stream.next()["documentKey"] == {"_id": "new"}


def test_the_drop_of_a_database_appears_once(orders: Collection[Document]) -> None:
    orders.insert_many([{"k": number * 100} for number in range(3)])
    with orders.database.watch() as stream:
        orders.database.client.drop_database(orders.database.name)
        found = types(list(stream))
        assert not stream.alive
    assert found == ["drop"] * 3 + ["dropDatabase", "invalidate"]


# -- images -----------------------------------------------------------------------------------------------


def test_images_come_from_the_right_shard(orders: Collection[Document]) -> None:
    orders.database.command("collMod", "orders", changeStreamPreAndPostImages={"enabled": True})
    orders.insert_many([{"_id": number, "k": number * 100, "v": 0} for number in range(3)])
    with orders.watch(full_document="required", full_document_before_change="required") as stream:
        for number in range(3):
            orders.update_one({"k": number * 100}, {"$inc": {"v": 1}})
        orders.delete_one({"k": 200})
        events = take(stream, 4)
    assert [event["fullDocumentBeforeChange"] for event in events] == [
        {"_id": 0, "k": 0, "v": 0},
        {"_id": 1, "k": 100, "v": 0},
        {"_id": 2, "k": 200, "v": 0},
        {"_id": 2, "k": 200, "v": 1},
    ]
    assert [event["fullDocument"]["v"] for event in events[:3]] == [1, 1, 1]


def test_update_lookup_uses_the_whole_key(orders: Collection[Document]) -> None:
    for k in (1, 150, 250):
        orders.insert_one({"_id": "the same", "k": k})
    with orders.watch(full_document="updateLookup") as stream:
        for k in (250, 1, 150):
            orders.update_one({"k": k}, {"$set": {"v": k}})
        events = take(stream, 3)
    assert [event["documentKey"]["k"] for event in events] == [250, 1, 150]
    assert [event["fullDocument"]["v"] for event in events] == [250, 1, 150]


def test_update_lookup_finds_a_moved_document(client: Client, orders: Collection[Document]) -> None:
    orders.insert_one({"_id": 1, "k": 1})
    with orders.watch(full_document="updateLookup") as stream:
        orders.update_one({"k": 1}, {"$set": {"v": 1}})
        client.admin.command("moveChunk", orders.full_name, find={"k": 1}, to="shard2", _waitForDelete=True)
        orders.update_one({"k": 1}, {"$set": {"v": 2}})
        events = take(stream, 2)
    assert [event["fullDocument"]["v"] for event in events] == [2, 2]


# -- refusals and statistics ------------------------------------------------------------------------------


def test_show_migration_events_is_refused_on_a_router(client: Client) -> None:
    with pytest.raises(OperationFailure) as raised:
        client.shop.aggregate([{"$changeStream": {"showMigrationEvents": True}}])
    assert raised.value.code == 31123


def test_the_router_counts_its_own_streams(
    client: Client, other: Client, orders: Collection[Document]
) -> None:
    def opened(one: Client) -> int:
        return int(one.admin.command("serverStatus")["metrics"]["changeStreams"]["opened"])

    before = opened(client), opened(other)
    with orders.watch():
        pass
    assert (opened(client), opened(other)) == (before[0] + 1, before[1])


# -- shards that join and leave ---------------------------------------------------------------------------


def test_nothing_is_lost_while_shards_join_and_leave() -> None:
    with ShardedCluster(shards=2) as cluster:
        client = cluster.client()
        client.admin.command("enableSharding", "shop", primaryShard="shard0")
        client.admin.command("shardCollection", "shop.orders", key={"k": 1})
        client.admin.command("split", "shop.orders", middle={"k": 100})
        client.admin.command("moveChunk", "shop.orders", find={"k": 100}, to="shard1")
        orders = client.shop.orders
        with orders.watch() as stream:
            orders.insert_many([{"_id": number, "k": number * 20} for number in range(10)])
            cluster.call(cluster.cluster.servers.start_shard("shard9"))
            client.admin.command(
                "moveChunk", "shop.orders", find={"k": 100}, to="shard9", _waitForDelete=True
            )
            orders.insert_many([{"_id": number, "k": number * 20 % 200} for number in range(10, 20)])
            token = take(stream, 1)[0]["_id"]
            cluster.call(cluster.cluster.placement.remove_shard("shard1"))
            orders.insert_many([{"_id": number, "k": number * 20 % 200} for number in range(20, 30)])
            events = take(stream, 29)
        assert [event["documentKey"]["_id"] for event in events] == list(range(1, 30))
        with pytest.raises(OperationFailure) as raised:
            orders.watch(resume_after=token)
        assert raised.value.code == 286
        with orders.watch(resume_after=events[-3]["_id"]) as resumed:
            assert take(resumed, 2) == events[-2:]
        cluster.restart()
        client = cluster.client()
        with pytest.raises(OperationFailure) as raised:
            client.shop.orders.watch(resume_after=token)
        assert raised.value.code == 286
        with client.shop.orders.watch(resume_after=events[-3]["_id"]) as resumed:
            assert take(resumed, 2) == events[-2:]


def test_entries_that_one_shard_has_truncated_are_lost() -> None:
    with ShardedCluster(shards=2) as cluster:
        client = cluster.client()
        with client.shop.watch() as stream:
            client.shop.orders.insert_many([{"_id": number} for number in range(3)])
            token = take(stream, 1)[0]["_id"]
        for _ in range(2):
            client.admin.command("appendOplogNote", data={"note": 1})
        primary = client.config.databases.find_one({"_id": "shop"})
        assert primary is not None
        cluster.truncate_oplog(primary["primary"])
        with pytest.raises(OperationFailure) as raised:
            client.shop.watch(resume_after=token)
        assert raised.value.code == 286
