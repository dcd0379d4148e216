"""Commands that shard collections and show the placement, on a router."""

from collections.abc import Iterator
from typing import Any

import pytest
from bson import Int64, MaxKey, MinKey, ObjectId, Timestamp
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import OperationFailure

from tailrace.testing.sharded_cluster import ShardedCluster
from tests.mongod.cluster.refusals import code_of

Document = dict[str, Any]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ShardedCluster]:
    with ShardedCluster(shards=2) as cluster:
        yield cluster


@pytest.fixture
def database(database: Database[Document]) -> str:
    """The name of a database for one test, on the first shard."""
    return database.name


def config(client: "MongoClient[Document]", name: str, identity: Any) -> Document:
    """A document of the config database."""
    found = client.config[name].find_one({"_id": identity})
    assert found is not None
    return found


def chunks_of(client: "MongoClient[Document]", ns: str) -> list[tuple[Any, Any, str]]:
    uuid = config(client, "collections", ns)["uuid"]
    return [
        (chunk["min"], chunk["max"], chunk["shard"])
        for chunk in client.config.chunks.find({"uuid": uuid}).sort("min")
    ]


def test_enable_sharding(client: "MongoClient[Document]") -> None:
    assert client.admin.command("enableSharding", "chosen", primaryShard="shard1")["ok"] == 1
    assert config(client, "databases", "chosen")["primary"] == "shard1"
    client.admin.command("enableSharding", "chosen")
    client.admin.command("enableSharding", "chosen", primaryShard="shard1")
    assert code_of(client.admin, "enableSharding", "chosen", primaryShard="shard0") == 48
    assert code_of(client.admin, "enableSharding", "other", primaryShard="shard9") == 70
    assert code_of(client.admin, "enableSharding", "config") == 72
    assert code_of(client.admin, "enableSharding", "a.b") == 73
    with pytest.raises(OperationFailure):
        client.other.command("enableSharding", "other")


def test_a_ranged_key(client: "MongoClient[Document]", database: str) -> None:
    ns = f"{database}.orders"
    assert client.admin.command("shardCollection", ns, key={"x": 1})["collectionsharded"] == ns
    assert chunks_of(client, ns) == [({"x": MinKey()}, {"x": MaxKey()}, "shard0")]
    assert [index["key"] for index in client[database].orders.list_indexes()] == [{"_id": 1}, {"x": 1}]
    found = config(client, "collections", ns)
    assert (found["key"], found["unique"]) == ({"x": 1}, False)
    version = client.admin.command("getShardVersion", ns)
    assert (version["version"], version["versionEpoch"]) == (Timestamp(1, 0), found["lastmodEpoch"])
    client.admin.command("shardCollection", ns, key={"x": 1})
    assert code_of(client.admin, "shardCollection", ns, key={"x": 1}, unique=True) == 23
    assert code_of(client.admin, "shardCollection", ns, key={"y": 1}) == 23


def test_a_hashed_key_is_spread_at_once(
    cluster: ShardedCluster, client: "MongoClient[Document]", database: str
) -> None:
    ns = f"{database}.orders"
    client.admin.command("shardCollection", ns, key={"_id": "hashed"}, numInitialChunks=4)
    middle = 4611686018427387902
    assert [(chunk[0]["_id"], chunk[2]) for chunk in chunks_of(client, ns)] == [
        (MinKey(), "shard0"),
        (-middle, "shard0"),
        (0, "shard1"),
        (middle, "shard1"),
    ]
    uuids = set()
    for name in ("shard0", "shard1"):
        (found,) = cluster.shard_client(name)[database].list_collections()
        uuids.add(found["info"]["uuid"])
        indexes = cluster.shard_client(name)[database].orders.list_indexes()
        assert [index["key"] for index in indexes] == [{"_id": 1}, {"_id": "hashed"}]
    assert len(uuids) == 1


def test_a_hashed_key_without_a_number(client: "MongoClient[Document]", database: str) -> None:
    client.admin.command("shardCollection", f"{database}.first", key={"a": "hashed", "b": 1})
    assert [chunk[2] for chunk in chunks_of(client, f"{database}.first")] == ["shard0", "shard1"]
    client.admin.command("shardCollection", f"{database}.second", key={"b": 1, "a": "hashed"})
    assert [chunk[2] for chunk in chunks_of(client, f"{database}.second")] == ["shard0"]


def test_refused_sharding(cluster: ShardedCluster, client: "MongoClient[Document]", database: str) -> None:
    """Collections are created on the shard directly, so that only sharding is tested here."""
    there = cluster.shard_client("shard0")[database]
    there.create_collection("capped", capped=True, size=4096)
    there.create_collection("collated", collation={"locale": "de"})
    there.create_collection("view", viewOn="capped")
    there.unique.create_index("email", unique=True)
    there.full.insert_one({"x": 1})
    there.arrays.insert_one({"x": [1]})
    there.arrays.create_index("x")
    there.sparse.insert_one({"x": 1})
    there.sparse.create_index("x", sparse=True)

    def shard(name: str, key: Document, **options: Any) -> int | None:
        return code_of(client.admin, "shardCollection", f"{database}.{name}", key=key, **options)

    assert shard("new", {}) == 2
    assert shard("new", {"x": -1}) == 2
    assert shard("new", {"x": "hashed"}, unique=True) == 72
    assert shard("new", {"x": "hashed"}, numInitialChunks=0) == 2
    assert shard("new", {"x": 1}, presplitHashedZones=True) == 72
    assert shard("new", {"x": 1}, collation={"locale": "de"}) == 2
    assert shard("new", {"x": 1}, surprise=1) == 40415
    assert shard("capped", {"x": 1}) == 72
    assert shard("collated", {"x": 1}) == 2
    assert shard("view", {"x": 1}) == 166
    assert shard("unique", {"x": 1}) == 72
    assert shard("full", {"x": 1}) == 72
    assert shard("arrays", {"x": 1}) == 72
    assert shard("sparse", {"x": 1}) == 72
    assert shard("system.js", {"x": 1}) == 20
    assert code_of(client.admin, "shardCollection", "config.mine", key={"x": 1}) == 20
    assert code_of(client.admin, "shardCollection", "nodot", key={"x": 1}) == 73
    assert code_of(client.admin, "shardCollection", f"{database}.new") == 40414
    assert client.config.collections.count_documents({"_id": {"$regex": f"^{database}\\."}}) == 0


def test_existing_collections_and_indexes_are_used(
    cluster: ShardedCluster, client: "MongoClient[Document]", database: str
) -> None:
    there = cluster.shard_client("shard0")[database]
    there.orders.insert_many({"x": n, "y": n} for n in range(10))
    there.orders.create_index([("x", 1), ("y", -1)])
    client.admin.command("shardCollection", f"{database}.orders", key={"x": 1})
    assert len(list(client[database].orders.list_indexes())) == 2
    assert client[database].orders.count_documents({}) == 10
    there.collated.insert_one({"_id": "a"})
    there.create_collection("simple", collation={"locale": "de"})
    client.admin.command(
        "shardCollection", f"{database}.simple", key={"x": 1}, collation={"locale": "simple"}
    )
    assert [index.get("collation", {}).get("locale") for index in client[database].simple.list_indexes()] == [
        "de",
        None,
    ]
    there.mail.insert_one({"email": "a"})
    there.mail.create_index("email", unique=True)
    client.admin.command("shardCollection", f"{database}.mail", key={"email": 1}, unique=True)
    assert config(client, "collections", f"{database}.mail")["unique"] is True


def test_it_is_logged_once_for_streams(
    cluster: ShardedCluster, client: "MongoClient[Document]", database: str
) -> None:
    """Streams show the entries of the home shard; those of other shards are part of a migration."""
    ns = f"{database}.orders"
    client.admin.command("shardCollection", ns, key={"a": "hashed"}, numInitialChunks=2)
    home = [
        entry
        for entry in cluster.shard_client("shard0").local.oplog.rs.find(
            {"o2.shardCollection": {"$exists": True}}
        )
        if entry["ns"] == ns
    ]
    assert [(entry["op"], entry["o"], entry["o2"]) for entry in home] == [
        (
            "n",
            {"msg": {"shardCollection": ns}},
            {
                "shardCollection": ns,
                "shardKey": {"a": "hashed"},
                "unique": False,
                "presplitHashedZones": False,
                "capped": False,
                "numInitialChunks": Int64(2),
            },
        )
    ]
    other = list(cluster.shard_client("shard1").local.oplog.rs.find({"ns": f"{database}.$cmd"}))
    assert [next(iter(entry["o"])) for entry in other] == ["create", "createIndexes"]
    assert all(entry["fromMigrate"] and entry["ui"] == home[0]["ui"] for entry in other)


def test_a_stream_shows_it_once(client: "MongoClient[Document]", database: str) -> None:
    with client[database].watch(show_expanded_events=True) as stream:
        client.admin.command("shardCollection", f"{database}.orders", key={"a": "hashed"})
        client[database].orders.insert_many({"_id": n, "a": n} for n in range(10))
        events = [stream.next() for _ in range(13)]
        assert stream.try_next() is None
    assert [event["operationType"] for event in events] == [
        "create",
        "createIndexes",
        "shardCollection",
        *["insert"] * 10,
    ]
    assert events[2]["operationDescription"] == {
        "shardKey": {"a": "hashed"},
        "unique": False,
        "presplitHashedZones": False,
        "capped": False,
    }
    assert len({event["collectionUUID"] for event in events}) == 1
    assert all(list(event["documentKey"]) == ["a", "_id"] for event in events[3:])


def test_shards_and_routers_are_shown(cluster: ShardedCluster, client: "MongoClient[Document]") -> None:
    shards = client.admin.command("listShards")["shards"]
    assert [shard["_id"] for shard in shards] == ["shard0", "shard1"]
    assert shards == list(client.config.shards.find())
    found = client.admin.command("getShardMap")
    assert found["map"].keys() == {"shard0", "shard1", "config"}
    assert found["map"]["shard0"] == shards[0]["host"]
    assert found["hosts"][shards[1]["host"].partition("/")[2]] == "shard1"
    assert client.admin.command("flushRouterConfig")["flushed"] is True
    assert client.admin.command("isdbgrid")["isdbgrid"] == 1
    assert isinstance(config(client, "version", 1)["clusterId"], ObjectId)


def sharded_numbers(client: "MongoClient[Document]", cluster: ShardedCluster, database: str) -> str:
    """A collection with the documents 0 to 99, sharded by `x`."""
    there = cluster.shard_client("shard0")[database]
    there.numbers.insert_many({"_id": n, "x": n} for n in range(100))
    there.numbers.create_index("x")
    client.admin.command("shardCollection", f"{database}.numbers", key={"x": 1})
    return f"{database}.numbers"


def ends_of(client: "MongoClient[Document]", ns: str) -> list[Any]:
    """The lower ends of all chunks except the first."""
    return [low["x"] for low, _, _ in chunks_of(client, ns)[1:]]


def test_splitting(cluster: ShardedCluster, client: "MongoClient[Document]", database: str) -> None:
    ns = sharded_numbers(client, cluster, database)
    client.admin.command("split", ns, middle={"x": 60})
    assert ends_of(client, ns) == [60]
    client.admin.command("split", ns, find={"x": 5})
    assert ends_of(client, ns) == [30, 60]
    client.admin.command("split", ns, bounds=[{"x": 60}, {"x": MaxKey()}])
    assert ends_of(client, ns) == [30, 60, 80]
    assert client.admin.command("getShardVersion", ns)["version"] == Timestamp(1, 6)
    assert [entry["what"] for entry in client.config.changelog.find({"ns": ns})] == [
        "shardCollection.end",
        *["split"] * 3,
    ]
    client.admin.command("split", ns, middle={"x": 1000})
    assert code_of(client.admin, "split", ns, find={"x": 2000}) == 125
    assert code_of(client.admin, "split", ns, middle={"x": 60}) == 72
    assert code_of(client.admin, "split", ns, middle={"y": 60}) == 2
    assert code_of(client.admin, "split", ns, find={"y": 60}) == 61
    assert code_of(client.admin, "split", ns, bounds=[{"x": 60}, {"x": 61}]) == 2
    assert code_of(client.admin, "split", ns, bounds=[{"x": 60}]) == 2
    assert code_of(client.admin, "split", ns) == 72
    assert code_of(client.admin, "split", ns, find={"x": 1}, middle={"x": 1}) == 72
    assert code_of(client.admin, "split", f"{database}.other", middle={"x": 1}) == 118
    assert client[database].numbers.count_documents({}) == 100


def test_splitting_hashes(client: "MongoClient[Document]", database: str) -> None:
    ns = f"{database}.hashes"
    client.admin.command("shardCollection", ns, key={"x": "hashed"})
    client.admin.command("split", ns, middle={"x": Int64(77)})
    assert 77 in ends_of(client, ns)
    assert code_of(client.admin, "split", ns, find={"x": 5}) == 125


def test_merging(cluster: ShardedCluster, client: "MongoClient[Document]", database: str) -> None:
    ns = sharded_numbers(client, cluster, database)
    for middle in range(10, 100, 10):
        client.admin.command("split", ns, middle={"x": middle})
    client.admin.command("mergeChunks", ns, bounds=[{"x": 20}, {"x": 60}])
    assert ends_of(client, ns) == [10, 20, 60, 70, 80, 90]
    assert code_of(client.admin, "mergeChunks", ns, bounds=[{"x": 15}, {"x": 60}]) == 20
    assert code_of(client.admin, "mergeChunks", ns, bounds=[{"x": 60}, {"x": 20}]) == 2
    assert code_of(client.admin, "mergeChunks", ns, bounds=[{"y": 60}, {"y": 70}]) == 2
    assert code_of(client.admin, "mergeChunks", ns) == 40414
    assert code_of(client.admin, "mergeChunks", f"{database}.other", bounds=[{"x": 1}, {"x": 2}]) == 118
    client.admin.command("mergeAllChunksOnShard", ns, shard="shard1")
    assert len(ends_of(client, ns)) == 6
    client.admin.command("mergeAllChunksOnShard", ns, shard="shard0", maxNumberOfChunksToMerge=3)
    assert ends_of(client, ns) == [60, 70, 80, 90]
    client.admin.command("mergeAllChunksOnShard", ns, shard="shard0")
    assert ends_of(client, ns) == []
    assert code_of(client.admin, "mergeAllChunksOnShard", ns, shard="shard9") == 70


def test_the_balancer_is_off_until_it_is_started(
    cluster: ShardedCluster, client: "MongoClient[Document]", database: str
) -> None:
    ns = sharded_numbers(client, cluster, database)
    assert client.admin.command("balancerStatus")["mode"] == "off"
    client.admin.command("balancerStart")
    assert client.admin.command("balancerStatus")["mode"] == "full"
    assert config(client, "settings", "balancer") == {"_id": "balancer", "mode": "full", "stopped": False}
    client.admin.command("balancerStop")
    assert client.admin.command("balancerStatus")["mode"] == "off"
    status = client.admin.command("balancerCollectionStatus", ns)
    assert (status["chunkSize"], status["balancerCompliant"]) == (128, True)
    assert code_of(client.admin, "balancerCollectionStatus", f"{database}.other") == 118


def test_everything_is_the_same_after_a_restart() -> None:
    with ShardedCluster(shards=2) as cluster:
        client = cluster.client()
        client.admin.command("enableSharding", "shop", primaryShard="shard1")
        client.admin.command("shardCollection", "shop.orders", key={"x": "hashed"}, numInitialChunks=6)
        names = ("databases", "collections", "chunks", "version", "settings")
        before = {name: list(client.config[name].find()) for name in names}
        shards = [shard["_id"] for shard in client.config.shards.find()]
        cluster.restart()
        client = cluster.client()
        assert {name: list(client.config[name].find()) for name in names} == before
        assert [shard["_id"] for shard in client.admin.command("listShards")["shards"]] == shards
        client.admin.command("shardCollection", "shop.orders", key={"x": "hashed"})
        client.admin.command("split", "shop.orders", middle={"x": Int64(5)})
        assert client.config.chunks.count_documents({}) == 7
