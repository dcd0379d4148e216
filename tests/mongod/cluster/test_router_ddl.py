"""Collections, indexes and views are created, changed, renamed and dropped on a router."""

from collections.abc import Iterator
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import BulkWriteError, OperationFailure

from tailrace.testing.sharded_cluster import ShardedCluster
from tests.mongod.cluster.refusals import code_of

Document = dict[str, Any]

SHARDS = ("shard0", "shard1")


@pytest.fixture(scope="module")
def cluster() -> Iterator[ShardedCluster]:
    with ShardedCluster(shards=2, routers=2) as cluster:
        yield cluster


def shard(database: Database[Document], name: str, **options: Any) -> None:
    """Shard a collection by `k`: values below 0 are on the first shard, the others on the second."""
    admin, ns = database.client.admin, f"{database.name}.{name}"
    admin.command("shardCollection", ns, key={"k": 1}, **options)
    admin.command("split", ns, middle={"k": 0})
    admin.command("moveChunk", ns, find={"k": 0}, to="shard1")


def on_shard(cluster: ShardedCluster, name: str, database: Database[Document]) -> Database[Document]:
    return cluster.shard_client(name)[database.name]


def logged(cluster: ShardedCluster, name: str, database: Database[Document]) -> list[tuple[str, bool]]:
    """The commands on a database in a shard's oplog, and whether streams show them."""
    return [
        (next(iter(entry["o"])), bool(entry.get("fromMigrate")))
        for entry in cluster.oplog(name)
        if entry["op"] == "c" and entry["ns"] == f"{database.name}.$cmd"
    ]


def events(database: Database[Document], start: Any) -> list[Document]:
    """The events of a stream of the database since a time."""
    end = database.client.admin.command("ping")["operationTime"]
    found = []
    with database.watch(
        start_at_operation_time=start, show_expanded_events=True, max_await_time_ms=20
    ) as stream:
        database.create_collection("mark_of_the_end")
        while stream.alive:
            event = stream.try_next()
            if event is not None and event["clusterTime"] > end:
                break
            if event is not None:
                found.append(event)
    database.drop_collection("mark_of_the_end")
    return found


def types(database: Database[Document], start: Any) -> list[str]:
    return [event["operationType"] for event in events(database, start)]


def now(database: Database[Document]) -> Any:
    time = database.client.admin.command("ping")["operationTime"]
    return type(time)(time.time, time.inc + 1)


# -- create -------------------------------------------------------------------------------------------------


def test_a_new_database_gets_a_primary_with_its_collections(
    cluster: ShardedCluster, client: "MongoClient[Document]"
) -> None:
    database = client["quite_new"]
    database.create_collection("things", capped=True, size=4096)
    primary = (client.config.databases.find_one({"_id": "quite_new"}) or {})["primary"]
    there = on_shard(cluster, primary, database)
    assert there.list_collection_names() == ["things"]
    assert there.things.options() == database.things.options() == {"capped": True, "size": 4096}
    (other,) = set(SHARDS) - {primary}
    assert not on_shard(cluster, other, database).list_collection_names()
    assert client.list_database_names().count("quite_new") == 1


def test_create_of_an_existing_collection_compares_options(database: Database[Document]) -> None:
    shard(database, "spread")
    database.command("create", "spread")
    assert code_of(database, "create", "spread", capped=True, size=4096) == 48
    assert code_of(database, "create", "spread", viewOn="other") == 48
    assert code_of(database, "create", "$bad") == 73


def test_a_view_of_a_sharded_collection(cluster: ShardedCluster, database: Database[Document]) -> None:
    shard(database, "spread")
    database.spread.insert_many([{"k": k, "n": 1} for k in (-2, -1, 1)])
    database.create_collection("positive", viewOn="spread", pipeline=[{"$match": {"k": {"$gt": -2}}}])
    assert sorted(found["k"] for found in database.positive.find()) == [-1, 1]
    assert "system.views" in on_shard(cluster, "shard0", database).list_collection_names()
    assert "system.views" not in on_shard(cluster, "shard1", database).list_collection_names()
    database.command("collMod", "positive", viewOn="spread", pipeline=[{"$match": {"k": 1}}])
    assert [found["k"] for found in database.positive.find()] == [1]
    database.positive.drop()
    assert database.list_collection_names(filter={"type": "view"}) == []


def test_a_collection_created_in_a_transaction(
    client: "MongoClient[Document]", database: Database[Document]
) -> None:
    with client.start_session() as session, session.start_transaction():
        database.create_collection("inside", session=session)
        database.inside.create_index("a", session=session)
    assert database.list_collection_names() == ["inside"]
    assert set(database.inside.index_information()) == {"_id_", "a_1"}


# -- indexes ------------------------------------------------------------------------------------------------


def test_indexes_are_on_all_shards_and_each_shard_shows_them(
    cluster: ShardedCluster, database: Database[Document]
) -> None:
    shard(database, "spread")
    start = now(database)
    reply = database.command("createIndexes", "spread", indexes=[{"key": {"a": 1}, "name": "a_1"}])
    assert {host.partition("/")[0] for host in reply["raw"]} == set(SHARDS)
    for name in SHARDS:
        assert set(on_shard(cluster, name, database).spread.index_information()) == {"_id_", "k_1", "a_1"}
    reply = database.command("createIndexes", "spread", indexes=[{"key": {"a": 1}, "name": "a_1"}])
    assert all(part["note"] == "all indexes already exist" for part in reply["raw"].values())
    database.spread.drop_index("a_1")
    for name in SHARDS:
        assert set(on_shard(cluster, name, database).spread.index_information()) == {"_id_", "k_1"}
    assert types(database, start) == ["createIndexes", "createIndexes", "dropIndexes", "dropIndexes"]


def test_a_unique_index_begins_with_the_shard_key(database: Database[Document]) -> None:
    shard(database, "spread")
    with pytest.raises(OperationFailure) as caught:
        database.spread.create_index("a", unique=True)
    assert caught.value.code == 67
    database.spread.create_index([("k", 1), ("a", 1)], unique=True)
    database.spread.insert_one({"k": 1, "a": 1})
    with pytest.raises(OperationFailure):
        database.spread.insert_one({"k": 1, "a": 1})
    database.spread.create_index("b")
    index = {"name": "b_1", "prepareUnique": True}
    assert code_of(database, "collMod", "spread", index=index) == 72


def test_an_index_that_one_shard_refuses_is_on_none(
    cluster: ShardedCluster, database: Database[Document]
) -> None:
    shard(database, "spread")
    database.spread.insert_many([{"k": -1, "a": 1}, {"k": 1, "a": 1}, {"k": 1, "a": 1}])
    with pytest.raises(OperationFailure) as caught:
        database.spread.create_index([("k", 1), ("a", 1)], unique=True)
    assert caught.value.code == 11000
    for name in SHARDS:
        assert set(on_shard(cluster, name, database).spread.index_information()) == {"_id_", "k_1"}


def test_the_index_of_the_shard_key_stays(database: Database[Document]) -> None:
    shard(database, "spread")
    database.spread.create_index("a")
    assert code_of(database, "dropIndexes", "spread", index="k_1") == 370
    assert code_of(database, "dropIndexes", "spread", index={"k": 1}) == 370
    assert code_of(database, "collMod", "spread", index={"name": "k_1", "hidden": True}) == 72
    assert code_of(database, "dropIndexes", "spread", index="nothing") == 27
    assert code_of(database, "dropIndexes", "spread", index="_id_") == 72
    assert code_of(database, "dropIndexes", "spread", index=5) == 14
    database.command("dropIndexes", "spread", index="*")
    assert set(database.spread.index_information()) == {"_id_", "k_1"}
    database.spread.create_index([("k", 1), ("a", 1)])
    database.spread.drop_index("k_1")
    assert set(database.spread.index_information()) == {"_id_", "k_1_a_1"}


def test_missing_collections(client: "MongoClient[Document]") -> None:
    nowhere = client["nowhere"]
    assert code_of(nowhere, "dropIndexes", "nothing", index="*") == 26
    assert code_of(nowhere, "collMod", "nothing", validator={}) == 26
    assert code_of(nowhere, "convertToCapped", "nothing", size=4096) == 26
    assert code_of(nowhere, "validate", "nothing") == 26
    assert code_of(client.admin, "renameCollection", "nowhere.a", to="nowhere.b") == 26
    assert nowhere.command("drop", "nothing")["ok"] == 1
    assert "dropped" not in nowhere.command("dropDatabase")
    assert "nowhere" not in client.list_database_names()


# -- other options ------------------------------------------------------------------------------------------


def test_options_change_on_all_shards(cluster: ShardedCluster, database: Database[Document]) -> None:
    shard(database, "spread")
    start = now(database)
    database.command("collMod", "spread", validator={"a": 1}, changeStreamPreAndPostImages={"enabled": True})
    for k in (-1, 1):
        with pytest.raises((OperationFailure, BulkWriteError)) as caught:
            database.spread.insert_one({"k": k, "a": 2})
        assert caught.value.code == 121
    assert types(database, start) == ["modify", "modify"]
    for name in SHARDS:
        options = on_shard(cluster, name, database).spread.options()
        assert options["changeStreamPreAndPostImages"] == {"enabled": True}
    assert code_of(database, "collMod", "spread", validationLevel="nonsense") == 2


def test_a_sharded_collection_cannot_be_capped(database: Database[Document]) -> None:
    shard(database, "spread")
    assert code_of(database, "convertToCapped", "spread", size=4096) == 20
    database.single.insert_one({"_id": 1})
    database.command("convertToCapped", "single", size=4096)
    assert database.single.options()["capped"]
    assert database.single.find_one() == {"_id": 1}


# -- rename -------------------------------------------------------------------------------------------------


def test_renaming_a_sharded_collection(
    cluster: ShardedCluster, client: "MongoClient[Document]", database: Database[Document]
) -> None:
    shard(database, "spread")
    database.spread.insert_many([{"k": -1}, {"k": 1}])
    start = now(database)
    database.spread.rename("renamed")
    assert types(database, start) == ["rename"]
    assert database.list_collection_names() == ["renamed"]
    assert sorted(found["k"] for found in database.renamed.find()) == [-1, 1]
    placed = client.config.collections.find_one({"_id": f"{database.name}.renamed"})
    assert placed is not None
    assert placed["key"] == {"k": 1}
    assert client.config.collections.find_one({"_id": f"{database.name}.spread"}) is None
    database.renamed.insert_one({"k": 2})
    for name in SHARDS:
        assert on_shard(cluster, name, database).list_collection_names() == ["renamed"]
    assert on_shard(cluster, "shard1", database).renamed.count_documents({}) == 2


def test_renaming_over_an_existing_collection(cluster: ShardedCluster, database: Database[Document]) -> None:
    shard(database, "spread")
    database.spread.insert_many([{"k": -1}, {"k": 1}])
    database.single.insert_one({"_id": 1})
    with pytest.raises(OperationFailure) as caught:
        database.single.rename("spread")
    assert caught.value.code == 48
    start = now(database)
    database.single.rename("spread", dropTarget=True)
    assert types(database, start) == ["rename"]
    assert list(database.spread.find()) == [{"_id": 1}]
    assert not on_shard(cluster, "shard1", database).list_collection_names()
    database.client.admin.command("shardCollection", database.spread.full_name, key={"_id": 1})


def test_renaming_to_another_database(client: "MongoClient[Document]", database: Database[Document]) -> None:
    other = f"{database.name}_2"
    client.admin.command("enableSharding", other, primaryShard="shard1")
    shard(database, "spread")
    database.single.insert_one({"_id": 1})
    for source in ("spread", "single"):
        rename = {"renameCollection": f"{database.name}.{source}", "to": f"{other}.there"}
        assert code_of(client.admin, rename) == 125
    same = f"{database.name}_3"
    client.admin.command("enableSharding", same, primaryShard="shard0")
    client.admin.command("renameCollection", f"{database.name}.single", to=f"{same}.there")
    assert client[same].there.find_one() == {"_id": 1}
    rename = {"renameCollection": f"{same}.there", "to": f"{same}.there"}
    assert code_of(client.admin, rename) == 20


def test_the_uuid_that_a_client_expects(database: Database[Document]) -> None:
    shard(database, "spread")
    shard(database, "other")
    (info,) = database.list_collections(filter={"name": "other"})
    uuid = info["info"]["uuid"]
    for command in ("drop", "collMod"):
        assert code_of(database, command, "spread", collectionUUID=uuid) == 361
    database.command("drop", "other", collectionUUID=uuid)
    assert database.list_collection_names() == ["spread"]


# -- drop ---------------------------------------------------------------------------------------------------


def test_a_drop_shows_once_for_each_owner(cluster: ShardedCluster, database: Database[Document]) -> None:
    shard(database, "spread")
    start = now(database)
    with database.spread.watch(max_await_time_ms=20) as stream:
        database.spread.drop()
        seen = []
        while stream.alive:
            event = stream.try_next()
            if event is not None:
                seen.append(event["operationType"])
    assert seen == ["drop", "invalidate"]
    assert types(database, start) == ["drop", "drop"]
    config = database.client.config
    assert config.collections.count_documents({"_id": f"{database.name}.spread"}) == 0
    database.spread.insert_one({"k": 1})
    assert on_shard(cluster, "shard0", database).spread.count_documents({}) == 1
    assert not on_shard(cluster, "shard1", database).list_collection_names()


def test_a_copy_that_a_shard_does_not_own_is_dropped_without_an_event(
    cluster: ShardedCluster, database: Database[Document]
) -> None:
    shard(database, "spread")
    ns = f"{database.name}.spread"
    database.client.admin.command("moveChunk", ns, find={"k": -1}, to="shard1")
    start = now(database)
    database.spread.drop()
    assert types(database, start) == ["drop"]
    for name in SHARDS:
        assert not on_shard(cluster, name, database).list_collection_names()


def test_a_drop_waits_for_the_transactions_that_use_the_collection(
    client: "MongoClient[Document]", database: Database[Document]
) -> None:
    shard(database, "spread")
    with client.start_session() as session, session.start_transaction():
        database.spread.insert_one({"k": -1}, session=session)
        for command in ("drop", "dropDatabase"):
            target: Any = {"drop": "spread", "dropDatabase": 1}[command]
            assert code_of(database, command, target, maxTimeMS=50) == 50
        database.spread.insert_one({"k": 1}, session=session)
    assert database.spread.count_documents({}) == 2
    database.spread.drop()
    assert database.list_collection_names() == []


def test_drop_database_appears_once(
    cluster: ShardedCluster, client: "MongoClient[Document]", database: Database[Document]
) -> None:
    shard(database, "spread")
    database.single.insert_one({})
    start = now(database)
    client.drop_database(database.name)
    assert types(database, start) == ["drop", "drop", "drop", "dropDatabase", "invalidate"]
    assert ("dropDatabase", True) in logged(cluster, "shard1", database)
    assert ("dropDatabase", False) in logged(cluster, "shard0", database)


def test_a_dropped_database_can_be_created_on_another_shard(
    cluster: ShardedCluster, client: "MongoClient[Document]", database: Database[Document]
) -> None:
    shard(database, "spread")
    database.spread.insert_many([{"k": -1}, {"k": 1}])
    client.drop_database(database.name)
    assert client.config.databases.find_one({"_id": database.name}) is None
    assert client.config.collections.find_one({"_id": f"{database.name}.spread"}) is None
    client.admin.command("enableSharding", database.name, primaryShard="shard1")
    # Another router shows it at once.
    again = cluster.client(router=1)[database.name]
    again.spread.insert_one({"k": -1})
    assert on_shard(cluster, "shard1", database).spread.count_documents({}) == 1
    assert not on_shard(cluster, "shard0", database).list_collection_names()


@pytest.mark.parametrize("name", ["admin", "config"])
def test_internal_databases_cannot_be_dropped(client: "MongoClient[Document]", name: str) -> None:
    assert code_of(client[name], "dropDatabase") == 20


def test_a_client_that_waits_for_a_move_can_give_up(database: Database[Document]) -> None:
    """Documents that an open cursor reads are not removed, so the range cannot be moved back before."""
    shard(database, "spread")
    database.spread.insert_many([{"k": k} for k in range(10)])
    admin, ns = database.client.admin, f"{database.name}.spread"
    with database.spread.find(batch_size=2) as cursor:
        next(cursor)
        admin.command("moveChunk", ns, find={"k": 1}, to="shard0")
        assert code_of(admin, "moveChunk", ns, find={"k": 1}, to="shard1", maxTimeMS=50) == 50
        assert len(list(cursor)) == 9
    admin.command("moveChunk", ns, find={"k": 1}, to="shard1")
    assert database.spread.count_documents({}) == 10


# -- $out and $merge ----------------------------------------------------------------------------------------


def test_out_replaces_a_collection_that_is_not_sharded(
    cluster: ShardedCluster, database: Database[Document]
) -> None:
    shard(database, "spread")
    database.spread.insert_many([{"_id": n, "k": n} for n in range(-3, 3)])
    database.single.create_index("k")
    database.single.insert_one({"_id": 99})
    database.spread.aggregate([{"$match": {"k": {"$gte": -1}}}, {"$out": "single"}])
    assert sorted(found["_id"] for found in database.single.find()) == [-1, 0, 1, 2]
    assert set(database.single.index_information()) == {"_id_", "k_1"}
    assert on_shard(cluster, "shard0", database).single.count_documents({}) == 4
    with pytest.raises(OperationFailure) as caught:
        database.single.aggregate([{"$out": "spread"}])
    assert caught.value.code == 28769
    client = database.client
    database.spread.aggregate([{"$out": {"db": f"{database.name}_new", "coll": "copied"}}])
    assert client[f"{database.name}_new"].copied.count_documents({}) == 6


def test_merge_finds_documents_on_their_shards(cluster: ShardedCluster, database: Database[Document]) -> None:
    shard(database, "spread")
    database.spread.insert_many([{"_id": n, "k": n, "old": True} for n in (-2, -1, 1, 2)])
    database.single.insert_many([{"_id": n, "k": n, "new": True} for n in (-1, 0, 1)])
    database.single.aggregate([{"$merge": "spread"}])
    found = {document.pop("_id"): document for document in database.spread.find()}
    assert found == {
        -2: {"k": -2, "old": True},
        -1: {"k": -1, "old": True, "new": True},
        0: {"k": 0, "new": True},
        1: {"k": 1, "old": True, "new": True},
        2: {"k": 2, "old": True},
    }
    assert on_shard(cluster, "shard0", database).spread.count_documents({}) == 2
    with pytest.raises(OperationFailure) as caught:
        database.single.aggregate([{"$merge": {"into": "spread", "on": "new"}}])
    assert caught.value.code == 51183
    database.spread.create_index([("k", 1), ("_id", 1)], unique=True)
    merge = {"into": "spread", "on": ["k", "_id"], "whenMatched": "replace", "whenNotMatched": "discard"}
    database.single.aggregate([{"$match": {"_id": 1}}, {"$merge": merge}])
    assert database.spread.find_one({"_id": 1}) == {"_id": 1, "k": 1, "new": True}
    database.spread.aggregate([{"$merge": "gathered"}])
    assert database.gathered.count_documents({}) == 5


def test_renaming_a_missing_collection_does_not_change_the_target(database: Database[Document]) -> None:
    shard(database, "kept")
    database.kept.insert_many([{"_id": 1, "k": -1}, {"_id": 2, "k": 1}])
    with pytest.raises(OperationFailure) as caught:
        database.missing.rename("kept", dropTarget=True)
    assert caught.value.code == 26
    assert database.kept.count_documents({}) == 2
