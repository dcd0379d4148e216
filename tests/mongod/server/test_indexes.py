"""createIndexes, dropIndexes, listIndexes, and unique indexes."""

from typing import Any

import pytest
from bson import Int64
from pymongo import ASCENDING, DESCENDING, IndexModel, MongoClient
from pymongo.collation import Collation
from pymongo.database import Database
from pymongo.errors import OperationFailure

from tests.mongod.server.oplog import commands, entries, last_entry, refused
from tests.mongod.server.running import Document, RunningServer


def create(database: Database[Document], *specs: Document, **options: Any) -> Document:
    """A raw createIndexes on `c`, without a driver's help."""
    reply = database.command({"createIndexes": "c", "indexes": list(specs), **options})
    return {name: value for name, value in reply.items() if name not in ("$clusterTime", "operationTime")}


def spec(key: Document, name: str | None = None, **options: Any) -> Document:
    return {"key": key, "name": name or "_".join(f"{path}_{value}" for path, value in key.items()), **options}


def valid(database: Database[Document], name: str = "c") -> Document:
    reply: Document = database.command("validate", name)
    assert reply["valid"], reply["errors"]
    return reply


# -- createIndexes -------------------------------------------------------------------------------------


def test_on_a_new_collection(server: RunningServer, database: Database[Document]) -> None:
    reply = create(database, spec({"a": 1}), spec({"b": -1}, sparse=True))
    assert reply == {
        "numIndexesBefore": 1,
        "numIndexesAfter": 3,
        "createdCollectionAutomatically": True,
        "commitQuorum": "votingMembers",
        "ok": 1.0,
    }
    created, first, second = entries(server, database.name)
    assert created["o"]["create"] == "c"
    assert first["o"] == {"createIndexes": "c", "v": 2, "key": {"a": 1}, "name": "a_1"}
    assert list(second["o"]) == ["createIndexes", "v", "key", "name", "sparse"]
    assert first["ui"] == second["ui"] == created["ui"]


def test_on_documents_it_is_a_build(server: RunningServer, database: Database[Document]) -> None:
    database.c.insert_many([{"_id": n, "a": n % 3} for n in range(10)])
    before = len(entries(server, database.name))
    create(database, spec({"a": 1}), spec({"b": 1}))
    start, commit = entries(server, database.name)[before:]
    specs = [{"v": 2, "key": {"a": 1}, "name": "a_1"}, {"v": 2, "key": {"b": 1}, "name": "b_1"}]
    assert start["o"] == {
        "startIndexBuild": "c",
        "indexBuildUUID": start["o"]["indexBuildUUID"],
        "indexes": specs,
    }
    assert commit["o"] == {
        "commitIndexBuild": "c",
        "indexBuildUUID": start["o"]["indexBuildUUID"],
        "indexes": specs,
    }
    assert start["o"]["indexBuildUUID"].subtype == 4
    assert valid(database)["keysPerIndex"] == {"_id_": 10, "a_1": 10, "b_1": 10}


def test_a_build_that_meets_duplicates(server: RunningServer, database: Database[Document]) -> None:
    database.c.insert_many([{"_id": n, "a": n % 3} for n in range(5)])
    before = len(entries(server, database.name))
    with pytest.raises(OperationFailure) as failure:
        create(database, spec({"b": 1}), spec({"a": 1}, unique=True))
    details: Any = failure.value.details
    assert (details["code"], details["keyPattern"], details["keyValue"]) == (11000, {"a": 1}, {"a": 0})
    start, abort = entries(server, database.name)[before:]
    assert abort["o"]["abortIndexBuild"] == "c"
    assert abort["o"]["indexes"] == start["o"]["indexes"]
    cause = abort["o"]["cause"]
    assert (cause["ok"], cause["code"], cause["codeName"]) == (False, 11000, "DuplicateKey")
    assert [index["name"] for index in database.c.list_indexes()] == ["_id_"]
    assert valid(database)["keysPerIndex"] == {"_id_": 5}
    database.c.insert_one({"a": 0})


def test_existing_indexes(server: RunningServer, database: Database[Document]) -> None:
    create(database, spec({"a": 1}))
    before = len(entries(server, database.name))
    reply = create(database, spec({"a": 1}), spec({"_id": 1}))
    assert reply["note"] == "all indexes already exist"
    assert (reply["numIndexesBefore"], reply["numIndexesAfter"]) == (2, 2)
    assert len(entries(server, database.name)) == before


@pytest.mark.parametrize(
    ("second", "code"),
    [
        (spec({"a": 1}, "other"), 85),
        (spec({"a": 1}, expireAfterSeconds=5), 85),
        (spec({"a": 1}, "other", expireAfterSeconds=5), 85),
        (spec({"b": 1}, "a_1"), 86),
        (spec({"a": 1}, unique=True), 86),
        (spec({"a": -1}, "a_1"), 86),
    ],
)
def test_conflicts_with_another_index(database: Database[Document], second: Document, code: int) -> None:
    create(database, spec({"a": 1}))
    with refused(code):
        create(database, second)
    assert len(list(database.c.list_indexes())) == 2


def test_indexes_that_do_not_conflict(database: Database[Document]) -> None:
    create(
        database,
        spec({"a": 1}, "plain"),
        spec({"a": 1}, "sparse", sparse=True),
        spec({"a": 1}, "unique", unique=True),
        spec({"a": 1}, "partial", partialFilterExpression={"b": {"$gt": 1}}),
        spec({"a": 1}, "german", collation={"locale": "de"}),
        spec({"a": -1}, "down"),
    )
    assert len(list(database.c.list_indexes())) == 7


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"name": "x"}, 9),
        ({"key": {"a": 1}}, 9),
        ({"key": {"_id": -1}, "name": "x"}, 2),
        ({"key": {}, "name": "x"}, 67),
        ({"key": 1, "name": "x"}, 14),
        ({"key": {"a": 0}, "name": "x"}, 67),
        ({"key": {"a": float("nan")}, "name": "x"}, 67),
        ({"key": {"a": True}, "name": "x"}, 67),
        ({"key": {"a": "nosuchkind"}, "name": "x"}, 67),
        ({"key": {"": 1}, "name": "x"}, 67),
        ({"key": {"a..b": 1}, "name": "x"}, 67),
        ({"key": {"$a": 1}, "name": "x"}, 67),
        ({"key": {f"f{n}": 1 for n in range(33)}, "name": "x"}, 13103),
        ({"key": {"a": "hashed", "b": "hashed"}, "name": "x"}, 31303),
        ({"key": {"a": "hashed"}, "name": "x", "unique": True}, 16764),
        ({"key": {"$**": 1}, "name": "x", "unique": True}, 67),
        ({"key": {"a": 1}, "name": "x", "wildcardProjection": {"b": 1}}, 2),
        ({"key": {"a": 1}, "name": ""}, 67),
        ({"key": {"a": 1}, "name": "*"}, 2),
        ({"key": {"a": 1}, "name": "_id_"}, 2),
        ({"key": {"a": 1}, "name": 5}, 14),
        ({"key": {"a": 1}, "name": "x", "v": 0}, 67),
        ({"key": {"a": 1}, "name": "x", "v": 3}, 67),
        ({"key": {"a": 1}, "name": "x", "what": 1}, 197),
        ({"key": {"a": 1}, "name": "x", "unique": "yes"}, 14),
        ({"key": {"a": 1}, "name": "x", "expireAfterSeconds": "5"}, 67),
        ({"key": {"a": 1}, "name": "x", "expireAfterSeconds": -1}, 67),
        ({"key": {"a": 1}, "name": "x", "expireAfterSeconds": 2**31}, 67),
        ({"key": {"a": 1, "b": 1}, "name": "x", "expireAfterSeconds": 5}, 67),
        ({"key": {"_id": 1}, "name": "_id_", "unique": True}, 197),
        ({"key": {"_id": 1}, "name": "_id_", "hidden": True}, 197),
        ({"key": {"a": 1}, "name": "x", "sparse": True, "partialFilterExpression": {"a": 1}}, 67),
        ({"key": {"a": 1}, "name": "x", "partialFilterExpression": {"a": {"$ne": 1}}}, 67),
        ({"key": {"a": 1}, "name": "x", "partialFilterExpression": {"a": {"$exists": False}}}, 67),
        ({"key": {"a": 1}, "name": "x", "partialFilterExpression": 1}, 14),
        ({"key": {"a": "text"}, "name": "x", "collation": {"locale": "de"}}, 67),
        ({"key": {"a": 1}, "name": "x", "collation": {"locale": "xx"}}, 2),
        ({"key": {"a": 1}, "name": "x", "clustered": True}, 67),
    ],
)
def test_specifications_that_are_refused(
    server: RunningServer, database: Database[Document], wrong: Document, code: int
) -> None:
    with refused(code):
        create(database, spec({"fine": 1}), wrong)
    assert entries(server, database.name) == []


def test_unknown_options_can_be_ignored(database: Database[Document]) -> None:
    create(database, spec({"a": 1}, what=1), ignoreUnknownIndexOptions=True)
    assert database.c.index_information()["a_1"] == {"v": 2, "key": [("a", 1)]}


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"indexes": []}, 2),
        ({}, 40414),
        ({"indexes": 1}, 14),
        ({"indexes": [1]}, 14),
        ({"indexes": [spec({"a": 1})], "commitQuorum": 2}, 278),
        ({"indexes": [spec({"a": 1})], "commitQuorum": "some"}, 79),
        ({"indexes": [spec({"a": 1})], "what": 1}, 40415),
    ],
)
def test_commands_that_are_refused(database: Database[Document], options: Document, code: int) -> None:
    with refused(code):
        database.command({"createIndexes": "c", **options})


def test_no_more_than_64(database: Database[Document]) -> None:
    database.c.create_indexes([IndexModel([(f"f{n}", ASCENDING)]) for n in range(63)])
    with refused(67, "too many indexes"):
        database.c.create_index("one_more")
    assert len(list(database.c.list_indexes())) == 64


def test_one_text_index(database: Database[Document]) -> None:
    create(database, spec({"a": "text"}))
    with refused(85):
        create(database, spec({"b": "text"}))
    with refused(67, "only one text index"):
        create(database, spec({"z": 1, "b": "text"}))


def test_special_kinds_are_completed(database: Database[Document]) -> None:
    create(
        database, spec({"z": 1, "b": "text", "a": "text"}, "words", weights={"b": 5}), spec({"p": "2dsphere"})
    )
    by_name = {index["name"]: index for index in database.c.list_indexes()}
    assert by_name["words"] == {
        "v": 2,
        "key": {"z": 1, "_fts": "text", "_ftsx": 1},
        "name": "words",
        "weights": {"a": 1, "b": 5},
        "default_language": "english",
        "language_override": "language",
        "textIndexVersion": 3,
    }
    assert by_name["p_2dsphere"]["2dsphereIndexVersion"] == 3
    assert create(database, dict(by_name["words"]))["note"] == "all indexes already exist"
    database.c.insert_one({"a": "some words", "p": {"type": "Point", "coordinates": [1, 2]}})
    assert valid(database)["keysPerIndex"] == {"_id_": 1, "words": 0, "p_2dsphere": 0}


def test_indexes_on_measurements(server: RunningServer, database: Database[Document]) -> None:
    database.command("create", "c", timeseries={"timeField": "t", "metaField": "m"})
    create(database, spec({"m.x": 1, "t": -1}, "i"), spec({"value": 1}))
    shown = [
        {"v": 2, "key": {"m.x": 1, "t": -1}, "name": "i"},
        {"v": 2, "key": {"value": 1}, "name": "value_1"},
    ]
    assert list(database.c.list_indexes()) == shown
    first, second = entries(server, database.name)[-2:]
    assert first["o"]["createIndexes"] == "system.buckets.c"
    assert first["o"]["key"] == {"meta.x": 1, "control.max.t": -1, "control.min.t": -1}
    assert "originalSpec" not in first["o"]
    assert second["o"]["key"] == {"control.min.value": 1, "control.max.value": 1}
    assert second["o"]["originalSpec"] == shown[1]
    assert create(database, spec({"value": 1}))["note"] == "all indexes already exist"
    database.command("dropIndexes", "c", index={"value": 1})
    assert list(database.c.list_indexes()) == shown[:1]
    for wrong in ({"unique": True}, {"sparse": True}, {"expireAfterSeconds": 5}):
        with refused(72):
            create(database, spec({"y": 1}, **wrong))
    with refused(72):
        create(database, spec({"m.y": "text"}))


def test_indexes_inherit_the_collation_of_their_collection(database: Database[Document]) -> None:
    database.create_collection("c", collation=Collation("fr", strength=2))
    create(database, spec({"a": 1}), spec({"b": 1}, collation={"locale": "simple"}))
    by_name = {index["name"]: index for index in database.c.list_indexes()}
    assert by_name["a_1"]["collation"]["locale"] == "fr"
    assert by_name["_id_"]["collation"]["locale"] == "fr"
    assert "collation" not in by_name["b_1"]


def test_not_on_views_and_internal_collections(
    client: MongoClient[Document], database: Database[Document]
) -> None:
    database.command("create", "v", viewOn="c")
    with refused(166):
        database.v.create_index("a")
    with refused(20):
        client.config["system.preimages"].create_index("a")


# -- unique --------------------------------------------------------------------------------------------


def test_unique_is_enforced(database: Database[Document]) -> None:
    database.c.create_index("a", unique=True)
    database.c.insert_many([{"_id": 1, "a": 1}, {"_id": 2}])
    with refused(11000, "index: a_1 dup key: { a: 1 }"):
        database.c.insert_one({"a": 1})
    with refused(11000, "dup key: { a: null }"):
        database.c.insert_one({})
    with refused(11000):
        database.c.insert_one({"a": 1.0})
    with refused(11000):
        database.c.update_one({"_id": 2}, {"$set": {"a": 1}})
    database.c.update_one({"_id": 1}, {"$set": {"a": 5}})
    database.c.insert_one({"a": 1})
    database.c.delete_one({"a": 5})
    database.c.insert_one({"a": 5})
    valid(database)


def test_elements_of_arrays_are_unique(database: Database[Document]) -> None:
    database.c.create_index("a", unique=True)
    database.c.insert_one({"a": [1, 2, 2]})
    with refused(11000, "dup key: { a: 2 }"):
        database.c.insert_one({"a": [3, 2]})
    database.c.insert_one({"a": []})
    with refused(11000):
        database.c.insert_one({"a": []})
    valid(database)


def test_sparse_and_partial_unique_indexes_skip_documents(database: Database[Document]) -> None:
    database.c.create_index("a", unique=True, sparse=True)
    database.c.create_index("b", unique=True, partialFilterExpression={"active": True})
    database.c.insert_many([{}, {}, {"b": 1}, {"b": 1}, {"b": 1, "active": True}])
    with refused(11000, "b_1"):
        database.c.insert_one({"b": 1, "active": True})
    database.c.insert_one({"a": None})
    with refused(11000, "a_1"):
        database.c.insert_one({"a": None})
    assert valid(database)["keysPerIndex"] == {"_id_": 6, "a_1": 1, "b_1": 1}


def test_a_collation_makes_strings_equal(database: Database[Document]) -> None:
    database.c.create_index("a", unique=True, collation=Collation("en", strength=2))
    database.c.insert_one({"a": "École"})
    with refused(11000):
        database.c.insert_one({"a": "éCOLE"})
    database.c.insert_one({"a": "ecole"})
    database.c.insert_one({"a": {"x": "A"}})
    with refused(11000):
        database.c.insert_one({"a": {"x": "a"}})
    valid(database)


def test_compound_unique(database: Database[Document]) -> None:
    database.c.create_index([("a", ASCENDING), ("b", DESCENDING)], unique=True)
    database.c.insert_many([{"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 1}])
    with pytest.raises(OperationFailure) as failure:
        database.c.insert_one({"a": 1, "b": 2})
    details: Any = failure.value.details
    assert details["keyPattern"] == {"a": 1, "b": -1}
    assert details["keyValue"] == {"a": 1, "b": 2}


def test_arrays_that_cannot_be_indexed_together(database: Database[Document]) -> None:
    database.c.create_index([("a", ASCENDING), ("b", ASCENDING)])
    with refused(171, "parallel arrays [b] [a]"):
        database.c.insert_one({"a": [1, 2], "b": [3]})
    database.c.insert_one({"a": [1, 2], "b": 3})
    database.c.create_index([("h", "hashed")])
    with refused(16766):
        database.c.insert_one({"h": [1]})
    valid(database)


def test_a_build_on_documents_that_cannot_be_indexed(
    server: RunningServer, database: Database[Document]
) -> None:
    database.c.insert_one({"a": [1], "b": [2]})
    with refused(171):
        database.c.create_index([("a", ASCENDING), ("b", ASCENDING)])
    assert last_entry(server, database.name)["o"]["cause"]["codeName"] == "CannotIndexParallelArrays"


def test_values_too_long_for_a_key(database: Database[Document]) -> None:
    database.c.create_index("a", unique=True)
    start = "x" * 5000
    database.c.insert_many([{"a": start + "1"}, {"a": start + "2"}])
    with refused(11000):
        database.c.insert_one({"a": start + "1"})
    database.c.delete_one({"a": start + "1"})
    database.c.insert_one({"a": start + "1"})
    valid(database)


# -- collMod of indexes ----------------------------------------------------------------------------------


def test_expiry_of_an_index(server: RunningServer, database: Database[Document]) -> None:
    database.c.create_index("t", expireAfterSeconds=50)
    database.c.create_index("plain")
    reply = database.command("collMod", "c", index={"keyPattern": {"t": 1}, "expireAfterSeconds": 100})
    assert (reply["expireAfterSeconds_old"], reply["expireAfterSeconds_new"]) == (50, 100)
    logged = last_entry(server, database.name)
    assert logged["o"] == {"collMod": "c", "index": {"name": "t_1", "expireAfterSeconds": 100}}
    assert logged["o2"]["indexOptions_old"] == {"expireAfterSeconds": 50}
    assert isinstance(logged["o2"]["indexOptions_old"]["expireAfterSeconds"], Int64)
    assert isinstance(logged["o"]["index"]["expireAfterSeconds"], Int64)
    assert database.c.index_information()["t_1"]["expireAfterSeconds"] == 100
    reply = database.command("collMod", "c", index={"name": "plain_1", "expireAfterSeconds": 7})
    assert "expireAfterSeconds_old" not in reply
    assert database.c.index_information()["plain_1"]["expireAfterSeconds"] == 7


def test_hiding_an_index(server: RunningServer, database: Database[Document]) -> None:
    database.c.create_index("a")
    reply = database.command("collMod", "c", index={"name": "a_1", "hidden": True})
    assert (reply["hidden_old"], reply["hidden_new"]) == (False, True)
    assert last_entry(server, database.name)["o2"]["indexOptions_old"] == {"hidden": False}
    assert database.c.index_information()["a_1"]["hidden"] is True
    database.command("collMod", "c", index={"name": "a_1", "hidden": False})
    assert "hidden" not in database.c.index_information()["a_1"]


def test_making_an_index_unique(database: Database[Document]) -> None:
    database.c.insert_many([{"_id": 1, "a": 1}, {"_id": 2, "a": 1}, {"_id": 3, "a": 2}])
    database.c.create_index("a")
    with refused(72, "prepareUnique"):
        database.command("collMod", "c", index={"name": "a_1", "unique": True})
    database.command("collMod", "c", index={"name": "a_1", "prepareUnique": True})
    with refused(11000):
        database.c.insert_one({"a": 2})
    with pytest.raises(OperationFailure) as failure:
        database.command("collMod", "c", index={"name": "a_1", "unique": True})
    details: Any = failure.value.details
    assert (failure.value.code, details["violations"]) == (359, [{"ids": [1, 2]}])
    database.c.delete_one({"_id": 2})
    reply = database.command("collMod", "c", index={"name": "a_1", "unique": True})
    assert reply["unique_new"] is True
    assert database.c.index_information()["a_1"] == {"v": 2, "key": [("a", 1)], "unique": True}
    with refused(11000):
        database.c.insert_one({"a": 1})
    valid(database)


@pytest.mark.parametrize(
    ("index", "code"),
    [
        ({"name": "nosuch", "hidden": True}, 27),
        ({"keyPattern": {"z": 1}, "hidden": True}, 27),
        ({"hidden": True}, 72),
        ({"name": "a_1", "keyPattern": {"a": 1}, "hidden": True}, 72),
        ({"name": "a_1"}, 72),
        ({"name": "_id_", "hidden": True}, 2),
        ({"name": "_id_", "expireAfterSeconds": 5}, 72),
        ({"name": "a_1", "expireAfterSeconds": -5}, 72),
        ({"name": "a_1_b_1", "expireAfterSeconds": 5}, 72),
        ({"name": "a_1", "unique": False}, 2),
        ({"name": "a_1", "hidden": "yes"}, 14),
        ({"name": "a_1", "hidden": True, "what": 1}, 40415),
    ],
)
def test_index_changes_that_are_refused(database: Database[Document], index: Document, code: int) -> None:
    database.c.create_indexes([IndexModel("a"), IndexModel([("a", ASCENDING), ("b", ASCENDING)])])
    with refused(code):
        database.command("collMod", "c", index=index)


# -- dropIndexes and listIndexes -------------------------------------------------------------------------


def test_dropping_by_name_key_list_and_all(server: RunningServer, database: Database[Document]) -> None:
    database.c.insert_one({"_id": 1})
    database.c.create_indexes([IndexModel(name) for name in "abcdefg"])
    before = len(entries(server, database.name))
    assert database.command("dropIndexes", "c", index="a_1")["nIndexesWas"] == 8
    database.command("dropIndexes", "c", index={"b": 1})
    database.command("deleteIndexes", "c", index=["c_1", "d_1"])
    reply = database.command("dropIndexes", "c", index="*")
    assert reply["nIndexesWas"] == 4
    assert reply["msg"] == "non-_id indexes dropped for collection"
    logged = entries(server, database.name)[before:]
    assert [entry["o"] for entry in logged] == [
        {"dropIndexes": "c", "index": f"{name}_1"} for name in "abcdefg"
    ]
    assert logged[0]["o2"] == {"v": 2, "key": {"a": 1}, "name": "a_1"}
    assert valid(database)["keysPerIndex"] == {"_id_": 1}


def test_a_wildcard_index_has_a_key_for_each_path_and_value(database: Database[Document]) -> None:
    database.c.create_index("$**")
    database.c.insert_one({"a": 1, "b": 1, "c": {"d": 1, "e": [1, 2]}})
    assert valid(database)["keysPerIndex"] == {"_id_": 1, "$**_1": 5}


@pytest.mark.parametrize("name", ["system.users", "system.roles", "system.keys"])
def test_the_system_collections_of_admin_may_be_created(client: MongoClient[Document], name: str) -> None:
    client.admin.create_collection(name)
    assert name in client.admin.list_collection_names()
    client.admin.command("drop", name)


def test_the_whole_specification_is_logged(server: RunningServer, database: Database[Document]) -> None:
    database.c.create_index("a", unique=True, partialFilterExpression={"b": 1}, expireAfterSeconds=9)
    created = commands(server, database.name)[-1]
    database.c.drop_index("a_1")
    assert last_entry(server, database.name)["o2"] == {
        name: value for name, value in created.items() if name != "createIndexes"
    }


@pytest.mark.parametrize(
    ("index", "code"),
    [
        ("nosuch", 27),
        ({"z": 1}, 27),
        (["a_1", "nosuch"], 27),
        ("_id_", 72),
        ({"_id": 1}, 72),
        (["a_1", "_id_"], 72),
        (1, 14),
        ([1], 14),
    ],
)
def test_drops_that_are_refused(database: Database[Document], index: Any, code: int) -> None:
    database.c.create_index("a")
    with refused(code):
        database.command("dropIndexes", "c", index=index)
    assert set(database.c.index_information()) == {"_id_", "a_1"}


def test_an_ambiguous_key(database: Database[Document]) -> None:
    create(database, spec({"a": 1}, "one"), spec({"a": 1}, "two", sparse=True))
    with refused(181):
        database.command("dropIndexes", "c", index={"a": 1})


def test_dropping_indexes_of_a_missing_collection(database: Database[Document]) -> None:
    with refused(26):
        database.command("dropIndexes", "nosuch", index="*")


def test_listing(database: Database[Document]) -> None:
    create(database, spec({"a": 1}, unique=True, hidden=True), spec({"b": -1}, v=1))
    reply = database.command("listIndexes", "c")
    assert reply["cursor"]["ns"] == f"{database.name}.c"
    assert reply["cursor"]["firstBatch"] == [
        {"v": 2, "key": {"_id": 1}, "name": "_id_"},
        {"v": 2, "key": {"a": 1}, "name": "a_1", "unique": True, "hidden": True},
        {"v": 1, "key": {"b": -1}, "name": "b_-1"},
    ]
    small = database.command("listIndexes", "c", cursor={"batchSize": 1})
    rest = database.command("getMore", small["cursor"]["id"], collection="c")
    assert [index["name"] for index in rest["cursor"]["nextBatch"]] == ["a_1", "b_-1"]


def test_listing_indexes_of_a_missing_collection(database: Database[Document]) -> None:
    with refused(26):
        database.command("listIndexes", "nosuch")
    database.command("create", "v", viewOn="c")
    with refused(166):
        database.command("listIndexes", "v")


def test_indexes_survive_many_changes(database: Database[Document]) -> None:
    """After any writes, both directions of every index agree with the documents."""
    create(
        database,
        spec({"a": 1}),
        spec({"h": -1, "b.c": 1}),
        spec({"b.c": 1}, sparse=True),
        spec({"h": "hashed"}),
        spec({"$**": 1}),
        spec({"t": 1}, collation={"locale": "en", "strength": 1}),
        spec({"a": 1}, "partial", partialFilterExpression={"a": {"$gt": 3}}),
    )
    database.c.insert_many(
        [{"_id": n, "a": [n, n % 3], "b": [{"c": n}, {"c": -n}, 5], "h": n, "t": f"Ä{n}"} for n in range(40)]
    )
    database.c.update_many({"_id": {"$lt": 20}}, {"$set": {"a": 7, "t": None}, "$unset": {"b": ""}})
    database.c.update_many({"_id": {"$gt": 30}}, {"$push": {"b": {"c": "new"}}, "$inc": {"h": 1}})
    database.c.delete_many({"_id": {"$mod": [5, 0]}})
    keys = valid(database)["keysPerIndex"]
    assert keys["_id_"] == keys["h_hashed"] == keys["t_1"] == 32
    assert keys["b.c_1"] > 16
