"""Statistics, settings and operations on a router, and commands that a router does not have."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from bson import Int64
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import OperationFailure, PyMongoError

from tailrace.testing.sharded_cluster import ShardedCluster
from tests.mongod.cluster.refusals import code_of

Document = dict[str, Any]

SHARDS = {"shard0", "shard1"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ShardedCluster]:
    with ShardedCluster(shards=2, routers=2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def shop(client: "MongoClient[Document]") -> Database[Document]:
    """A collection with 40 documents on two shards, one with 3 on the first."""
    client.admin.command("enableSharding", "shop", primaryShard="shard0")
    client.admin.command("shardCollection", "shop.spread", key={"_id": "hashed"})
    client.shop.spread.create_index("n")
    client.shop.spread.insert_many([{"_id": number, "n": number} for number in range(40)])
    client.shop.single.insert_many([{"_id": number} for number in range(3)])
    return client.shop


# -- every shard ---------------------------------------------------------------------------------------------


def test_fsync_is_run_by_every_shard(client: "MongoClient[Document]") -> None:
    reply = client.admin.command("fsync")
    assert reply["numFiles"] == len(reply["all"]) == 2
    reply = client.admin.command("fsync", lock=True)
    assert [part["lockCount"] for part in reply["all"].values()] == [1, 1]
    reply = client.admin.command("fsyncUnlock")
    assert [part["lockCount"] for part in reply["all"].values()] == [0, 0]


def test_the_catalogs_of_a_cluster_are_consistent(client: "MongoClient[Document]") -> None:
    cursor = client.shop.cursor_command("checkMetadataConsistency", 1)
    assert list(cursor) == []
    assert list(client.shop.cursor_command("checkMetadataConsistency", "spread", checkIndexes=True)) == []


# -- statistics ---------------------------------------------------------------------------------------------


def test_coll_stats(shop: Database[Document]) -> None:
    spread = shop.command("collStats", "spread")
    assert spread["sharded"]
    assert spread["count"] == 40
    assert set(spread["shards"]) == SHARDS
    for field in ("count", "size", "storageSize", "totalIndexSize"):
        assert spread[field] == sum(part[field] for part in spread["shards"].values())
    assert set(spread["indexSizes"]) == {"_id_", "_id_hashed", "n_1"}
    assert spread["nindexes"] == 3
    assert spread["avgObjSize"] == spread["size"] // 40
    single = shop.command("collStats", "single")
    assert not single["sharded"]
    assert single["primary"] == "shard0"
    assert (single["count"], set(single["shards"])) == (3, {"shard0"})
    assert shop.command("collStats", "nothing")["count"] == 0
    assert shop.client["nowhere"].command("collStats", "nothing")["count"] == 0


def test_db_stats(shop: Database[Document]) -> None:
    found = shop.command("dbStats")
    assert {host.partition("/")[0] for host in found["raw"]} == SHARDS
    assert found["objects"] == 43
    assert found["collections"] == 3
    assert found["dataSize"] == sum(part["dataSize"] for part in found["raw"].values())
    assert shop.client.config.command("dbStats")["collections"] > 0


def test_list_databases(cluster: ShardedCluster, shop: Database[Document]) -> None:
    listed = {found["name"]: found for found in shop.client.list_databases()}
    assert "local" not in listed
    assert "config" in listed
    assert set(listed["shop"]["shards"]) == SHARDS
    assert listed["shop"]["sizeOnDisk"] == sum(listed["shop"]["shards"].values())
    assert list(shop.client.list_databases(filter={"name": "shop"}, nameOnly=True)) == [{"name": "shop"}]


def test_data_size(shop: Database[Document]) -> None:
    found = shop.command("dataSize", "shop.spread")
    assert found["numObjects"] == 40
    assert found["size"] == shop.command("collStats", "spread")["size"]


def test_validate(shop: Database[Document]) -> None:
    found = shop.command("validate", "spread")
    assert found["valid"]
    assert sum(part["nrecords"] for part in found["raw"].values()) == 40
    assert code_of(shop, "validate", "nothing") == 26


def test_the_stages_that_show_statistics_have_a_document_for_each_shard(shop: Database[Document]) -> None:
    stats = list(shop.spread.aggregate([{"$collStats": {"storageStats": {}, "count": {}}}]))
    assert {found["shard"] for found in stats} == SHARDS
    assert sum(found["count"] for found in stats) == 40
    assert len({found["host"] for found in stats}) == 2
    shop.spread.find_one({"n": 3})
    uses = list(shop.spread.aggregate([{"$indexStats": {}}, {"$match": {"name": "n_1"}}]))
    assert {found["shard"] for found in uses} == SHARDS
    assert all(found["accesses"]["ops"] >= 1 for found in uses)
    (single,) = shop.single.aggregate([{"$collStats": {"count": {}}}])
    assert (single["shard"], single["count"]) == ("shard0", 3)
    assert shop.spread.estimated_document_count() == 40


def test_server_status(client: "MongoClient[Document]") -> None:
    found = client.admin.command("serverStatus")
    assert found["process"] == "mongos"
    assert found["connections"]["current"] >= 1
    assert found["sharding"]["configsvrConnectionString"].startswith("config/")
    assert not {"repl", "storageEngine", "oplog"} & set(found)
    assert "metrics" not in client.admin.command("serverStatus", metrics=0)
    assert "sharding" not in client.admin.command("serverStatus", sharding=0)


# -- operations ---------------------------------------------------------------------------------------------


def test_operations_of_the_router_and_of_shards(cluster: ShardedCluster, shop: Database[Document]) -> None:
    client = shop.client
    own = cluster.client(router=0, appname="waiting")
    direct = cluster.shard_client("shard1", appname="waiting")
    block = {"failCommands": ["find"], "blockConnection": True, "appName": "waiting"}
    failed: list[int | None] = []

    def find(waiting: "MongoClient[Document]") -> None:
        try:
            waiting.shop.spread.find_one()
        except OperationFailure as error:
            failed.append(error.code)

    with (
        cluster.fail_point(data=block),
        cluster.fail_point(data=block, shard="shard1"),
    ):
        workers = [threading.Thread(target=find, args=(waiting,)) for waiting in (own, direct)]
        for worker in workers:
            worker.start()
        for server in (client, cluster.shard_client("shard1")):
            server.admin.command("waitForFailPoint", "failCommand", timesEntered=1, maxTimeMS=20_000)
        pipeline: list[Document] = [{"$currentOp": {}}, {"$match": {"command.find": "spread"}}]
        shown = {found.get("shard"): found for found in client.admin.aggregate(pipeline)}
        assert set(shown) == {None, "shard1"}
        command = client.admin.command({"currentOp": 1, "command.find": "spread"})["inprog"]
        assert {found["opid"] for found in command} == {found["opid"] for found in shown.values()}
        pipeline[0] = {"$currentOp": {"localOps": True}}
        assert [found.get("shard") for found in client.admin.aggregate(pipeline)] == [None]
        for found in shown.values():
            client.admin.command("killOp", op=found["opid"])
        for worker in workers:
            worker.join(timeout=20)
    assert failed == [11601, 11601]
    assert code_of(client.admin, "killOp", op="nonsense") == 2
    assert code_of(client.admin, "killOp", op="shard7:1") == 70


# -- settings -----------------------------------------------------------------------------------------------


def test_cluster_parameters_apply_to_all_shards(
    cluster: ShardedCluster, client: "MongoClient[Document]"
) -> None:
    wanted = {"preAndPostImages": {"expireAfterSeconds": 100}}
    client.admin.command("setClusterParameter", {"changeStreamOptions": wanted})
    servers = [cluster.client(router=1), *map(cluster.shard_client, sorted(SHARDS))]
    for server in servers:
        (found,) = server.admin.command("getClusterParameter", "changeStreamOptions")["clusterParameters"]
        assert found["preAndPostImages"] == wanted["preAndPostImages"]
    assert code_of(client.admin, "setClusterParameter", {"changeStreamOptions": {"nonsense": 1}}) == 2
    client.admin.command("addShard", "latecomer")
    late = cluster.shard_client("latecomer").admin.command("getClusterParameter", "changeStreamOptions")
    assert late["clusterParameters"][0]["preAndPostImages"] == wanted["preAndPostImages"]
    assert client.admin.command("removeShard", "latecomer")["state"] == "started"
    while client.admin.command("removeShard", "latecomer")["state"] != "completed":
        pass
    off = {"preAndPostImages": {"expireAfterSeconds": "off"}}
    client.admin.command("setClusterParameter", {"changeStreamOptions": off})


def test_default_concerns_apply_to_all_routers(
    cluster: ShardedCluster, client: "MongoClient[Document]"
) -> None:
    client.admin.command("setDefaultRWConcern", defaultReadConcern={"level": "majority"})
    found = cluster.client(router=1).admin.command("getDefaultRWConcern")
    assert found["defaultReadConcern"] == {"level": "majority"}
    assert code_of(client.admin, "setDefaultRWConcern") == 2


def test_parameters_apply_to_one_router(cluster: ShardedCluster, client: "MongoClient[Document]") -> None:
    other = cluster.client(router=1)
    client.admin.command("setParameter", 1, cursorTimeoutMillis=1_234_567)
    assert client.admin.command("getParameter", 1, cursorTimeoutMillis=1)["cursorTimeoutMillis"] == 1_234_567
    assert other.admin.command("getParameter", 1, cursorTimeoutMillis=1)["cursorTimeoutMillis"] != 1_234_567


def test_a_note_is_in_the_oplog_of_every_shard(
    cluster: ShardedCluster, client: "MongoClient[Document]"
) -> None:
    reply = client.admin.command("appendOplogNote", data={"msg": "noted"})
    assert len(reply["raw"]) == 2
    for name in SHARDS:
        assert {"msg": "noted"} in [entry["o"] for entry in cluster.oplog(name)]
    past = reply["operationTime"]
    late = client.admin.command("appendOplogNote", data={"msg": "late"}, maxClusterTime=type(past)(1, 1))
    assert all(part["code"] == 209 for part in late["raw"].values())


# -- commands that routers lack -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "replSetGetStatus",
        "replSetGetConfig",
        "replSetInitiate",
        "replSetStepDown",
        "prepareTransaction",
        "compact",
    ],
)
def test_commands_that_a_router_does_not_have(client: "MongoClient[Document]", name: str) -> None:
    assert code_of(client.admin, name) == 59
    assert name not in client.admin.command("listCommands")["commands"]


def test_there_is_no_local_database(client: "MongoClient[Document]") -> None:
    for command in ({"find": "oplog.rs"}, {"insert": "x", "documents": [{}]}, {"listCollections": 1}):
        assert code_of(client.local, command) == 20


def test_a_write_concern_that_cannot_be_met(shop: Database[Document]) -> None:
    reply = shop.command("create", "concerned", writeConcern={"w": 1})
    assert "writeConcernError" not in reply
    reply = shop.command("drop", "concerned", writeConcern={"w": 5})
    assert reply["writeConcernError"]["code"] == 100


# -- fail points --------------------------------------------------------------------------------------------


def test_a_fail_point_applies_to_one_router(cluster: ShardedCluster, client: "MongoClient[Document]") -> None:
    other = cluster.client(router=1)
    fail = {"failCommands": ["find"], "errorCode": 8}
    client.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=fail)
    other.shop.single.find_one()
    with pytest.raises(OperationFailure) as caught:
        client.shop.single.find_one()
    assert caught.value.code == 8
    client.shop.single.find_one()


@pytest.mark.parametrize(
    ("data", "labels"),
    [
        ({"errorCode": 91}, {"RetryableWriteError", "NoWritesPerformed"}),
        ({"errorCode": 91, "errorLabels": ["Chosen"]}, {"Chosen"}),
        ({"errorCode": 121}, set()),
    ],
)
def test_errors_of_a_fail_point_have_labels(
    cluster: ShardedCluster, client: "MongoClient[Document]", data: Document, labels: set[str]
) -> None:
    with cluster.fail_point(data={"failCommands": ["insert"], **data}), client.start_session() as session:
        command = {"insert": "single", "documents": [{}], "txnNumber": Int64(1), "lsid": session.session_id}
        with pytest.raises(PyMongoError) as caught:
            cluster.client(router=0, retryWrites=False).shop.command(command)
    found = {label for label in ("RetryableWriteError", "NoWritesPerformed", "Chosen")
             if caught.value.has_error_label(label)}  # fmt: skip
    assert found == labels


def test_a_stream_continues_after_an_error_of_its_router(
    cluster: ShardedCluster, shop: Database[Document]
) -> None:
    with (
        shop.spread.watch(max_await_time_ms=20) as stream,
        cluster.fail_point(mode={"times": 1}, data={"failCommands": ["getMore"], "closeConnection": True}),
    ):
        shop.spread.insert_one({"_id": "new"})
        assert stream.next()["documentKey"] == {"_id": "new"}
    shop.spread.delete_one({"_id": "new"})
