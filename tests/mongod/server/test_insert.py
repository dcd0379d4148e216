"""`insert` over the wire: stored documents, refusals, oplog entries."""

from typing import Any

import bson
import pytest
from bson import ObjectId, Timestamp
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure, WriteError

from tests.mongod.server.running import Document
from tests.mongod.server.writing import entries_of, insert_raw, write_errors


def test_documents_are_stored_in_order_with_their_ids(database: Database[Document]) -> None:
    result = database.things.insert_many([{"_id": 2}, {"_id": 1}, {"_id": "x"}])
    assert result.inserted_ids == [2, 1, "x"]
    assert [found["_id"] for found in database.things.find()] == [2, 1, "x"]


def test_a_missing_id_is_generated_as_the_first_field(database: Database[Document]) -> None:
    reply = insert_raw(database, "things", [bson.encode({"a": 1})])
    assert reply["n"] == 1
    stored = database.things.find_one()
    assert stored is not None
    assert list(stored) == ["_id", "a"]
    assert isinstance(stored["_id"], ObjectId)


def test_an_id_elsewhere_is_moved_to_the_front(database: Database[Document]) -> None:
    moved = bson.encode({"": {"a": 1, "_id": 5, "b": 2}})[6:-1]
    insert_raw(database, "things", [moved])
    assert [list(found.items()) for found in database.things.find()] == [[("_id", 5), ("a", 1), ("b", 2)]]


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ({"_id": [1]}, 53),
        ({"_id": bson.Regex("x")}, 53),
        ({"_id": {"$x": 1}}, 52),
    ],
)
def test_some_values_cannot_be_an_id(database: Database[Document], document: Document, code: int) -> None:
    with pytest.raises(WriteError) as failure:
        database.things.insert_one(document)
    assert failure.value.code == code


def test_two_ids_in_one_document_are_refused(database: Database[Document]) -> None:
    twice = bson.encode({"_id": 1})[4:-1] + bson.encode({"_id": 2})[4:-1]
    raw = (len(twice) + 5).to_bytes(4, "little") + twice + b"\0"
    assert [error["code"] for error in insert_raw(database, "things", [raw])["writeErrors"]] == [2]


def test_names_with_a_dollar_or_a_dot_are_stored(database: Database[Document]) -> None:
    database.things.insert_one({"_id": 1, "$price": 5, "a.b": 2, "inner": {"$x": 1}})
    assert database.things.find_one() == {"_id": 1, "$price": 5, "a.b": 2, "inner": {"$x": 1}}


def test_empty_timestamps_at_the_top_level_get_the_cluster_time(database: Database[Document]) -> None:
    empty = Timestamp(0, 0)
    database.things.insert_one({"_id": empty, "at": empty, "inner": {"at": empty}, "other": Timestamp(0, 1)})
    stored = database.things.find_one()
    assert stored is not None
    assert stored["_id"] == stored["inner"]["at"] == empty
    assert stored["other"] == Timestamp(0, 1)
    assert stored["at"].time > 1_600_000_000
    database.command("insert", "kept", documents=[{"_id": 1, "at": empty}], bypassEmptyTsReplacement=True)
    assert database.kept.find_one() == {"_id": 1, "at": empty}


def test_every_type_is_stored_byte_for_byte(database: Database[Document]) -> None:
    raw = bson.encode(
        {
            "_id": bson.Decimal128("1.50"),
            "a": bson.Int64(1),
            "b": bson.Binary(b"x", 128),
            "c": bson.Code("f()", {"x": 1}),
            "d": bson.MinKey(),
            "e": bson.Regex("a", "im"),
            "f": float("nan"),
            "g": [None, True, {"$ref": "x"}],
        }
    )
    insert_raw(database, "things", [raw])
    options = database.things.codec_options.with_options(document_class=RawBSONDocument)
    found = database.things.with_options(codec_options=options).find_one()
    assert found is not None
    assert found.raw == raw


def test_an_ordered_batch_ends_at_the_first_error(database: Database[Document]) -> None:
    database.things.insert_one({"_id": 2})
    with pytest.raises(BulkWriteError) as failure:
        database.things.insert_many([{"_id": 1}, {"_id": 2}, {"_id": 3}])
    details = failure.value.details
    assert details["nInserted"] == 1
    assert [(error["index"], error["code"]) for error in details["writeErrors"]] == [(1, 11000)]
    assert sorted(found["_id"] for found in database.things.find()) == [1, 2]


def test_an_unordered_batch_continues(database: Database[Document]) -> None:
    database.things.insert_one({"_id": 2})
    documents: list[Document] = [{"_id": 2}, {"_id": 1}, {"_id": [1]}, {"_id": 3}]
    with pytest.raises(BulkWriteError) as failure:
        database.things.insert_many(documents, ordered=False)
    details = failure.value.details
    assert details["nInserted"] == 2
    assert [(error["index"], error["code"]) for error in details["writeErrors"]] == [(0, 11000), (2, 53)]
    assert sorted(found["_id"] for found in database.things.find()) == [1, 2, 3]


def test_a_duplicate_key_error_names_the_key(database: Database[Document]) -> None:
    database.things.create_index([("a", 1), ("b", -1)], unique=True, name="both")
    database.things.insert_one({"_id": 1, "a": 5, "b": "x"})
    with pytest.raises(DuplicateKeyError) as failure:
        database.things.insert_one({"_id": 2, "a": 5, "b": "x"})
    details = failure.value.details
    assert details is not None
    assert details["keyPattern"] == {"a": 1, "b": -1}
    assert details["keyValue"] == {"a": 5, "b": "x"}
    assert "index: both dup key" in details["errmsg"]
    assert database.things.count_documents({}) == 1


def test_numbers_of_other_types_are_the_same_id(database: Database[Document]) -> None:
    database.things.insert_one({"_id": 1})
    for same in (1.0, bson.Int64(1), bson.Decimal128("1.0")):
        with pytest.raises(DuplicateKeyError):
            database.things.insert_one({"_id": same})


def test_too_large_documents_are_refused(database: Database[Document]) -> None:
    large = bson.encode({"_id": 1, "a": "x" * (16 * 1024 * 1024)})
    assert [error["code"] for error in insert_raw(database, "things", [large])["writeErrors"]] == [10334]
    fits = bson.encode({"_id": 1, "a": "x" * (16 * 1024 * 1024 - 30)})
    assert len(fits) <= 16 * 1024 * 1024
    assert insert_raw(database, "things", [fits])["n"] == 1


def test_too_deep_documents_are_refused(database: Database[Document]) -> None:
    def nested(levels: int) -> Document:
        document: Document = {"x": 1}
        for _ in range(levels - 1):
            document = {"a": document}
        return {"_id": levels, **document}

    assert write_errors(database, "things", [nested(181)]) == [(0, 15)]
    assert write_errors(database, "things", [nested(180)]) == []


@pytest.mark.parametrize("size", [0, 100_001])
def test_a_batch_has_a_size_limit(database: Database[Document], size: int) -> None:
    with pytest.raises(OperationFailure) as failure:
        database.command("insert", "things", documents=[{}] * size)
    assert failure.value.code == 16


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"insert": "things"}, 40414),
        ({"insert": "things", "documents": [{}], "ordered": "yes"}, 14),
        ({"insert": "things", "documents": [{}], "unknown": 1}, 40415),
        ({"insert": "", "documents": [{}]}, 73),
        ({"insert": 5, "documents": [{}]}, 2),
        ({"insert": "things", "documents": [{}], "collectionUUID": "x"}, 14),
    ],
)
def test_wrong_commands_are_refused(database: Database[Document], command: Document, code: int) -> None:
    with pytest.raises(OperationFailure) as failure:
        database.command(command)
    assert failure.value.code == code


@pytest.mark.parametrize("name", ["system.views", "system.profile", "system.foo", "a$b", "x" * 250])
def test_some_collections_cannot_be_written_to(database: Database[Document], name: str) -> None:
    """The whole command fails, also one that would find nothing to change."""
    commands: list[Document] = [
        {"insert": name, "documents": [{"_id": 1}]},
        {"update": name, "updates": [{"q": {}, "u": {"$set": {"a": 1}}}]},
        {"delete": name, "deletes": [{"q": {}, "limit": 1}]},
        {"findAndModify": name, "query": {}, "remove": True},
    ]
    for command in commands:
        with pytest.raises(OperationFailure) as failure:
            database.command(command)
        assert failure.value.code == 73


def test_the_oplog_cannot_be_written_to(client: MongoClient[Document]) -> None:
    with pytest.raises(OperationFailure) as failure:
        client.local["oplog.rs"].insert_one({"a": 1})
    assert failure.value.code == 73


def test_without_acknowledgement_the_reply_has_no_results(database: Database[Document]) -> None:
    database.things.insert_one({"_id": 1})
    command = {"insert": "things", "documents": [{"_id": 1}, {"_id": 2}], "ordered": False}
    assert database.command({**command, "writeConcern": {"w": 0}})["n"] == 0
    assert "writeErrors" not in database.command({**command, "writeConcern": {"w": 0.5}})
    update = {"update": "things", "updates": [{"q": {}, "u": {"$set": {"a": 1}}}]}
    reply = database.command({**update, "writeConcern": {"w": 0}})
    assert (reply["n"], reply["nModified"]) == (0, 0)
    assert database.command({**update, "writeConcern": {"w": 0, "j": True}})["n"] == 1
    assert database.things.count_documents({}) == 2


def test_a_view_cannot_be_written_to(database: Database[Document]) -> None:
    database.create_collection("seen", viewOn="things", pipeline=[])
    with pytest.raises(WriteError) as failure:
        database.seen.insert_one({"_id": 1})
    assert failure.value.code == 166


def test_a_database_that_differs_in_case_is_refused(
    database: Database[Document], client: MongoClient[Document]
) -> None:
    database.things.insert_one({"_id": 1})
    with pytest.raises(WriteError) as failure:
        client[database.name.upper()].things.insert_one({"_id": 1})
    assert failure.value.code == 13297


def test_the_collection_uuid_must_match(database: Database[Document]) -> None:
    database.things.insert_one({"_id": 1})
    (listed,) = database.list_collections(filter={"name": "things"})
    uuid = bson.Binary(listed["info"]["uuid"], 4)
    database.command("insert", "things", documents=[{"_id": 2}], collectionUUID=uuid)
    documents = [{"_id": 2}, {"_id": 3}]
    reply = database.command("insert", "others", documents=documents, ordered=False, collectionUUID=uuid)
    assert [(error["index"], error["code"]) for error in reply["writeErrors"]] == [(0, 361), (1, 361)]
    details = reply["writeErrors"][0]
    assert (details["expectedCollection"], details["actualCollection"]) == ("others", "things")


# -- the oplog ------------------------------------------------------------------------------------------


def test_the_first_insert_logs_the_collection_first(database: Database[Document]) -> None:
    database.things.insert_one({"_id": 1, "a": 2})
    create, insert = entries_of(database)
    assert create["op"] == "c"
    assert create["o"] == {"create": "things", "idIndex": {"v": 2, "key": {"_id": 1}, "name": "_id_"}}
    assert "lsid" not in create
    assert insert["op"] == "i"
    assert insert["ns"] == f"{database.name}.things"
    assert (insert["o"], insert["o2"]) == ({"_id": 1, "a": 2}, {"_id": 1})
    assert insert["ui"] == create["ui"]
    assert insert["ts"] > create["ts"]


def test_a_batch_is_one_vectored_entry(database: Database[Document]) -> None:
    database.create_collection("things")
    database.things.insert_many([{"_id": n} for n in range(3)])
    _, entry = entries_of(database)
    assert entry["ns"] == "admin.$cmd"
    assert [inner["o"] for inner in entry["o"]["applyOps"]] == [{"_id": 0}, {"_id": 1}, {"_id": 2}]
    assert [inner["stmtId"] for inner in entry["o"]["applyOps"]] == [0, 1, 2]
    assert entry["multiOpType"] == 1
    assert entry["prevOpTime"] == {"ts": Timestamp(0, 0), "t": -1}
    assert list(entry)[:2] == ["lsid", "txnNumber"]


def test_large_batches_are_divided_into_entries(database: Database[Document]) -> None:
    database.create_collection("things")
    database.things.insert_many([{"_id": n} for n in range(1200)])
    _, *entries = entries_of(database)
    assert [len(entry["o"]["applyOps"]) for entry in entries] == [500, 500, 200]
    assert [entry["prevOpTime"]["ts"] for entry in entries[1:]] == [entry["ts"] for entry in entries[:-1]]


def test_large_documents_are_divided_into_entries_by_size(database: Database[Document]) -> None:
    database.create_collection("things")
    """As the batches of a server: a document that reaches 256 kB is the last of its entry."""
    database.things.insert_many([{"_id": n, "a": "x" * 100_000} for n in range(7)])
    _, *entries, last = entries_of(database)
    assert [len(entry["o"]["applyOps"]) for entry in entries] == [3, 3]
    assert (last["op"], last["o"]["_id"]) == ("i", 6)


def test_a_batch_without_a_session_number_has_no_session_fields(database: Database[Document]) -> None:
    database.command("insert", "things", documents=[{"_id": 1}, {"_id": 2}])
    _, entry = entries_of(database)
    assert not {"lsid", "txnNumber", "prevOpTime", "multiOpType"} & set(entry)
    assert all("stmtId" not in inner for inner in entry["o"]["applyOps"])


def test_refused_documents_are_not_logged(database: Database[Document]) -> None:
    database.things.insert_one({"_id": 1})
    with pytest.raises(BulkWriteError):
        database.things.insert_many([{"_id": 1}, {"_id": 2}], ordered=False)
    assert [entry["o"] for entry in entries_of(database)[1:]] == [{"_id": 1}, {"_id": 2}]


def test_the_database_local_is_not_logged(client: MongoClient[Document]) -> None:
    try:
        client.local.notes.insert_one({"_id": 1})
        assert client.local.notes.find_one() == {"_id": 1}
        assert entries_of(client.local) == []
    finally:
        client.local.notes.drop()


# -- validation -----------------------------------------------------------------------------------------


def test_a_document_must_fit_the_schema(database: Database[Document]) -> None:
    schema: Document = {
        "required": ["qty"],
        "properties": {"qty": {"bsonType": "int", "minimum": 1, "description": "how many"}},
        "additionalProperties": True,
    }
    database.create_collection("things", validator={"$jsonSchema": schema})
    database.things.insert_one({"_id": 1, "qty": 1})
    with pytest.raises(WriteError) as failure:
        database.things.insert_one({"_id": 2, "qty": "many"})
    assert failure.value.code == 121
    assert failure.value.details is not None
    assert failure.value.details["errInfo"] == {
        "failingDocumentId": 2,
        "details": {
            "operatorName": "$jsonSchema",
            "schemaRulesNotSatisfied": [
                {
                    "operatorName": "properties",
                    "propertiesNotSatisfied": [
                        {
                            "propertyName": "qty",
                            "description": "how many",
                            "details": [
                                {
                                    "operatorName": "bsonType",
                                    "specifiedAs": {"bsonType": "int"},
                                    "reason": "type did not match",
                                    "consideredValue": "many",
                                    "consideredType": "string",
                                }
                            ],
                        }
                    ],
                }
            ],
        },
    }


@pytest.mark.parametrize(
    ("rules", "document", "details"),
    [
        (
            {"a": {"$gt": 5}},
            {"a": 3},
            {
                "operatorName": "$gt",
                "specifiedAs": {"a": {"$gt": 5}},
                "reason": "comparison failed",
                "consideredValue": 3,
            },
        ),
        (
            {"a": {"$gt": 5}},
            {},
            {"operatorName": "$gt", "specifiedAs": {"a": {"$gt": 5}}, "reason": "field was missing"},
        ),
        (
            {"a": 1, "b": {"$exists": True}},
            {"a": 1},
            {
                "operatorName": "$and",
                "clausesNotSatisfied": [
                    {
                        "index": 1,
                        "details": {
                            "operatorName": "$exists",
                            "specifiedAs": {"b": {"$exists": True}},
                            "reason": "path does not exist",
                        },
                    }
                ],
            },
        ),
        (
            {"$expr": {"$lt": ["$a", "$b"]}},
            {"a": 2, "b": 1},
            {
                "operatorName": "$expr",
                "specifiedAs": {"$expr": {"$lt": ["$a", "$b"]}},
                "reason": "expression did not match",
                "expressionResult": False,
            },
        ),
        (
            {"$nor": [{"a": 1}, {"a": 2}]},
            {"a": 2},
            {
                "operatorName": "$nor",
                "clausesSatisfied": [
                    {
                        "index": 1,
                        "details": {
                            "operatorName": "$eq",
                            "specifiedAs": {"a": 2},
                            "reason": "comparison succeeded",
                            "consideredValue": 2,
                        },
                    }
                ],
            },
        ),
        (
            {"a": {"$not": {"$gt": 1}}},
            {"a": [0, 2]},
            {
                "operatorName": "$not",
                "details": {
                    "operatorName": "$gt",
                    "specifiedAs": {"a": {"$gt": 1}},
                    "reason": "comparison succeeded",
                    "consideredValues": [0, 2],
                },
            },
        ),
        (
            {"a": {"$regex": "x"}},
            {"a": 2},
            {
                "operatorName": "$regex",
                "specifiedAs": {"a": {"$regex": "x"}},
                "reason": "type did not match",
                "consideredType": "int",
                "expectedTypes": ["regex", "string", "symbol"],
                "consideredValue": 2,
            },
        ),
        (
            {
                "$jsonSchema": {
                    "not": {"required": ["b"]},
                    "properties": {"l": {"items": [{"type": "string"}]}},
                }
            },
            {"b": 1, "l": [1]},
            {
                "operatorName": "$jsonSchema",
                "schemaRulesNotSatisfied": [
                    {
                        "operatorName": "properties",
                        "propertiesNotSatisfied": [
                            {
                                "propertyName": "l",
                                "details": [
                                    {
                                        "operatorName": "items",
                                        "details": [
                                            {
                                                "itemIndex": 0,
                                                "details": [
                                                    {
                                                        "operatorName": "type",
                                                        "specifiedAs": {"type": "string"},
                                                        "reason": "type did not match",
                                                        "consideredValue": 1,
                                                        "consideredType": "int",
                                                    }
                                                ],
                                            }
                                        ],
                                    }
                                ],
                            }
                        ],
                    },
                    {"operatorName": "not", "reason": "child expression matched"},
                ],
            },
        ),
    ],
)
def test_broken_rules_are_reported(
    database: Database[Document], rules: Document, document: Document, details: Document
) -> None:
    database.create_collection("things", validator=rules)
    with pytest.raises(WriteError) as failure:
        database.things.insert_one({"_id": 1, **document})
    assert failure.value.details is not None
    assert failure.value.details["errInfo"]["details"] == details


@pytest.mark.parametrize(
    ("schema", "value", "keyword"),
    [
        ({"required": ["a", "b"]}, {"a": 1}, {"missingProperties": ["b"]}),
        (
            {"properties": {"a": {}}, "additionalProperties": False},
            {"a": 1, "z": 2},
            {"additionalProperties": ["z"]},
        ),
        ({"maxProperties": 1}, {"a": 1, "b": 2}, {"numberOfProperties": 2}),
        ({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"c": 1}, {"operatorName": "anyOf"}),
        ({"oneOf": [{}, {}]}, {"c": 1}, {"matchingSchemaIndexes": [0, 1]}),
        ({"not": {"required": ["c"]}}, {"c": 1}, {"reason": "child expression matched"}),
        ({"dependencies": {"a": ["b"]}}, {"a": 1}, {"operatorName": "dependencies"}),
        (
            {"patternProperties": {"^n": {"type": "number"}}},
            {"n1": "x"},
            {"operatorName": "patternProperties"},
        ),
    ],
)
def test_broken_keywords_are_reported(
    database: Database[Document], schema: Document, value: Document, keyword: Document
) -> None:
    database.create_collection("things", validator={"$jsonSchema": {"properties": {"v": schema}}})
    with pytest.raises(WriteError) as failure:
        database.things.insert_one({"v": value})
    assert failure.value.details is not None
    (rule,) = failure.value.details["errInfo"]["details"]["schemaRulesNotSatisfied"]
    (broken,) = rule["propertiesNotSatisfied"][0]["details"]
    assert keyword.items() <= broken.items()


def test_elements_that_break_a_schema_are_reported(database: Database[Document]) -> None:
    schema: Document = {"properties": {"v": {"items": {"type": "number", "maximum": 3}}}}
    database.create_collection("things", validator={"$jsonSchema": schema})
    with pytest.raises(WriteError) as failure:
        database.things.insert_one({"v": [1, 5]})
    assert failure.value.details is not None
    (rule,) = failure.value.details["errInfo"]["details"]["schemaRulesNotSatisfied"]
    (items,) = rule["propertiesNotSatisfied"][0]["details"]
    assert (items["itemIndex"], items["details"][0]["consideredValue"]) == (1, 5)


def test_validation_can_be_bypassed_switched_off_and_only_warn(database: Database[Document]) -> None:
    database.create_collection("things", validator={"a": 1})
    database.things.insert_one({"_id": 1, "a": 2}, bypass_document_validation=True)
    database.create_collection("lenient", validator={"a": 1}, validationAction="warn")
    database.lenient.insert_one({"_id": 1, "a": 2})
    database.create_collection("off", validator={"a": 1}, validationLevel="off")
    database.off.insert_one({"_id": 1, "a": 2})
    assert [database[name].count_documents({}) for name in ("things", "lenient", "off")] == [1, 1, 1]


# -- special collections ----------------------------------------------------------------------------------


def test_a_capped_collection_loses_its_oldest(database: Database[Document]) -> None:
    database.create_collection("log", capped=True, size=100_000, max=3)
    database.log.insert_many([{"_id": n} for n in range(5)])
    assert [found["_id"] for found in database.log.find()] == [2, 3, 4]
    assert "".join(entry["op"] for entry in entries_of(database)) == "ciiiidid"


def test_a_capped_collection_is_limited_in_bytes(database: Database[Document]) -> None:
    database.create_collection("log", capped=True, size=4096)
    for number in range(50):
        database.log.insert_one({"_id": number, "a": "x" * 200})
    kept = list(database.log.find())
    assert kept[-1]["_id"] == 49
    assert sum(len(bson.encode(found)) for found in kept) <= 4096
    assert len(kept) >= 15
    with pytest.raises(WriteError):
        database.log.insert_one({"a": "x" * 5000})


def test_a_transaction_cannot_write_to_capped_or_time_series_collections(
    database: Database[Document],
) -> None:
    database.create_collection("log", capped=True, size=4096)
    database.create_collection("weather", timeseries={"timeField": "t"})
    document = {"t": bson.DatetimeMS(1_700_000_000_000)}
    with database.client.start_session() as session:
        for name in ("log", "weather"):
            with pytest.raises(OperationFailure) as failure, session.start_transaction():
                database[name].insert_one(document, session=session)
            assert failure.value.code == 263


def test_a_clustered_collection_keeps_the_order_of_ids(database: Database[Document]) -> None:
    database.create_collection("things", clusteredIndex={"key": {"_id": 1}, "unique": True})
    database.things.insert_many([{"_id": 3}, {"_id": 1}, {"_id": 2}])
    assert [found["_id"] for found in database.things.find()] == [1, 2, 3]
    with pytest.raises(DuplicateKeyError):
        database.things.insert_one({"_id": 2})


def test_measurements_are_stored_in_buckets(database: Database[Document]) -> None:
    moment = bson.DatetimeMS(1_700_000_090_123)
    database.create_collection("weather", timeseries={"timeField": "t", "metaField": "m"})
    database.weather.insert_one({"_id": 1, "t": moment, "m": {"city": "Ulm"}, "temp": 7})
    (entry,) = [entry for entry in entries_of(database) if entry["ns"].endswith(".system.buckets.weather")]
    assert entry["op"] == "i"
    bucket: dict[str, Any] = entry["o"]
    assert list(bucket) == ["_id", "control", "meta", "data"]
    assert bucket["meta"] == {"city": "Ulm"}
    assert bucket["control"]["version"] == 1
    assert bucket["control"]["max"]["temp"] == bucket["data"]["temp"]["0"] == 7
    assert database.weather.find_one() == {
        "t": moment.as_datetime(),
        "m": {"city": "Ulm"},
        "_id": 1,
        "temp": 7,
    }
    assert database.weather.find_one({"temp": 7}, {"temp": 1}) == {"_id": 1, "temp": 7}
    with pytest.raises(WriteError) as failure:
        database.weather.insert_one({"t": "now"})
    assert failure.value.code == 2


def test_buckets_can_be_written_directly(database: Database[Document]) -> None:
    moment = bson.DatetimeMS(1_700_000_000_000)
    database.create_collection("weather", timeseries={"timeField": "t"})
    bucket: Document = {
        "_id": ObjectId(),
        "control": {"version": 1, "min": {"t": moment}, "max": {"t": moment}},
        "data": {"t": {"0": moment, "1": moment}, "v": {"0": 5, "1": 6}},
    }
    database.command("insert", "weather", documents=[bucket], rawData=True)
    assert [found["v"] for found in database.weather.find()] == [5, 6]
