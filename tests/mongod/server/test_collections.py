"""create, collMod, drop, dropDatabase, renameCollection, convertToCapped and listCollections."""

import threading
from typing import Any
from uuid import uuid4

import pytest
from bson import Binary, Int64
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import OperationFailure

from tests.mongod.server.oplog import commands, entries, last_entry, refused
from tests.mongod.server.running import Document, RunningServer

ID_INDEX = {"v": 2, "key": {"_id": 1}, "name": "_id_"}


def listed(database: Database[Document], name: str) -> Document:
    (entry,) = database.list_collections(filter={"name": name})
    return dict(entry)


def own_fields(reply: Document) -> Document:
    return {name: value for name, value in reply.items() if name not in ("$clusterTime", "operationTime")}


# -- create --------------------------------------------------------------------------------------------


def test_create_is_listed_and_logged(server: RunningServer, database: Database[Document]) -> None:
    database.command("create", "orders")
    entry = listed(database, "orders")
    assert list(entry) == ["name", "type", "options", "info", "idIndex"]
    assert entry["type"] == "collection"
    assert entry["options"] == {}
    assert entry["info"]["readOnly"] is False
    assert entry["idIndex"] == ID_INDEX
    logged = last_entry(server, database.name)
    assert logged["ns"] == f"{database.name}.$cmd"
    assert logged["o"] == {"create": "orders", "idIndex": ID_INDEX}
    assert logged["ui"] == entry["info"]["uuid"]


def test_all_options_in_catalog_order(server: RunningServer, database: Database[Document]) -> None:
    database.command(
        {
            "create": "all",
            "validationAction": "warn",
            "validationLevel": "moderate",
            "collation": {"locale": "fr", "strength": 2},
            "validator": {"a": {"$gte": 1}},
            "indexOptionDefaults": {"storageEngine": {"lmdb": {}}},
            "storageEngine": {"lmdb": {"x": 1}},
            "changeStreamPreAndPostImages": {"enabled": True},
            "max": 7,
            "size": 1000,
            "capped": True,
        }
    )
    logged = last_entry(server, database.name)["o"]
    assert list(logged) == [
        "create", "capped", "size", "max", "changeStreamPreAndPostImages", "storageEngine",
        "indexOptionDefaults", "validator", "validationLevel", "validationAction", "collation", "idIndex",
    ]  # fmt: skip
    assert type(logged["size"]) is int
    assert type(logged["max"]) is int
    assert logged["collation"]["caseLevel"] is False
    assert logged["idIndex"]["collation"] == logged["collation"]
    options = listed(database, "all")["options"]
    assert options == {name: value for name, value in logged.items() if name not in ("create", "idIndex")}


def test_disabled_images_and_the_simple_collation_are_not_stored(
    server: RunningServer, database: Database[Document]
) -> None:
    images = {"enabled": False}
    database.command("create", "c", changeStreamPreAndPostImages=images, collation={"locale": "simple"})
    assert listed(database, "c")["options"] == {}
    assert last_entry(server, database.name)["o"] == {"create": "c", "idIndex": ID_INDEX}


def test_a_clustered_collection(server: RunningServer, database: Database[Document]) -> None:
    spec = {"key": {"_id": 1}, "unique": True, "name": "byid"}
    database.command("create", "cl", clusteredIndex=spec, expireAfterSeconds=10)
    complete = {"v": 2, "key": {"_id": 1}, "name": "byid", "unique": True}
    assert last_entry(server, database.name)["o"] == {
        "create": "cl",
        "clusteredIndex": complete,
        "expireAfterSeconds": 10,
    }
    entry = listed(database, "cl")
    assert entry["options"] == {"clusteredIndex": complete, "expireAfterSeconds": 10}
    assert "idIndex" not in entry
    shown = {**complete, "expireAfterSeconds": 10, "clustered": True}
    assert list(database.cl.list_indexes()) == [shown]
    database.cl.insert_many([{"_id": 2}, {"_id": 1}])
    with refused(11000, "dup key: { _id: 1 }"):
        database.cl.insert_one({"_id": 1})


def test_a_time_series_collection(server: RunningServer, database: Database[Document]) -> None:
    database.command("create", "ts", timeseries={"timeField": "t", "metaField": "m", "granularity": "hours"})
    complete = {"timeField": "t", "metaField": "m", "granularity": "hours", "bucketMaxSpanSeconds": 2592000}
    buckets, views, definition = entries(server, database.name)
    assert buckets["o"].pop("validator")["$jsonSchema"]["required"] == ["_id", "control", "data"]
    assert buckets["o"] == {"create": "system.buckets.ts", "clusteredIndex": True, "timeseries": complete}
    assert views["o"]["create"] == "system.views"
    unpacked = {"timeField": "t", "metaField": "m", "bucketMaxSpanSeconds": 2592000}
    assert definition["o"] == {
        "_id": f"{database.name}.ts",
        "viewOn": "system.buckets.ts",
        "pipeline": [{"$_internalUnpackBucket": unpacked}],
    }
    entry = listed(database, "ts")
    assert entry["type"] == "timeseries"
    assert entry["options"] == {"timeseries": complete}
    assert listed(database, "system.buckets.ts")["info"]["uuid"] == buckets["ui"]
    database.command("collMod", "ts", expireAfterSeconds=100)
    assert database.command("drop", "ts")["ns"] == f"{database.name}.ts"
    deleted, dropped = entries(server, database.name)[-2:]
    assert deleted["op"] == "d"
    assert dropped["o"] == {"drop": "system.buckets.ts"}
    assert database.list_collection_names() == ["system.views"]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"capped": True}, 72),
        ({"size": 100}, 72),
        ({"capped": True, "size": 0}, 2),
        ({"capped": True, "size": 2**51}, 2),
        ({"capped": True, "size": 100, "max": 2**31}, 2),
        ({"capped": "yes", "size": 100}, 14),
        ({"changeStreamPreAndPostImages": {}}, 40414),
        ({"changeStreamPreAndPostImages": {"enabled": 1}}, 14),
        ({"changeStreamPreAndPostImages": {"enabled": True, "x": 1}}, 40415),
        ({"changeStreamPreAndPostImages": True}, 14),
        ({"recordPreImages": True}, 40415),
        ({"validator": {"$nope": 1}}, 2),
        ({"validator": 1}, 14),
        ({"validationLevel": "hard"}, 2),
        ({"validationAction": "shrug"}, 2),
        ({"collation": {"locale": "xx"}}, 2),
        ({"collation": {}}, 40414),
        ({"expireAfterSeconds": 5}, 72),
        ({"autoIndexId": False}, 50001),
        ({"pipeline": []}, 72),
        ({"storageEngine": {"lmdb": 1}}, 2),
        ({"indexOptionDefaults": {"unique": True}}, 40415),
        ({"clusteredIndex": {"key": {"a": 1}, "unique": True}}, 197),
        ({"clusteredIndex": {"key": {"_id": 1}, "unique": False}}, 5979700),
        ({"clusteredIndex": {"key": {"_id": 1}}}, 40414),
        ({"clusteredIndex": True}, 5979703),
        ({"clusteredIndex": {"key": {"_id": 1}, "unique": True}, "capped": True, "size": 100}, 6049200),
        ({"clusteredIndex": {"key": {"_id": 1}, "unique": True}, "expireAfterSeconds": -1}, 72),
        ({"clusteredIndex": {"key": {"_id": 1}, "unique": True}, "idIndex": ID_INDEX}, 72),
        ({"idIndex": {"key": {"a": 1}, "name": "_id_"}}, 2),
        ({"idIndex": {"key": {"_id": 1}, "name": "_id_", "sparse": True}}, 197),
        ({"idIndex": {"key": {"_id": 1}, "name": "_id_", "collation": {"locale": "de"}}}, 2),
        ({"timeseries": {}}, 40414),
        ({"timeseries": {"timeField": "a.b"}}, 72),
        ({"timeseries": {"timeField": "t", "metaField": "t"}}, 72),
        ({"timeseries": {"timeField": "t", "metaField": "_id"}}, 72),
        ({"timeseries": {"timeField": "t", "granularity": "years"}}, 2),
        ({"timeseries": {"timeField": "t", "bucketMaxSpanSeconds": 60}}, 72),
        ({"timeseries": {"timeField": "t", "x": 1}}, 40415),
        ({"timeseries": {"timeField": "t"}, "capped": True, "size": 100}, 72),
        ({"timeseries": {"timeField": "t"}, "changeStreamPreAndPostImages": {"enabled": True}}, 72),
        ({"nosuchoption": 1}, 40415),
    ],
)
def test_options_that_are_refused(database: Database[Document], options: Document, code: int) -> None:
    with refused(code):
        database.command({"create": "c", **options})
    assert database.list_collection_names() == []


@pytest.mark.parametrize("name", ["", ".a", "$cmd", "a.$b", "system.nosuch", "x" * 250])
def test_names_that_are_refused(database: Database[Document], name: str) -> None:
    with refused(73):
        database.command("create", name)


def test_images_are_refused_in_internal_databases(client: MongoClient[Document]) -> None:
    for name in ("admin", "config", "local"):
        with refused(72, "changeStreamPreAndPostImages"):
            client[name].command("create", "c", changeStreamPreAndPostImages={"enabled": True})


def test_creating_again(server: RunningServer, database: Database[Document]) -> None:
    database.command("create", "c", capped=True, size=4096)
    before = len(entries(server, database.name))
    assert database.command("create", "c", capped=True, size=4096.0)["ok"] == 1.0
    assert len(entries(server, database.name)) == before
    with refused(48, f"{database.name}.c"):
        database.command("create", "c")


def test_a_database_name_in_another_case(client: MongoClient[Document], database: Database[Document]) -> None:
    database.command("create", "c")
    with refused(13297):
        client[database.name.upper()].command("create", "c")


def test_collections_of_local_are_not_logged(server: RunningServer, client: MongoClient[Document]) -> None:
    client.local.command("create", "mine")
    try:
        assert entries(server, "local") == []
        assert "mine" in client.local.list_collection_names()
    finally:
        client.local.drop_collection("mine")


def test_racing_creators(client: MongoClient[Document], database: Database[Document]) -> None:
    """The second one finds the collection of the first, in any order."""
    outcomes: list[Any] = []

    def create(size: int) -> None:
        try:
            outcomes.append(client[database.name].command("create", "c", capped=True, size=size)["ok"])
        except OperationFailure as failure:
            outcomes.append(failure.code)

    threads = [threading.Thread(target=create, args=(size,)) for size in (1000, 1000, 2000, 2000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [1.0, 1.0, 48, 48]


# -- drop ----------------------------------------------------------------------------------------------


def test_drop(server: RunningServer, database: Database[Document]) -> None:
    database.c.insert_many([{"_id": 1}, {"_id": 2}])
    database.c.create_index("a")
    uuid = listed(database, "c")["info"]["uuid"]
    reply = own_fields(database.command("drop", "c"))
    assert reply == {"nIndexesWas": 2, "ns": f"{database.name}.c", "ok": 1.0}
    logged = last_entry(server, database.name)
    assert (logged["o"], logged["o2"], logged["ui"]) == ({"drop": "c"}, {"numRecords": 2}, uuid)
    assert isinstance(logged["o2"]["numRecords"], Int64)
    assert database.list_collection_names() == []


def test_dropping_missing_collections(server: RunningServer, database: Database[Document]) -> None:
    assert own_fields(database.command("drop", "nosuch")) == {"ok": 1.0}
    assert entries(server, database.name) == []


def test_a_dropped_collection_is_empty_when_created_again(database: Database[Document]) -> None:
    database.c.insert_one({"_id": 1})
    database.drop_collection("c")
    database.c.insert_one({"_id": 1})
    reply = database.command("collStats", "c")
    assert (reply["count"], reply["nindexes"]) == (1, 1)


def test_drop_of_another_uuid_is_refused(database: Database[Document]) -> None:
    database.command("create", "c")
    database.command("create", "other")
    uuid = listed(database, "other")["info"]["uuid"]
    with pytest.raises(OperationFailure) as failure:
        database.command("drop", "c", collectionUUID=uuid)
    details: Any = failure.value.details
    assert failure.value.code == 361
    assert (details["db"], details["expectedCollection"], details["actualCollection"]) == (
        database.name,
        "c",
        "other",
    )
    assert sorted(database.list_collection_names()) == ["c", "other"]


def test_internal_collections_cannot_be_dropped(client: MongoClient[Document]) -> None:
    with refused(5255000):
        client.local.command("drop", "oplog.rs")
    with refused(20):
        client.config.command("drop", "system.preimages")


def test_drop_database(
    server: RunningServer, client: MongoClient[Document], database: Database[Document]
) -> None:
    database.b.insert_one({"_id": 1})
    database.command("create", "a")
    database.command("create", "v", viewOn="a", pipeline=[])
    before = len(entries(server, database.name))
    reply = own_fields(database.command("dropDatabase"))
    assert reply == {"ok": 1.0}
    logged = entries(server, database.name)[before:]
    assert [entry["o"] for entry in logged] == [
        {"drop": "a"},
        {"drop": "b"},
        {"drop": "system.views"},
        {"dropDatabase": 1},
    ]
    assert logged[-1]["fromMigrate"] is False
    assert "ui" not in logged[-1]
    assert database.name not in client.list_database_names()
    assert list(database.list_collections()) == []


def test_dropping_a_missing_database(server: RunningServer, database: Database[Document]) -> None:
    assert own_fields(database.command("dropDatabase")) == {"ok": 1.0}
    assert entries(server, database.name) == []


@pytest.mark.parametrize("name", ["admin", "config", "local"])
def test_internal_databases_cannot_be_dropped(client: MongoClient[Document], name: str) -> None:
    with refused(20):
        client[name].command("dropDatabase")


# -- renameCollection ------------------------------------------------------------------------------------


def rename(client: MongoClient[Document], source: str, target: str, **options: Any) -> Document:
    return client.admin.command("renameCollection", source, to=target, **options)


def test_rename(server: RunningServer, client: MongoClient[Document], database: Database[Document]) -> None:
    database.a.insert_one({"_id": 1})
    database.a.create_index("x", unique=True)
    uuid = listed(database, "a")["info"]["uuid"]
    rename(client, f"{database.name}.a", f"{database.name}.b")
    logged = last_entry(server, database.name)
    assert logged["o"] == {
        "renameCollection": f"{database.name}.a",
        "to": f"{database.name}.b",
        "stayTemp": False,
    }
    assert logged["ui"] == uuid
    assert "o2" not in logged
    assert database.list_collection_names() == ["b"]
    assert listed(database, "b")["info"]["uuid"] == uuid
    assert set(database.b.index_information()) == {"_id_", "x_1"}
    with refused(11000):
        database.b.insert_one({"_id": 1})
    assert database.command("validate", "b")["valid"]


def test_rename_over_another(
    server: RunningServer, client: MongoClient[Document], database: Database[Document]
) -> None:
    database.a.insert_one({"_id": 1})
    database.b.insert_many([{"_id": n} for n in range(3)])
    replaced = listed(database, "b")["info"]["uuid"]
    with refused(48):
        rename(client, f"{database.name}.a", f"{database.name}.b")
    rename(client, f"{database.name}.a", f"{database.name}.b", dropTarget=True)
    logged = last_entry(server, database.name)
    assert logged["o"]["dropTarget"] == replaced
    assert logged["o2"] == {"numRecords": 3}
    assert database.command("collStats", "b")["count"] == 1


def test_rename_into_another_database(
    server: RunningServer, client: MongoClient[Document], database: Database[Document]
) -> None:
    target = client[f"{database.name}_target"]
    database.command("create", "a", changeStreamPreAndPostImages={"enabled": True})
    database.a.create_index("x", unique=True)
    database.a.insert_many([{"_id": n, "x": n} for n in range(3)])
    target.b.insert_one({"_id": 9})
    replaced = listed(target, "b")["info"]["uuid"]
    before = len(entries(server, target.name))
    rename(client, f"{database.name}.a", f"{target.name}.b", dropTarget=True)
    create, index, copies, renamed = entries(server, target.name)[before:]
    temporary = create["o"]["create"]
    assert temporary.startswith("tmp")
    assert "temp" not in create["o"]
    assert create["o"]["changeStreamPreAndPostImages"] == {"enabled": True}
    assert index["o"] == {
        "createIndexes": temporary, "v": 2, "unique": True, "key": {"x": 1}, "name": "x_1",
    }  # fmt: skip
    assert list(index["o"]) == ["createIndexes", "v", "unique", "key", "name"]
    assert [operation["o"] for operation in copies["o"]["applyOps"]] == [{"_id": n, "x": n} for n in range(3)]
    assert renamed["o"] == {
        "renameCollection": f"{target.name}.{temporary}",
        "to": f"{target.name}.b",
        "stayTemp": False,
        "dropTarget": replaced,
    }
    assert last_entry(server, database.name)["o"] == {"drop": "a"}
    assert target.list_collection_names() == ["b"]
    assert listed(target, "b")["options"] == {"changeStreamPreAndPostImages": {"enabled": True}}
    assert target.command("validate", "b")["keysPerIndex"] == {"_id_": 3, "x_1": 3}
    assert database.list_collection_names() == []


@pytest.mark.parametrize(
    ("source", "target", "code"),
    [
        ("nosuch", "b", 26),
        ("a", "a", 20),
        ("a", "system.nosuch", 20),
        ("a", "system.views", 20),
        ("a", "b$c", 20),
        ("system.views", "b", 20),
        ("v", "b", 166),
        ("a", "v", 48),
        ("a", "$x", 20),
        ("a", ".x", 20),
        ("a", "x.$y", 20),
        ("a", "x\0y", 20),
        ("a", "x" * 250, 20),
        ("ts", "b", 166),
    ],
)
def test_renames_that_are_refused(
    client: MongoClient[Document], database: Database[Document], source: str, target: str, code: int
) -> None:
    database.command("create", "a")
    database.command("create", "v", viewOn="a")
    database.command("create", "ts", timeseries={"timeField": "t"})
    before = sorted(database.list_collection_names())
    with refused(code):
        rename(client, f"{database.name}.{source}", f"{database.name}.{target}")
    assert sorted(database.list_collection_names()) == before


def test_rename_between_replicated_and_local(
    client: MongoClient[Document], database: Database[Document]
) -> None:
    database.command("create", "a")
    with refused(20):
        rename(client, f"{database.name}.a", "local.a")
    with refused(20):
        rename(client, "local.oplog.rs", "local.other")


def test_rename_is_for_admin(database: Database[Document]) -> None:
    with refused(13):
        database.command("renameCollection", f"{database.name}.a", to=f"{database.name}.b")


def test_drop_target_by_uuid(client: MongoClient[Document], database: Database[Document]) -> None:
    database.command("create", "a")
    database.command("create", "b")
    with refused(361):
        rename(client, f"{database.name}.a", f"{database.name}.b", dropTarget=Binary(uuid4().bytes, 4))
    uuid = listed(database, "b")["info"]["uuid"]
    rename(client, f"{database.name}.a", f"{database.name}.b", dropTarget=uuid)
    assert database.list_collection_names() == ["b"]


def test_convert_to_capped(server: RunningServer, database: Database[Document]) -> None:
    database.c.insert_many([{"_id": n, "text": "x" * 100} for n in range(20)])
    database.c.create_index("text")
    old = listed(database, "c")["info"]["uuid"]
    database.command("convertToCapped", "c", size=600)
    entry = listed(database, "c")
    assert entry["options"] == {"capped": True, "size": 600}
    assert entry["info"]["uuid"] != old
    logged = [entry for entry in entries(server, database.name) if "convertToCapped" in entry["ns"]]
    copies = [entry for entry in logged if entry["op"] == "i"]
    assert [entry["o"]["_id"] for entry in copies] == list(range(20))
    assert all(entry["fromMigrate"] for entry in copies)
    removed = [entry for entry in logged if entry["op"] == "d"]
    assert [entry["o"]["_id"] for entry in removed] == list(range(16))
    assert not any("fromMigrate" in entry for entry in removed)
    renamed = last_entry(server, database.name)
    assert renamed["o"]["to"] == f"{database.name}.c"
    assert renamed["o"]["dropTarget"] == old
    with refused(26):
        database.command("convertToCapped", "nosuch", size=600)


# -- collMod ---------------------------------------------------------------------------------------------


def test_coll_mod_logs_the_old_options(server: RunningServer, database: Database[Document]) -> None:
    database.command("create", "c", validator={"a": 1})
    uuid = listed(database, "c")["info"]["uuid"]
    database.command("collMod", "c", validator={"a": 2}, validationLevel="moderate")
    logged = last_entry(server, database.name)
    assert logged["o"] == {"collMod": "c", "validator": {"a": 2}, "validationLevel": "moderate"}
    assert logged["o2"] == {"collectionOptions_old": {"uuid": uuid, "validator": {"a": 1}}}
    assert logged["ui"] == uuid
    assert listed(database, "c")["options"] == {
        "validator": {"a": 2}, "validationLevel": "moderate", "validationAction": "error",
    }  # fmt: skip
    database.command("collMod", "c", validator={})
    assert "validator" not in listed(database, "c")["options"]


def test_images_on_and_off(server: RunningServer, database: Database[Document]) -> None:
    database.command("create", "c")
    database.command("collMod", "c", changeStreamPreAndPostImages={"enabled": True})
    assert listed(database, "c")["options"] == {"changeStreamPreAndPostImages": {"enabled": True}}
    database.command("collMod", "c", changeStreamPreAndPostImages={"enabled": False})
    logged = last_entry(server, database.name)
    assert logged["o"] == {"collMod": "c", "changeStreamPreAndPostImages": {"enabled": False}}
    before = logged["o2"]["collectionOptions_old"]
    assert before["changeStreamPreAndPostImages"] == {"enabled": True}
    assert listed(database, "c")["options"] == {}


def test_capped_sizes(server: RunningServer, database: Database[Document]) -> None:
    database.command("create", "c", capped=True, size=1000, max=5)
    database.command("collMod", "c", cappedSize=2000, cappedMax=0)
    assert listed(database, "c")["options"] == {"capped": True, "size": 2000, "max": 2**31 - 1}
    assert last_entry(server, database.name)["o"] == {"collMod": "c", "cappedSize": 2000, "cappedMax": 0}
    database.command("create", "plain")
    with refused(72, "capped"):
        database.command("collMod", "plain", cappedSize=2000)


def test_expiry_of_clustered_collections(database: Database[Document]) -> None:
    database.command("create", "c", clusteredIndex={"key": {"_id": 1}, "unique": True})
    database.command("collMod", "c", expireAfterSeconds=5)
    assert listed(database, "c")["options"]["expireAfterSeconds"] == 5
    database.command("collMod", "c", expireAfterSeconds="off")
    assert "expireAfterSeconds" not in listed(database, "c")["options"]
    with refused(72):
        database.command("collMod", "c", expireAfterSeconds="never")


def test_granularity_only_grows(database: Database[Document]) -> None:
    database.command("create", "ts", timeseries={"timeField": "t", "metaField": "m"})
    database.command("collMod", "ts", timeseries={"granularity": "minutes"})
    options = listed(database, "ts")["options"]["timeseries"]
    assert options == {
        "timeField": "t", "metaField": "m", "granularity": "minutes", "bucketMaxSpanSeconds": 86400,
    }  # fmt: skip
    with refused(72):
        database.command("collMod", "ts", timeseries={"granularity": "seconds"})


@pytest.mark.parametrize(
    ("name", "changes", "code"),
    [
        ("nosuch", {}, 26),
        ("c", {"viewOn": "x"}, 72),
        ("c", {"expireAfterSeconds": 5}, 72),
        ("c", {"timeseries": {"granularity": "hours"}}, 72),
        ("c", {"validationLevel": "hard"}, 2),
        ("c", {"changeStreamPreAndPostImages": {}}, 40414),
        ("c", {"what": 1}, 40415),
        ("v", {"validator": {}}, 72),
        ("v", {"changeStreamPreAndPostImages": {"enabled": True}}, 72),
        ("ts", {"changeStreamPreAndPostImages": {"enabled": True}}, 72),
    ],
)
def test_changes_that_are_refused(
    server: RunningServer, database: Database[Document], name: str, changes: Document, code: int
) -> None:
    database.command("create", "c")
    database.command("create", "v", viewOn="c")
    database.command("create", "ts", timeseries={"timeField": "t"})
    before = len(entries(server, database.name))
    with refused(code):
        database.command({"collMod": name, **changes})
    assert len(entries(server, database.name)) == before


# -- listCollections -------------------------------------------------------------------------------------


def test_names_only(database: Database[Document]) -> None:
    database.command("create", "c")
    database.command("create", "v", viewOn="c")
    reply = database.command("listCollections", nameOnly=True)
    assert reply["cursor"]["ns"] == f"{database.name}.$cmd.listCollections"
    assert reply["cursor"]["firstBatch"] == [
        {"name": "c", "type": "collection"},
        {"name": "system.views", "type": "collection"},
        {"name": "v", "type": "view"},
    ]


def test_filters_see_everything(database: Database[Document]) -> None:
    database.command("create", "a", capped=True, size=1000)
    database.command("create", "b")
    reply = database.command("listCollections", filter={"options.capped": True}, nameOnly=True)
    assert [entry["name"] for entry in reply["cursor"]["firstBatch"]] == ["a"]
    with refused(14):
        database.command("listCollections", filter=1)


def test_batches(database: Database[Document]) -> None:
    names = [f"c{number}" for number in range(7)]
    for name in names:
        database.command("create", name)
    reply = database.command("listCollections", cursor={"batchSize": 3})
    cursor = reply["cursor"]
    assert len(cursor["firstBatch"]) == 3
    assert cursor["id"] != 0
    more = database.command("getMore", cursor["id"], collection="$cmd.listCollections", batchSize=10)
    assert more["cursor"]["id"] == 0
    found = [*cursor["firstBatch"], *more["cursor"]["nextBatch"]]
    assert [entry["name"] for entry in found] == names


def test_internal_collections_are_listed(client: MongoClient[Document]) -> None:
    (oplog,) = client.local.list_collections(filter={"name": "oplog.rs"})
    assert oplog["options"]["capped"] is True
    assert "system.preimages" in client.config.list_collection_names()


def test_the_entries_of_a_collections_life(server: RunningServer, database: Database[Document]) -> None:
    """Each step is exactly one entry, in order."""
    database.command("create", "c")
    database.command("collMod", "c", validator={"a": 1})
    database.c.create_index("a")
    database.c.drop_index("a_1")
    database.drop_collection("c")
    names = [next(iter(o)) for o in commands(server, database.name)]
    assert names == ["create", "collMod", "createIndexes", "dropIndexes", "drop"]
