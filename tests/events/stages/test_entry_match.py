"""Which filters are tested on entries, where that shows, and with which result."""

from typing import Any

import pytest
from bson import Binary, Int64, Regex, Timestamp

from tailrace.errors import CommandError
from tests.events.stages.streams import code_of, delete, entry, stream, types, update

Document = dict[str, Any]
DELETE = delete(1, 5)
UPDATE = update(1, 5, {"d": {"gone": False}, "u": {"a": 1, "n": {"m": 2}}})
LATE = Timestamp(2**31, 0)


def is_dropped(condition: Document) -> bool:
    """Whether the condition drops a deletion by its entry.

    Then its pre-image is not required, which is not there. The other branch reads an image, so that the
    filter itself runs after images were added. It is tested on entries as well, and is false for deletions.
    """
    spec = {"fullDocumentBeforeChange": "required", "fullDocument": "updateLookup"}
    pipeline = [{"$match": {"$or": [condition, {"fullDocument.x": 7}]}}]
    try:
        return stream([DELETE], spec, pipeline) == []
    except CommandError as error:
        if error.code != 47:
            raise
        return False


@pytest.mark.parametrize(
    "condition",
    [
        {"operationType": "insert"},
        {"operationType": {"$in": ["insert", "update"]}},
        {"operationType": {"$not": {"$eq": "delete"}}},
        {"operationType": {"$ne": "delete"}},
        {"operationType": {"$nin": ["delete"]}},
        {"operationType": {"$all": ["insert"]}},
        {"operationType.x": 1},
        {"ns.coll": "other"},
        {"ns.coll": {"$in": ["a", "b"]}},
        {"ns.coll": {"$in": ["a", Regex("^b")]}},
        {"ns": {"$in": [{"db": "x", "coll": "y"}]}},
        {"ns": {"db": "x", "coll": "y"}},
        {"ns.coll": Regex("^x")},
        {"ns.coll": {"$regex": "^O"}},
        {"to.db": "x"},
        {"clusterTime": {"$lt": Timestamp(1, 1)}},
        {"clusterTime": {"$type": "int"}},
        {"txnNumber": 5},
        {"lsid": {"$exists": True}},
        {"documentKey._id": 6},
        {"documentKey._id.x": 5},
        {"documentKey.x": 1},
        {"documentKey": {"_id": 6}},
        {"documentKey": {"$in": [{"_id": 6}]}},
        {"documentKey": {"$gt": {"_id": 6}}},
        {"documentKey._id": {"$exists": False}},
        {"updateDescription.updatedFields.a": 1},
        {"updateDescription.updatedFields.a.b": 1},
        {"updateDescription": {"$exists": True}},
        {"updateDescription.x": 1},
        {"fullDocument.a": 1},
        {"$nor": [{"operationType": "delete"}]},
        {"$nor": [{"documentKey.x": 1}, {"operationType": "delete"}]},
        {"$nor": [{"foo": 1}, {"operationType": "delete"}]},
        {"$and": [{"operationType": "insert"}, {"foo": 1}]},
        {"$and": [{"ns.coll": 5}, {"documentKey._id": 6}]},
        {"$or": [{"operationType": "insert"}, {"ns.coll": "other"}]},
        {"documentKey._id": {"$all": [6]}},
        {"documentKey._id": {"$gt": 1, "$eq": 6}},
        {"$comment": "why", "documentKey._id": 6},
        {"$expr": {"$eq": ["$operationType", "insert"]}},
        {"$expr": {"$eq": ["insert", "$operationType"]}},
        {"$expr": {"$ne": ["$operationType", "delete"]}},
        {"$expr": {"$gt": ["$documentKey._id", 10]}},
        {"$expr": {"$eq": ["$documentKey.x", 1]}},
        {"$expr": {"$eq": ["$documentKey.x", {"$literal": 1}]}},
        {"$expr": {"$and": [{"$eq": ["$operationType", "insert"]}, {"$eq": ["$foo", 1]}]}},
        {"$expr": {"$or": [{"$eq": ["$operationType", "insert"]}, {"$eq": ["$ns.coll", "x"]}]}},
        {"$expr": {"$not": [{"$eq": ["$operationType", "delete"]}]}},
        {"$expr": {"$not": {"$eq": ["$operationType", "delete"]}}},
        {"$expr": {"$eq": ["$updateDescription.updatedFields.a", 1]}},
        {"$expr": {"$eq": ["$$ROOT.operationType", "insert"]}},
        {"$expr": {"$eq": ["$txnNumber", 1]}},
        {"$expr": {"$gte": ["$clusterTime", LATE]}},
    ],
)
def test_conditions_that_drop_a_deletion_by_its_entry(condition: Document) -> None:
    assert is_dropped(condition)


@pytest.mark.parametrize(
    "condition",
    [
        # They hold.
        {"operationType": "delete"},
        {"operationType": {"$in": ["delete"]}},
        {"operationType": {"$nin": ["insert"]}},
        {"operationType": {"$all": ["delete"]}},
        {"ns.coll": {"$regex": "^O", "$options": "i"}},
        {"txnNumber": {"$exists": False}},
        {"documentKey._id": 5},
        {"documentKey.x": None},
        {"documentKey": {"_id": 5}},
        {"documentKey._id": {"$exists": True}},
        {"documentKey.x": {"$exists": False}},
        {"documentKey.x": {"$ne": 1}},
        {"updateDescription": None},
        {"$comment": "why"},
        {"$expr": {"$eq": ["$operationType", "delete"]}},
        {"$expr": {"$lt": ["$documentKey._id", 10]}},
        {"$expr": {"$gt": [10, "$documentKey._id"]}},
        {"$expr": {"$or": [{"$eq": ["$operationType", "insert"]}, {"$eq": ["$ns.coll", "orders"]}]}},
        {"$expr": {"$not": [{"$eq": ["$operationType", "insert"]}]}},
        # They cannot be tested on entries.
        {"ns.coll": {"$in": ["a", 1]}},
        {"ns.coll": 1},
        {"ns.coll": {"$gt": "z"}},
        {"ns.coll": {"$all": [{"$elemMatch": {"a": 1}}]}},
        {"to": {"$exists": True}},
        {"fullDocumentBeforeChange.a": 1},
        {"foo": 1},
        {"$jsonSchema": {"required": ["foo"]}},
        {"$or": [{"operationType": "insert"}, {"foo": 1}]},
        {"$nor": [{"foo": None}]},
        {"$nor": [{"$and": [{"operationType": "delete"}, {"foo": None}]}]},
        {"$expr": {"$eq": ["$documentKey.x", [1]]}},
        {"$expr": {"$eq": ["$documentKey.x", "$foo"]}},
        {"$expr": {"$eq": ["$foo", 1]}},
        {"$expr": {"$or": [{"$eq": ["$operationType", "insert"]}, {"$eq": ["$foo", 1]}]}},
        {"$expr": {"$not": [{"$eq": ["$foo", "delete"]}]}},
        {"$expr": {"$not": [{"$and": [{"$eq": ["$operationType", "delete"]}, {"$ne": ["$foo", 1]}]}]}},
    ],
)
def test_conditions_that_do_not(condition: Document) -> None:
    assert not is_dropped(condition)


def has_raw_update(condition: Document) -> bool:
    """Whether a stream of raw updates shows one, which has an `updateDescription` only for entries."""
    found = stream([UPDATE], {"showRawUpdateDescription": True}, [{"$match": condition}])
    assert all("updateDescription" not in event for event in found)
    return bool(found)


@pytest.mark.parametrize(
    ("negated", "is_shown"),
    [
        ({"updateDescription.updatedFields.a": 1}, False),
        ({"updateDescription.updatedFields.a": 2}, True),
        ({"updateDescription.updatedFields.n.m": 2}, True),
        ({"updateDescription.updatedFields": {"a": 1, "n": {"m": 2}}}, True),
        ({"updateDescription.removedFields": "gone"}, False),
        ({"updateDescription.removedFields": "other"}, True),
        ({"updateDescription.removedFields": {"$in": ["other", "gone"]}}, False),
        ({"updateDescription.removedFields": {"$in": ["other"]}}, True),
        ({"updateDescription.removedFields": {"$in": ["gone", 1]}}, True),
        ({"updateDescription.removedFields": {"$in": ["gone", "a.b"]}}, True),
        ({"updateDescription.removedFields": {"$gt": "a"}}, True),
        ({"updateDescription.other": {"$exists": False}}, False),
        ({"updateDescription": {"$exists": True}}, False),
        ({"updateDescription.updatedFields": {"$exists": True}}, False),
        ({"updateDescription.removedFields": {"$exists": True}}, False),
        ({"updateDescription.truncatedArrays": {"$exists": True}}, False),
        ({"updateDescription.updatedFields.a": {"$gt": 0}}, False),
        ({"updateDescription.updatedFields.a": {"$gt": 0}, "foo": None}, True),
    ],
)
def test_negated_conditions_on_descriptions(negated: Document, is_shown: bool) -> None:
    assert has_raw_update({"$nor": [negated]}) == is_shown


@pytest.mark.parametrize(
    ("condition", "is_shown"),
    [
        ({"updateDescription": None}, False),
        ({"updateDescription.updatedFields": None}, False),
        ({"updateDescription.updatedFields": {"$lte": None}}, False),
        ({"updateDescription.removedFields": None}, False),
        ({"updateDescription.other": None}, True),
        ({"operationType": "update"}, True),
        ({"updateDescription.updatedFields.a": {"$ne": 1}}, False),
        ({"updateDescription.updatedFields.a": {"$nin": [1]}}, False),
        ({"updateDescription.updatedFields.a": {"$not": {"$eq": 1}}}, False),
        ({"updateDescription.updatedFields.a": {"$exists": False}}, False),
        ({"updateDescription.updatedFields.b": {"$exists": False}}, True),
    ],
)
def test_conditions_on_descriptions(condition: Document, is_shown: bool) -> None:
    assert has_raw_update(condition) == is_shown


@pytest.mark.parametrize(
    ("condition", "is_shown"),
    [
        ({"txnNumber": {"$exists": False}}, False),
        ({"lsid": {"$exists": False}}, False),
        ({"$expr": {"$eq": [{"$type": "$txnNumber"}, "missing"]}}, False),
        ({"$expr": {"$eq": [{"$type": "$$ROOT.txnNumber"}, "missing"]}}, False),
        ({"$expr": {"$eq": [{"$type": "$$CURRENT.lsid.id"}, "missing"]}}, False),
        ({"$nor": [{"$and": [{"txnNumber": 3}]}]}, False),
        ({"txnNumber": {"$ne": 4}}, True),
        ({"operationType": "insert"}, True),
    ],
)
def test_conditions_on_the_session_of_a_retryable_write(condition: Document, is_shown: bool) -> None:
    lsid = {"id": Binary(bytes(16), 4)}
    oplog = [entry(1, "i", {"_id": 1}, lsid=lsid, txnNumber=Int64(3))]
    assert types(stream(oplog, pipeline=[{"$match": condition}])) == (["insert"] if is_shown else [])


@pytest.mark.parametrize(
    ("condition", "is_shown"),
    [
        ({"documentKey.s": 2}, True),
        ({"documentKey.s": 3}, False),
        ({"documentKey.s": {"$ne": 3}}, True),
        ({"documentKey.other": None}, True),
        ({"documentKey": {"_id": 5, "s": 2}}, True),
        ({"documentKey": {"_id": 5, "s": 3}}, False),
        ({"documentKey": {"$in": [{"_id": 6}, {"_id": 5, "s": 2}]}}, True),
        ({"documentKey": {"$in": [7, {"_id": 5, "s": 2}]}}, True),
        ({"documentKey": {"$gt": {"_id": 4}}}, True),
        ({"documentKey": {"$ne": {"_id": 6}}}, True),
        ({"fullDocument.s": 2}, True),
        ({"fullDocument.s": 3}, False),
    ],
)
def test_conditions_on_the_key_of_an_insertion(condition: Document, is_shown: bool) -> None:
    oplog = [entry(1, "i", {"_id": 5, "s": 2, "t": 3}, o2={"_id": 5, "s": 2})]
    found = stream(oplog, {"fullDocument": "required"}, [{"$match": condition}])
    assert types(found) == (["insert"] if is_shown else [])


def test_a_filter_after_redact_is_tested_on_entries_only_if_types_are_not_filtered() -> None:
    spec = {"fullDocumentBeforeChange": "required"}
    match: Document = {"$match": {"lsid.id": {"$elemMatch": {"k": 1}}}}
    redacted: list[Document] = [{"$redact": "$$KEEP"}, match]
    assert stream([DELETE], spec, [match]) == []
    assert code_of([DELETE], spec, redacted) == 47
    assert stream([DELETE], {**spec, "showExpandedEvents": True}, redacted) == []
