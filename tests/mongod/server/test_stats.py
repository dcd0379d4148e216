"""collStats, dbStats, dataSize, listDatabases and validate."""

import bson
import pytest
from bson import Int64
from pymongo import IndexModel, MongoClient
from pymongo.database import Database

from tailrace.mongod.store.write_unit import WriteUnit
from tests.mongod.server.oplog import refused
from tests.mongod.server.running import Document, RunningServer


def fill(database: Database[Document], number: int = 10) -> list[Document]:
    documents = [{"_id": n, "a": [n, n + 1], "text": "x" * n} for n in range(number)]
    database.c.insert_many(documents)
    return documents


def size_of(documents: list[Document]) -> int:
    return sum(len(bson.encode(document)) for document in documents)


def test_collection_statistics(database: Database[Document]) -> None:
    documents = fill(database)
    database.c.create_index("a")
    reply = database.command("collStats", "c")
    assert (reply["ns"], reply["count"], reply["size"]) == (f"{database.name}.c", 10, size_of(documents))
    assert reply["avgObjSize"] == size_of(documents) // 10
    assert reply["nindexes"] == 2
    assert set(reply["indexSizes"]) == {"_id_", "a_1"}
    assert reply["totalSize"] == reply["storageSize"] + reply["totalIndexSize"]
    assert reply["capped"] is False
    database.c.delete_many({"_id": {"$lt": 5}})
    database.c.update_one({"_id": 9}, {"$set": {"text": ""}})
    left = [{**document, "text": ""} if document["_id"] == 9 else document for document in documents[5:]]
    reply = database.command("collStats", "c")
    assert (reply["count"], reply["size"]) == (5, size_of(left))


def test_figures_are_as_short_as_they_can_be(database: Database[Document]) -> None:
    fill(database)
    reply = database.command("collStats", "c")
    (stage,) = database.c.aggregate([{"$collStats": {"storageStats": {}, "count": {}}}])
    names = ["size", "count", "avgObjSize", "numOrphanDocs", "storageSize", "freeStorageSize", "capped"]
    names += ["nindexes", "indexDetails", "indexBuilds", "totalIndexSize", "totalSize", "indexSizes"]
    assert [name for name in reply if name in {*names, "scaleFactor"}] == [*names, "scaleFactor"]
    assert list(stage["storageStats"]) == [*names, "scaleFactor"]
    for name in ("size", "count", "storageSize", "totalSize"):
        assert type(reply[name]) is type(stage["storageStats"][name]) is int
    assert type(stage["count"]) is int
    database.command("create", "large", capped=True, size=2**33, max=5)
    reply = database.command("collStats", "large")
    assert (type(reply["max"]), type(reply["maxSize"])) == (int, Int64)
    assert list(reply).index("maxSize") < list(reply).index("nindexes")


def test_validate_names_indexes_in_their_order(database: Database[Document]) -> None:
    fill(database)
    database.c.create_indexes([IndexModel("z"), IndexModel("a")])
    reply = database.command("validate", "c")
    assert list(reply["keysPerIndex"]) == list(reply["indexDetails"]) == ["_id_", "a_1", "z_1"]


def test_scale(database: Database[Document]) -> None:
    fill(database, 200)
    plain, scaled = database.command("collStats", "c"), database.command("collStats", "c", scale=1024)
    assert scaled["size"] == plain["size"] // 1024
    assert scaled["scaleFactor"] == 1024
    with refused(2):
        database.command("collStats", "c", scale=0)


def test_statistics_of_capped_and_missing_collections(database: Database[Document]) -> None:
    database.command("create", "capped", capped=True, size=5000, max=3)
    reply = database.command("collStats", "capped")
    assert (reply["capped"], reply["max"], reply["maxSize"]) == (True, 3, 5000)
    assert "avgObjSize" not in reply
    reply = database.command("collStats", "nosuch")
    assert (reply["count"], reply["size"], reply["nindexes"]) == (0, 0, 0)


def test_database_statistics(database: Database[Document]) -> None:
    documents = fill(database)
    database.d.insert_one({"_id": 1})
    database.d.create_index("a")
    reply = database.command("dbStats")
    assert (reply["db"], reply["collections"], reply["objects"]) == (database.name, 2, 11)
    assert reply["indexes"] == 3
    assert reply["dataSize"] == size_of([*documents, {"_id": 1}])
    database.command("create", "v", viewOn="c")
    assert database.command("dbStats")["views"] == 1
    assert database.client["nosuch_database"].command("dbStats")["collections"] == 0


def test_data_size(database: Database[Document]) -> None:
    documents = fill(database)
    ns = f"{database.name}.c"
    reply = database.command("dataSize", ns)
    assert (reply["size"], reply["numObjects"]) == (size_of(documents), 10)
    reply = database.command("dataSize", ns, keyPattern={"_id": 1}, min={"_id": 3}, max={"_id": 6})
    assert (reply["size"], reply["numObjects"]) == (size_of(documents[3:6]), 3)
    reply = database.command("dataSize", ns, maxObjects=4)
    assert reply["maxReached"] is True
    assert database.command("dataSize", f"{database.name}.nosuch")["size"] == 0
    with refused(73):
        database.command("dataSize", "nodot")
    with refused(2):
        database.command("dataSize", ns, min={"_id": 3})


def test_list_databases(client: MongoClient[Document], database: Database[Document]) -> None:
    fill(database)
    reply = client.admin.command("listDatabases", filter={"name": database.name})
    (entry,) = reply["databases"]
    assert entry["empty"] is False
    assert entry["sizeOnDisk"] == reply["totalSize"] > 0
    names = client.admin.command("listDatabases", nameOnly=True)
    assert {"name": database.name} in names["databases"]
    assert "totalSize" not in names
    assert {"local", "config"} <= {entry["name"] for entry in names["databases"]}
    with refused(13):
        database.command("listDatabases")


# -- validate --------------------------------------------------------------------------------------------


def test_a_valid_collection(database: Database[Document]) -> None:
    fill(database)
    database.c.create_index("a")
    reply = database.command("validate", "c")
    assert reply["valid"] is True
    assert (reply["nrecords"], reply["nIndexes"]) == (10, 2)
    assert reply["keysPerIndex"] == {"_id_": 10, "a_1": 20}
    assert reply["indexDetails"]["a_1"]["valid"] is True
    assert (reply["errors"], reply["missingIndexEntries"], reply["extraIndexEntries"]) == ([], [], [])


@pytest.mark.parametrize("name", ["oplog.rs"])
def test_internal_collections_are_valid(client: MongoClient[Document], name: str) -> None:
    assert client.local.command("validate", name)["valid"] is True


def damage(server: RunningServer, database: Database[Document], what: str) -> None:
    """Change the files without the server's knowledge."""
    store = server.server.store

    def work(unit: WriteUnit) -> None:
        collection = unit.catalog.collection(f"{database.name}.c")
        assert collection is not None
        index = collection.index("a_1")
        assert index is not None
        transaction, tables = unit.state.transaction, unit.state.tables
        key, document = next(unit.records(collection))
        stored, _ = next(unit.index_entries(collection, index, b"", b"\xff"))
        if what == "a key is missing":
            transaction.delete(index.prefix + stored, db=tables.index)
        elif what == "a key too many":
            transaction.put(index.prefix + b"\x2b\x08\x04" + key, key, db=tables.index)
        elif what == "a key of no record":
            transaction.put(index.prefix + b"\x2b\x08\x04" + b"\xff" * 8, b"\xff" * 8, db=tables.index)
        elif what == "a record is gone":
            transaction.delete(collection.prefix + key, db=tables.records)
        elif what == "a record is broken":
            broken = document[:-5] + b"\xff\xff\xff\xff" + document[-1:]
            transaction.put(collection.prefix + key, broken, db=tables.records)
        else:
            unit.add_to_count(collection.ident, 1, 0)
        unit.state.changes += 1

    async def run() -> None:
        await store.write(work)

    server.call(run())


@pytest.mark.parametrize(
    ("what", "field"),
    [
        ("a key is missing", "missingIndexEntries"),
        ("a key too many", "extraIndexEntries"),
        ("a key of no record", "extraIndexEntries"),
        ("a record is gone", "extraIndexEntries"),
        ("a record is broken", "corruptRecords"),
        ("a wrong count", "errors"),
    ],
)
def test_damage_is_found(server: RunningServer, database: Database[Document], what: str, field: str) -> None:
    database.c.create_index("a")
    database.c.insert_many([{"a": n, "text": "some text"} for n in range(5)])
    damage(server, database, what)
    reply = database.command("validate", "c")
    assert reply["valid"] is False
    assert len(reply[field]) > 0
    assert len(reply["errors"]) > 0


def test_a_broken_record_that_no_index_lists_is_found(
    server: RunningServer, database: Database[Document]
) -> None:
    database.create_collection("c", clusteredIndex={"key": {"_id": 1}, "unique": True})
    database.c.insert_one({"_id": 1, "text": "some text"})
    store = server.server.store

    def work(unit: WriteUnit) -> None:
        collection = unit.catalog.collection(f"{database.name}.c")
        assert collection is not None
        key, document = next(unit.records(collection))
        broken = document[:-5] + b"\xff\xff\xff\xff" + document[-1:]
        unit.state.transaction.put(collection.prefix + key, broken, db=unit.state.tables.records)
        unit.state.changes += 1

    async def run() -> None:
        await store.write(work)

    server.call(run())
    reply = database.command("validate", "c")
    assert (reply["valid"], len(reply["corruptRecords"]), len(reply["errors"])) == (False, 1, 1)


def test_validations_that_are_refused(database: Database[Document]) -> None:
    fill(database)
    with refused(26):
        database.command("validate", "nosuch")
    with refused(72):
        database.command("validate", "c", full=True, background=True)
    with refused(72):
        database.command("validate", "c", repair=True)
    assert database.command("validate", "c", metadata=True)["valid"] is True


def test_compact_has_nothing_to_do(database: Database[Document]) -> None:
    fill(database)
    assert database.command("compact", "c")["bytesFreed"] == 0
    with refused(26):
        database.command("compact", "nosuch")
