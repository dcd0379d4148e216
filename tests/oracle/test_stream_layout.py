"""The order of an event's fields beside the real server: images, and fields that the user sets."""

from itertools import product
from typing import Final
from uuid import uuid4

import pytest
from bson import Binary, Int64

from tests.oracle.comparison import Document
from tests.oracle.twins import Pair, Recalled, Twins

DATABASE: Final = "layout"
NAMES: Final = (
    "to", "reshardingUUID", "txnNumber", "lsid", "operationType", "clusterTime", "commitTimestamp",
    "collectionUUID", "wallTime", "fullDocument", "ns", "documentKey", "operationDescription",
    "updateDescription", "rawUpdateDescription", "stateBeforeChange", "nsType", "fromMigrate",
    "fullDocumentBeforeChange", "other",
)  # fmt: skip
OPTIONS: Final = [
    {},
    {"showExpandedEvents": True},
    {"fullDocument": "updateLookup"},
    {"fullDocument": "whenAvailable", "fullDocumentBeforeChange": "whenAvailable"},
    {"fullDocumentBeforeChange": "whenAvailable", "showExpandedEvents": True, "showSystemEvents": True},
    {"showRawUpdateDescription": True, "fullDocument": "updateLookup"},
]


def done(pair: Pair) -> None:
    assert pair.real["ok"] == pair.ours["ok"] == 1, pair


@pytest.fixture(scope="module")
def began(twins: Twins) -> Recalled:
    """When every kind of event began to happen in a database."""
    before = twins.operation_time("before the events")
    images = {"enabled": True}
    session = {"lsid": {"id": Binary.from_uuid(uuid4())}, "txnNumber": Int64(1), "autocommit": False}
    changes: list[Document] = [
        {"create": "a", "changeStreamPreAndPostImages": images},
        {"insert": "a", "documents": [{"_id": 1, "x": 1}]},
        {"update": "a", "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": 2}}}]},
        {"update": "a", "updates": [{"q": {"_id": 1}, "u": {"y": 2}}]},
        {"delete": "a", "deletes": [{"q": {"_id": 1}, "limit": 1}]},
        {"createIndexes": "a", "indexes": [{"key": {"y": 1}, "name": "y_1"}]},
        {"collMod": "a", "index": {"name": "y_1", "hidden": True}},
        {"dropIndexes": "a", "index": "y_1"},
        {"insert": "a", "documents": [{"_id": 5}], **session, "startTransaction": True},
        {"update": "a", "updates": [{"q": {"_id": 5}, "u": {"$set": {"y": 1}}}], **session},
    ]
    views: list[Document] = [
        {"create": "v", "viewOn": "a", "pipeline": []},
        {"collMod": "v", "viewOn": "a", "pipeline": [{"$match": {}}]},
        {"drop": "v"},
        {"insert": "kept", "documents": [{"_id": 1}]},
        {"update": "kept", "updates": [{"q": {"_id": 1}, "u": {"$set": {"y": 1}}}]},
    ]
    for command in changes:
        done(twins.run(command, DATABASE))
    done(twins.run({"commitTransaction": 1, **session}, "admin"))
    for command in views:
        done(twins.run(command, DATABASE))
    rename = {"renameCollection": f"{DATABASE}.a", "to": f"{DATABASE}.b"}
    done(twins.run(rename, "admin"))
    twins.run({"drop": "b"}, DATABASE)
    return before


def same_order(twins: Twins, began: Recalled, spec: Document, *stages: Document) -> None:
    """Require the same fields in the same order in all events."""
    found = twins.events({**spec, "startAtOperationTime": began}, *stages, database=DATABASE, count=1)
    real, ours = found.real, found.ours
    assert real["ok"] == ours["ok"] == 1, found
    # `nsType` and `disambiguatedPaths` depend on the release, not on the order.
    assert [list(event) for event in ours["events"]] == [list(event) for event in real["events"]]


@pytest.mark.parametrize("spec", OPTIONS, ids=str)
def test_fields_as_they_are(twins: Twins, began: Recalled, spec: Document) -> None:
    same_order(twins, began, spec)


@pytest.mark.parametrize("spec", OPTIONS, ids=str)
@pytest.mark.parametrize("names", [NAMES, NAMES[::-1]], ids=["forward", "backward"])
def test_fields_that_the_user_sets(
    twins: Twins, began: Recalled, spec: Document, names: tuple[str, ...]
) -> None:
    filled = {name: {"$ifNull": [f"${name}", "none"]} for name in names}
    same_order(twins, began, spec, {"$set": filled})


@pytest.mark.parametrize(
    "stages",
    [
        [{"$set": {"fullDocument": "none"}}],
        [{"$set": {"documentKey.x": 1}}],
        [{"$set": {"other": 1}}, {"$set": {"updateDescription": 1}}],
        [{"$unset": ["ns", "wallTime"]}, {"$set": {"wallTime": 1, "ns": 2}}],
        [{"$project": {"documentKey": 0}}, {"$addFields": {"documentKey": 1, "fullDocument": 1}}],
        [{"$project": {"operationType": 1, "ns": 1}}, {"$set": {"fullDocument": 1, "documentKey": 1}}],
        [{"$project": {"operationType": 1, "fullDocument": "new", "ns": 1}}],
        [{"$replaceWith": "$$ROOT"}, {"$set": {"fullDocument": 1}}],
        [{"$replaceWith": {"$mergeObjects": ["$$ROOT", {"fullDocument": 1}]}}],
        [{"$redact": "$$KEEP"}, {"$set": {"fullDocument": 1}}],
        [{"$redact": "$$DESCEND"}, {"$set": {"fullDocument": 1}}],
        [{"$match": {"operationType": {"$ne": "insert"}}}, {"$set": {"fullDocument": 1}}],
    ],
    ids=str,
)
@pytest.mark.parametrize("spec", OPTIONS[1:4:2], ids=str)
def test_chains_of_stages(twins: Twins, began: Recalled, spec: Document, stages: list[Document]) -> None:
    same_order(twins, began, spec, *stages)


def test_an_invalidation_has_no_places(twins: Twins) -> None:
    twins.run({"drop": "gone"}, DATABASE)
    began = twins.operation_time("before the drop")
    twins.run({"insert": "gone", "documents": [{"_id": 1}]}, DATABASE)
    twins.run({"drop": "gone"}, DATABASE)
    spec = {"startAtOperationTime": began}
    twins.same_events(
        spec,
        {"$set": {"other": 1, "ns": 1, "fullDocument": 1}},
        collection="gone",
        database=DATABASE,
        count=3,
    )


ARRAY: Final = "fullDocument.a"
ON_ARRAYS: Final[list[Document]] = [
    {"$project": {f"{ARRAY}.b": 1}}, {"$project": {f"{ARRAY}.b.c": 1}}, {"$project": {f"{ARRAY}.b": 0}},
    {"$set": {f"{ARRAY}.c": 5}}, {"$set": {f"{ARRAY}.b.d": f"${ARRAY}.c"}}, {"$unset": f"{ARRAY}.c"},
    {"$set": {"n": {"$cond": [{"$isArray": f"${ARRAY}"}, {"$size": f"${ARRAY}"}, None]}}},
    {"$set": {"fullDocument.m": f"${ARRAY}"}},
    {"$set": {"e": {"$arrayElemAt": [{"$ifNull": [f"${ARRAY}", []]}, 0]}}},
    {"$project": {f"{ARRAY}.c": 1, "z": f"${ARRAY}.b"}}, {"$project": {f"{ARRAY}.d": {"$literal": 1}}},
]  # fmt: skip


def test_elements_that_a_projection_leaves_nothing_of(twins: Twins) -> None:
    """They keep their places in the array until the event is written."""
    before = twins.operation_time("before the arrays")
    arrays = [[1, {"b": 1, "c": 2}, [3, {"b": 4}], None], [], [[1], [[2]], {"b": [1, {"c": 2}], "c": [7]}]]
    done(twins.run({"insert": "arrays", "documents": [{"a": array} for array in arrays]}, DATABASE))
    spec = {"startAtOperationTime": before}
    for first, second in product(ON_ARRAYS, repeat=2):
        for third in ON_ARRAYS[3:5]:
            twins.same_events(
                spec, first, second, third, collection="arrays", database=DATABASE, count=len(arrays)
            )
