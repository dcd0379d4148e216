"""`update` over the wire: changes, refusals, oplog entries."""

import bson
import pytest
from bson import Int64, ObjectId, Timestamp
from pymongo import UpdateOne
from pymongo.database import Database
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure, WriteError

from tests.mongod.server.running import Document
from tests.mongod.server.writing import entries_of


def updated(database: Database[Document], **statement: object) -> Document:
    """The reply to one update statement on `things`."""
    return database.command("update", "things", updates=[statement])


def refused(database: Database[Document], **statement: object) -> int:
    """The code with which one update statement on `things` fails."""
    (error,) = updated(database, **statement)["writeErrors"]
    return int(error["code"])


@pytest.fixture
def things(database: Database[Document]) -> Database[Document]:
    """A database with three things in it."""
    database.things.insert_many([{"_id": n, "a": n, "tags": ["x", "y"]} for n in (1, 2, 3)])
    return database


def test_one_document_is_changed(things: Database[Document]) -> None:
    result = things.things.update_one({"a": {"$gte": 2}}, {"$set": {"b": 1}})
    assert (result.matched_count, result.modified_count) == (1, 1)
    assert [found["_id"] for found in things.things.find({"b": 1})] == [2]


def test_many_documents_are_changed(things: Database[Document]) -> None:
    result = things.things.update_many({"a": {"$gte": 2}}, {"$inc": {"a": 10}})
    assert (result.matched_count, result.modified_count) == (2, 2)
    assert [found["a"] for found in things.things.find()] == [1, 12, 13]


def test_documents_that_an_update_moves_within_an_index_are_updated_once(things: Database[Document]) -> None:
    things.things.create_index("a")
    result = things.things.update_many({"a": {"$gt": 0}}, {"$inc": {"a": 1}})
    assert result.modified_count == 3
    assert [found["a"] for found in things.things.find()] == [2, 3, 4]


def test_more_documents_than_are_read_at_once_are_changed(database: Database[Document]) -> None:
    database.things.insert_many([{"_id": n, "a": n % 7} for n in range(2000)])
    assert database.things.update_many({"a": 3}, {"$set": {"b": 1}}).modified_count == 286
    assert database.things.count_documents({"b": 1}) == 286


def test_an_update_that_changes_nothing_is_not_logged(things: Database[Document]) -> None:
    before = len(entries_of(things))
    result = things.things.update_many({}, {"$set": {"tags": ["x", "y"]}})
    assert (result.matched_count, result.modified_count) == (3, 0)
    assert len(entries_of(things)) == before


def test_a_replacement_keeps_the_id(things: Database[Document]) -> None:
    assert things.things.replace_one({"_id": 2}, {"z": 1}).modified_count == 1
    assert things.things.find_one({"_id": 2}) == {"_id": 2, "z": 1}
    entry = entries_of(things)[-1]
    assert (entry["op"], entry["o"], entry["o2"]) == ("u", {"_id": 2, "z": 1}, {"_id": 2})


def test_operators_are_logged_as_a_diff(things: Database[Document]) -> None:
    things.things.update_one({"_id": 1}, {"$set": {"a": 5, "n.m": 1}, "$unset": {"tags": ""}})
    entry = entries_of(things)[-1]
    assert entry["o"] == {"$v": 2, "diff": {"d": {"tags": False}, "u": {"a": 5}, "i": {"n": {"m": 1}}}}
    assert entry["o2"] == {"_id": 1}


def test_a_pipeline_is_logged_as_the_smaller_of_diff_and_document(things: Database[Document]) -> None:
    things.things.update_one({"_id": 1}, [{"$set": {"a": {"$add": ["$a", 1]}}}])
    things.things.update_one({"_id": 1}, [{"$replaceWith": {"z": "$a"}}])
    diff, whole = entries_of(things)[-2:]
    assert diff["o"] == {"$v": 2, "diff": {"u": {"a": 2}}}
    assert whole["o"] == {"_id": 1, "z": 2}


def test_a_pipeline_sees_its_constants_and_the_commands_variables(things: Database[Document]) -> None:
    reply = things.command(
        "update",
        "things",
        updates=[{"q": {"_id": 1}, "u": [{"$set": {"b": "$$one", "c": "$$two"}}], "c": {"one": 1}}],
        let={"two": {"$add": [1, 1]}},
    )
    assert reply["nModified"] == 1
    found = things.things.find_one({"_id": 1})
    assert found is not None
    assert (found["b"], found["c"]) == (1, 2)


def test_a_filter_sees_the_commands_variables(things: Database[Document]) -> None:
    statement = {"q": {"$expr": {"$eq": ["$a", "$$wanted"]}}, "u": {"$set": {"b": 1}}}
    assert things.command("update", "things", updates=[statement], let={"wanted": 3})["nModified"] == 1
    assert [found["_id"] for found in things.things.find({"b": 1})] == [3]


def test_array_filters_and_the_positional_operator(things: Database[Document]) -> None:
    things.things.insert_one({"_id": 9, "scores": [{"n": 1}, {"n": 5}, {"n": 9}]})
    things.things.update_one(
        {"_id": 9}, {"$set": {"scores.$[high].big": True}}, array_filters=[{"high.n": {"$gt": 4}}]
    )
    things.things.update_one({"scores.n": 5}, {"$set": {"scores.$.found": True}})
    found = things.things.find_one({"_id": 9})
    assert found is not None
    assert found["scores"] == [{"n": 1}, {"n": 5, "big": True, "found": True}, {"n": 9, "big": True}]


def test_an_order_decides_which_one_is_changed(things: Database[Document]) -> None:
    assert updated(things, q={}, u={"$set": {"b": 1}}, sort={"a": -1})["nModified"] == 1
    assert [found["_id"] for found in things.things.find({"b": 1})] == [3]
    assert refused(things, q={}, u={"$set": {"b": 1}}, sort={"a": 1}, multi=True) == 9


def test_a_collation_decides_what_matches(database: Database[Document]) -> None:
    database.things.insert_many([{"_id": "a"}, {"_id": "A"}])
    result = database.things.update_many(
        {"_id": "a"}, {"$set": {"b": 1}}, collation={"locale": "en", "strength": 2}
    )
    assert result.modified_count == 2


def test_a_hint_must_name_an_index(things: Database[Document]) -> None:
    things.things.create_index("a", name="by a")
    assert updated(things, q={"a": 1}, u={"$set": {"b": 1}}, hint="by a")["nModified"] == 1
    assert refused(things, q={"a": 1}, u={"$set": {"b": 1}}, hint="by b") == 2


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ({"q": {}, "u": {"$set": {"_id": 5}}}, 66),
        ({"q": {"_id": 1}, "u": {"_id": 2}}, 66),
        ({"q": {}, "u": {"$nothing": {"a": 1}}}, 9),
        ({"q": {}, "u": {"a": 1}, "multi": True}, 9),
        ({"q": {"$nothing": 1}, "u": {"$set": {"a": 1}}}, 2),
        ({"q": {}, "u": {"$set": {"a": 1}}, "c": {"x": 1}}, 51198),
        ({"q": {}, "u": {"$set": {"a": 1}, "$inc": {"a": 1}}}, 40),
        ({"q": {}, "u": {"$inc": {"tags": 1}}}, 14),
        ({"q": {}, "u": {"$push": {"a": 1}}}, 2),
        ({"q": {}, "u": {"$set": {"a.b": 1}}}, 28),
        ({"q": {}, "u": {"$set": {"tags.$.x": 1}}}, 2),
    ],
)
def test_invalid_statements_are_refused(things: Database[Document], statement: Document, code: int) -> None:
    before = list(things.things.find())
    assert refused(things, **statement) == code
    assert list(things.things.find()) == before


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"update": "things"}, 40414),
        ({"update": "things", "updates": [{"q": {}}]}, 40414),
        ({"update": "things", "updates": [{"q": 1, "u": {}}]}, 14),
        ({"update": "things", "updates": [{"q": {}, "u": {}, "x": 1}]}, 40415),
        ({"update": "things", "updates": []}, 16),
    ],
)
def test_wrong_commands_are_refused(database: Database[Document], command: Document, code: int) -> None:
    with pytest.raises(OperationFailure) as failure:
        database.command(command)
    assert failure.value.code == code


def test_an_ordered_batch_ends_at_the_first_error(things: Database[Document]) -> None:
    changes = [
        UpdateOne({"_id": 1}, {"$set": {"b": 1}}),
        UpdateOne({"_id": 2}, {"$inc": {"tags": 1}}),
        UpdateOne({"_id": 3}, {"$set": {"b": 1}}),
    ]
    with pytest.raises(BulkWriteError) as failure:
        things.things.bulk_write(changes)
    assert [error["index"] for error in failure.value.details["writeErrors"]] == [1]
    with pytest.raises(BulkWriteError) as failure:
        things.things.bulk_write(changes, ordered=False)
    assert failure.value.details["nMatched"] == 2
    assert things.things.count_documents({"b": 1}) == 2


def test_an_error_among_many_leaves_those_before_it_changed(database: Database[Document]) -> None:
    database.things.create_index("a", unique=True)
    database.things.insert_many([{"_id": n, "a": n} for n in range(3)])
    with pytest.raises(DuplicateKeyError):
        database.things.update_many({}, {"$set": {"a": 7}})
    assert [found["a"] for found in database.things.find()] == [7, 1, 2]


def test_a_failed_document_is_unchanged_in_every_index(database: Database[Document]) -> None:
    database.things.create_index("a")
    database.things.create_index("b", unique=True)
    database.things.insert_many([{"_id": 1, "a": 1, "b": 1}, {"_id": 2, "a": 2, "b": 2}])
    with pytest.raises(DuplicateKeyError):
        database.things.update_one({"_id": 1}, {"$set": {"a": 5, "b": 2}})
    assert database.things.find_one({"a": 1}) == {"_id": 1, "a": 1, "b": 1}
    assert database.things.find_one({"a": 5}) is None
    assert database.command("validate", "things")["valid"] is True


def test_a_result_that_is_too_large_is_refused(database: Database[Document]) -> None:
    database.things.insert_one({"_id": 1, "a": "x" * 9_000_000})
    with pytest.raises(WriteError) as failure:
        database.things.update_one({"_id": 1}, {"$set": {"b": "x" * 9_000_000}})
    assert failure.value.code == 10334


def test_current_dates_and_empty_timestamps(database: Database[Document]) -> None:
    database.things.insert_one({"_id": 1})
    database.things.update_one({"_id": 1}, {"$currentDate": {"d": True, "t": {"$type": "timestamp"}}})
    found = database.things.find_one()
    assert found is not None
    assert abs(found["t"].time - found["d"].replace(tzinfo=bson.tz_util.utc).timestamp()) < 10
    database.things.replace_one({"_id": 1}, {"t": Timestamp(0, 0)})
    replaced = database.things.find_one()
    assert replaced is not None
    assert replaced["t"].time >= found["t"].time


# -- upserts ----------------------------------------------------------------------------------------------


def test_an_upsert_inserts_the_values_of_the_query(database: Database[Document]) -> None:
    result = database.things.update_one(
        {"_id": 7, "a.b": 1, "c": {"$gt": 5}, "$and": [{"d": {"$eq": 4}}], "e": {"$in": [3]}},
        {"$set": {"f": 1}, "$setOnInsert": {"g": 2}},
        upsert=True,
    )
    assert (result.matched_count, result.upserted_id) == (0, 7)
    assert database.things.find_one() == {"_id": 7, "a": {"b": 1}, "d": 4, "e": 3, "f": 1, "g": 2}
    assert [entry["op"] for entry in entries_of(database)] == ["c", "i"]


def test_an_upsert_without_an_id_generates_one(database: Database[Document]) -> None:
    result = database.things.update_one({"a": 1}, {"$inc": {"n": 1}}, upsert=True)
    assert isinstance(result.upserted_id, ObjectId)
    stored = database.things.find_one()
    assert stored == {"_id": result.upserted_id, "a": 1, "n": 1}
    assert list(stored or {}) == ["_id", "a", "n"]
    assert database.things.update_one({"a": 1}, {"$inc": {"n": 1}}, upsert=True).upserted_id is None


def test_a_replacement_is_inserted_with_the_querys_id(database: Database[Document]) -> None:
    database.things.replace_one({"_id": 5, "a": 1}, {"b": 2}, upsert=True)
    assert database.things.find_one() == {"_id": 5, "b": 2}


def test_a_pipeline_is_inserted_from_the_query(database: Database[Document]) -> None:
    database.things.update_one({"_id": 5, "a": 1}, [{"$set": {"b": {"$add": ["$a", 1]}}}], upsert=True)
    assert database.things.find_one() == {"_id": 5, "a": 1, "b": 2}


def test_a_supplied_document_is_inserted(database: Database[Document]) -> None:
    reply = updated(
        database,
        q={"_id": 5},
        u=[{"$replaceWith": "$$new"}],
        c={"new": {"_id": 5, "z": 1}},
        upsert=True,
        upsertSupplied=True,
    )
    assert reply["upserted"] == [{"index": 0, "_id": 5}]
    assert database.things.find_one() == {"_id": 5, "z": 1}


def test_several_upserts_are_returned_by_index_and_logged_separately(database: Database[Document]) -> None:
    database.create_collection("things")
    updates = [{"q": {"_id": n}, "u": {"$set": {"a": 1}}, "upsert": True} for n in (5, 6)]
    reply = database.command("update", "things", updates=updates)
    assert reply["n"] == 2
    assert reply["nModified"] == 0
    assert reply["upserted"] == [{"index": 0, "_id": 5}, {"index": 1, "_id": 6}]
    assert [entry["o"] for entry in entries_of(database)[1:]] == [{"_id": 5, "a": 1}, {"_id": 6, "a": 1}]


@pytest.mark.parametrize(
    ("query", "update", "code"),
    [
        ({"a": 1, "$and": [{"a": 2}]}, {"$set": {"b": 1}}, 54),
        ({"a": 1, "a.b": 2}, {"$set": {"b": 1}}, 54),
        ({"_id.x": 1}, {"b": 1}, 111),
        ({"_id": 1}, {"_id": 2}, 66),
        ({"_id": 1}, {"$set": {"_id": 2}}, 66),
        ({"a": 1}, {"$set": {"b.$": 1}}, 2),
        ({}, {"$set": {"_id": [1]}}, 53),
    ],
)
def test_upserts_that_contradict_themselves_are_refused(
    database: Database[Document], query: Document, update: Document, code: int
) -> None:
    assert refused(database, q=query, u=update, upsert=True) == code
    assert database.things.count_documents({}) == 0


# -- validation and special collections -------------------------------------------------------------------


def test_the_result_must_fit_the_rules(database: Database[Document]) -> None:
    database.create_collection("things", validator={"a": {"$lt": 10}})
    database.things.insert_one({"_id": 1, "a": 1})
    with pytest.raises(WriteError) as failure:
        database.things.update_one({"_id": 1}, {"$set": {"a": 50}})
    assert failure.value.code == 121
    with pytest.raises(WriteError):
        database.things.update_one({"_id": 2}, {"$set": {"a": 50}}, upsert=True)
    database.things.update_one({"_id": 1}, {"$set": {"a": 50}}, bypass_document_validation=True)
    with pytest.raises(WriteError):
        database.things.update_one({"_id": 1}, {"$set": {"b": 1}})


def test_moderate_rules_allow_updates_of_invalid_documents(database: Database[Document]) -> None:
    database.create_collection("things", validator={"a": 1}, validationLevel="moderate")
    database.things.insert_one({"_id": 1, "a": 1})
    database.things.insert_one({"_id": 2, "a": 2}, bypass_document_validation=True)
    database.things.update_one({"_id": 2}, {"$set": {"b": 1}})
    with pytest.raises(WriteError):
        database.things.update_one({"_id": 1}, {"$set": {"a": 3}})


def test_pre_images_are_stored(database: Database[Document]) -> None:
    database.create_collection("things", changeStreamPreAndPostImages={"enabled": True})
    database.things.insert_one({"_id": 1, "a": 1})
    database.things.update_one({"_id": 1}, {"$set": {"a": 2}})
    entry = entries_of(database)[-1]
    images = database.client.config["system.preimages"]
    kept = images.find_one({"_id.nsUUID": entry["ui"]})
    assert kept is not None
    assert kept["preImage"] == {"_id": 1, "a": 1}
    assert kept["_id"] == {"nsUUID": entry["ui"], "ts": entry["ts"], "applyOpsIndex": Int64(0)}


def test_capped_collections_can_be_updated(database: Database[Document]) -> None:
    database.create_collection("log", capped=True, size=4096)
    database.log.insert_one({"_id": 1})
    assert database.log.update_one({"_id": 1}, {"$set": {"long": "x" * 100}}).modified_count == 1


def test_metadata_of_measurements_can_be_updated(database: Database[Document]) -> None:
    moment = bson.DatetimeMS(1_700_000_000_000)
    database.create_collection("weather", timeseries={"timeField": "t", "metaField": "m"})
    database.weather.insert_many([{"t": moment, "m": {"n": n, "city": "Ulm" * 9}, "v": n} for n in (1, 2)])
    assert database.weather.update_many({"m.n": 1}, {"$set": {"m.x": 5}}).modified_count == 1
    assert entries_of(database)[-1]["o"] == {"$v": 2, "diff": {"smeta": {"i": {"x": 5}}}}
    for query, update, multi in (
        ({"m.n": 1}, {"$set": {"m.x": 5}}, False),
        ({"m.n": 1}, {"$set": {"v": 5}}, True),
        ({"v": 1}, {"$set": {"m.x": 5}}, True),
    ):
        reply = database.command("update", "weather", updates=[{"q": query, "u": update, "multi": multi}])
        assert [error["code"] for error in reply["writeErrors"]] == [72]


def test_a_view_cannot_be_updated(database: Database[Document]) -> None:
    database.create_collection("seen", viewOn="things", pipeline=[])
    with pytest.raises(WriteError) as failure:
        database.seen.update_one({}, {"$set": {"a": 1}})
    assert failure.value.code == 166


def test_a_time_limit_ends_a_command_between_two_documents(database: Database[Document]) -> None:
    """As on a mongod, what was changed before stays, and is in the oplog."""
    database.things.insert_many([{"_id": n, "a": 0} for n in range(3000)])
    with pytest.raises(OperationFailure) as failure:
        database.command(
            "update",
            "things",
            updates=[{"q": {}, "u": {"$inc": {"a": 1}}, "multi": True}] * 200,
            maxTimeMS=30,
        )
    assert failure.value.code == 50
    stored = [document["a"] for document in database.things.find().sort("_id")]
    assert stored == sorted(stored, reverse=True), "documents are changed in their order"
    assert stored[0] - stored[-1] <= 1, "statements are run in their order"
    assert sum(stored) == sum(entry["op"] == "u" for entry in entries_of(database)) < 200 * 3000


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"$inc": {"s": 1}},
            "Cannot apply $inc to a value of non-numeric type. "
            "{_id: 1} has the field 's' of non-numeric type string",
        ),
        ({"$push": {"s": 1}}, "The field 's' must be an array but is of type string in document {_id: 1}"),
        ({"$set": {"s.x": 1}}, "Cannot create field 'x' in element {s: \"x\"}"),
        ({"$set": {"n": 1}, "$inc": {"n": 1}}, "Updating the path 'n' would create a conflict at 'n'"),
        (
            {"$foo": {"n": 1}},
            "Unknown modifier: $foo. Expected a valid update modifier or pipeline-style update "
            "specified as an array",
        ),
    ],
    ids=str,
)
def test_messages_are_those_of_a_mongod(database: Database[Document], change: Document, text: str) -> None:
    database.c.insert_one({"_id": 1, "s": "x", "n": 1})
    reply = database.command({"update": "c", "updates": [{"q": {"_id": 1}, "u": change}]}, check=False)
    assert reply["writeErrors"][0]["errmsg"] == text
