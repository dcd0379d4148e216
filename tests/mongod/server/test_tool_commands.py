"""Commands of tools, shells and older drivers; `tests/oracle/test_commands.py` has a mongod beside them."""

import hashlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from bson import MaxKey, MinKey, ObjectId, encode
from bson.son import SON
from gridfs import GridFS
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import OperationFailure

from tests.mongod.server.oplog import entries
from tests.mongod.server.running import Document, RunningServer, connected, running, wait_for


def code_of(database: Database[Document], command: Document) -> int | None:
    with pytest.raises(OperationFailure) as failure:
        database.command(command)
    return failure.value.code


def test_there_are_no_users(database: Database[Document]) -> None:
    for wanted in (1, "ada", ["ada"], {"user": "ada", "db": "shop"}, {"forAllDBs": True}):
        assert database.command({"usersInfo": wanted})["users"] == []
    assert code_of(database, {"usersInfo": 1, "showPrivileges": True}) == 20
    assert code_of(database, {"usersInfo": {"user": 1, "db": "shop"}}) == 2
    assert code_of(database, {"usersInfo": 1, "other": 1}) == 40415


def test_there_are_the_builtin_roles(client: MongoClient[Document], database: Database[Document]) -> None:
    assert database.command({"rolesInfo": 1})["roles"] == []
    names = {role["role"] for role in database.command({"rolesInfo": 1, "showBuiltinRoles": True})["roles"]}
    assert names == {"read", "readWrite", "dbOwner", "userAdmin", "dbAdmin", "enableSharding"}
    admin = client.admin.command({"rolesInfo": 1, "showBuiltinRoles": True})["roles"]
    assert {"root", "readAnyDatabase"} <= {role["role"] for role in admin}
    (role,) = database.command({"rolesInfo": "read", "showPrivileges": True})["roles"]
    assert role["isBuiltin"] is True
    assert "changeStream" in role["privileges"][0]["actions"]
    assert code_of(database, {"rolesInfo": {"role": "read"}}) == 2


def test_index_filters_are_kept_and_shown(items: Collection[Document]) -> None:
    database = items.database
    database.command({"planCacheSetFilter": "items", "query": {"a": 1}, "indexes": ["a_1"]})
    (shown,) = database.command({"planCacheListFilters": "items"})["filters"]
    assert shown == {"query": {"a": 1}, "sort": {}, "projection": {}, "indexes": ["a_1"]}
    database.command({"planCacheClear": "items"})
    database.command({"planCacheClearFilters": "items", "query": {"a": 2}})  # of the same shape
    assert database.command({"planCacheListFilters": "items"})["filters"] == []
    assert code_of(database, {"planCacheSetFilter": "items", "query": {}}) == 2
    items.drop()
    assert database.command({"planCacheListFilters": "items"})["filters"] == []


def test_database_hashes_depend_on_documents_alone(database: Database[Document]) -> None:
    database.one.insert_many([{"_id": 2}, {"_id": 1}])
    database.two.insert_many([{"_id": 1}, {"_id": 2}])
    found = database.command("dbHash")
    assert found["collections"]["one"] == found["collections"]["two"]
    assert found["md5"] == hashlib.md5("".join(found["collections"].values()).encode()).hexdigest()
    database.two.delete_one({"_id": 1})
    chosen = database.command("dbHash", collections=["two"])["collections"]
    assert list(chosen) == ["two"]
    assert chosen["two"] != found["collections"]["two"]


def test_a_check_logs_hashes_that_streams_do_not_show(
    server: RunningServer, database: Database[Document]
) -> None:
    database.c.insert_many([{"_id": 2}, {"_id": 1}, {"_id": 3}])
    with database.c.watch(max_await_time_ms=100) as stream:
        database.command("dbCheck", "c", maxDocsPerBatch=2)
        database.c.insert_one({"_id": "after"})
        assert next(stream)["documentKey"] == {"_id": "after"}
    first, second, _ = entries(server, database.name)[-3:]
    assert (first["op"], first["ns"]) == ("c", f"{database.name}.c")
    assert (first["o"]["minKey"], first["o"]["maxKey"]) == (MinKey(), 2)
    assert first["o"]["md5"] == hashlib.md5(encode({"_id": 1}) + encode({"_id": 2})).hexdigest()
    assert (second["o"]["minKey"], second["o"]["maxKey"]) == (2, MaxKey())
    assert second["o"]["md5"] == hashlib.md5(encode({"_id": 3})).hexdigest()
    assert code_of(database, {"dbCheck": "missing"}) == 26
    assert code_of(database, {"dbCheck": 1, "maxCount": 1}) == 40415
    assert code_of(database.client.local, {"dbCheck": 1}) == 73


def test_the_sum_of_a_file(database: Database[Document]) -> None:
    content = b"0123456789" * 100_000
    file = GridFS(database).put(content)
    reply = database.command(SON([("filemd5", file), ("root", "fs")]))
    assert reply["md5"] == hashlib.md5(content).hexdigest()
    assert reply["numChunks"] == 4


def test_the_oplog_gets_another_size(own_client: MongoClient[Document]) -> None:
    own_client.admin.command({"replSetResizeOplog": 1, "size": 1000.0})
    assert own_client.local.command("collStats", "oplog.rs")["maxSize"] == 1000 << 20
    assert code_of(own_client.admin, {"replSetResizeOplog": 1, "size": 5.0}) == 51024


def test_small_commands(client: MongoClient[Document], items: Collection[Document]) -> None:
    admin, number = client.admin, ObjectId()
    assert admin.command({"driverOIDTest": number})["str"] == str(number)
    assert code_of(admin, {"driverOIDTest": 1}) is None
    assert admin.command("connPoolStats")["pools"] == {}
    assert admin.command("lockInfo")["lockInfo"] == []
    assert admin.command("shardingState")["enabled"] is False
    assert admin.command("whatsmysni")["sni"] is False
    assert admin.command("replSetGetRBID")["rbid"] == 1
    assert admin.command("getDiagnosticData")["data"] == {}
    assert admin.command({"echo": 1, "a": 2})["echo"]["a"] == 2
    assert admin.command("availableQueryOptions")["options"] == 246
    assert code_of(admin, {"getLastError": 1}) == 5739000
    assert code_of(items.database, {"reIndex": "items"}) == 20
    before = admin.command("features")["oidMachine"]
    assert admin.command({"features": 1, "oidReset": True})["oidMachineOld"] == before


def test_writes_wait_while_the_server_is_locked(
    own_client: MongoClient[Document], own_server: RunningServer
) -> None:
    admin, items = own_client.admin, own_client.shop.items
    items.insert_one({"_id": 1})
    assert code_of(admin, {"fsyncUnlock": 1}) is None
    assert [admin.command("fsync", lock=True)["lockCount"] for _ in range(2)] == [1, 2]
    assert code_of(own_client.shop, {"insert": "items", "documents": [{}], "maxTimeMS": 20}) == 50
    assert items.count_documents({}) == 1
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(items.insert_one, {"_id": 2})
        waits = {"op": "insert", "waitingForLock": True}
        wait_for(lambda: bool(list(admin.aggregate([{"$currentOp": {}}, {"$match": waits}]))))
        assert not waiting.done()
        assert admin.command("fsyncUnlock")["lockCount"] == 1
        assert admin.command("fsyncUnlock")["lockCount"] == 0
        assert waiting.result(10).acknowledged
    assert items.count_documents({}) == 2


def test_a_capped_copy(items: Collection[Document]) -> None:
    database = items.database
    with database.watch(show_expanded_events=True) as stream:
        database.command("cloneCollectionAsCapped", "items", toCollection="copy", size=60)
        database.end.insert_one({})
        shown = [next(stream)["operationType"] for _ in range(4)]
    assert list(database.copy.find()) == list(items.find({"_id": {"$gt": 1}}))
    assert database.copy.options()["capped"] is True
    assert shown == ["create", "delete", "create", "insert"]
    assert code_of(database, {"cloneCollectionAsCapped": "items", "toCollection": "copy", "size": 60}) == 48
    for name in (".copy", "$copy", "copy\0", "system.copy"):
        assert code_of(database, {"cloneCollectionAsCapped": "items", "toCollection": name, "size": 60}) == 73


def test_a_capped_copy_may_have_the_name_of_any_database(items: Collection[Document]) -> None:
    database = items.database
    database.command("collMod", "items", validator={"_id": {"$gte": 0}})
    database.command("cloneCollectionAsCapped", "items", toCollection="local", size=4096)
    assert database["local"].options()["validator"] == {"_id": {"$gte": 0}}


def test_commands_of_driver_tests(client: MongoClient[Document]) -> None:
    admin = client.admin
    assert len(admin.command("getnonce")["nonce"]) == 16
    strict = {"apiVersion": "1", "apiStrict": True}
    assert code_of(admin, {"testVersion2": 1, **strict}) == 323
    assert code_of(admin, {"testDeprecation": 1, "apiVersion": "1", "apiDeprecationErrors": True}) == 324
    assert admin.command({"_hashBSONElement": 1})["out"] == 5902408780260971510
    assert admin.command({"_hashBSONElement": {"a": 1}, "seed": 1})["out"] == -8104952552792779042
    assert code_of(admin, {"replSetFreeze": 1}) == 95
    assert code_of(admin, {"setFeatureCompatibilityVersion": "8.2"}) == 7369100
    assert admin.command({"setFeatureCompatibilityVersion": "8.2", "confirm": True})["ok"] == 1.0


def test_statistics_have_the_types_of_a_mongod(items: Collection[Document]) -> None:
    database = items.database
    stats = database.command("dbStats")
    assert [type(stats[name]) for name in ("collections", "objects", "dataSize", "scaleFactor")] == [
        int, int, float, float,
    ]  # fmt: skip
    missing = database.client["never_written"].command("dbStats")
    assert (missing["fsTotalSize"], type(missing["dataSize"])) == (0, int)
    status = database.client.admin.command("serverStatus")
    assert status["extra_info"]["threads"] > 0
    assert status["featureCompatibilityVersion"] == {"major": 8, "minor": 2, "transitioning": 0}


def test_older_releases_show_no_times_of_written_entries() -> None:
    for version, is_shown in (("6.0.27", False), ("8.0.4", True)):
        with running(server_version=version) as server, connected(server) as client:
            status = client.admin.command("replSetGetStatus")
            assert ("writtenOpTime" in status["optimes"]) is is_shown
            assert ("optimeWritten" in status["members"][0]) is is_shown
