"""Filters run before stages that they do not depend on, as on a real server; each case was seen there."""

from typing import Any

import pytest
from bson import Regex

from tests.events.stages.streams import code_of, delete, entry, insert, stream, types, update

Document = dict[str, Any]
OPLOG = [insert(1, 1, n=1), update(2, 1, {"u": {"n": 2}}), delete(3, 1)]
FAILS_FOR_UPDATES: Document = {"$divide": [1, {"$cond": [{"$eq": ["$operationType", "update"]}, 0, 1]}]}
SET: Document = {"$set": {"x": FAILS_FOR_UPDATES}}
PROJECT: Document = {"$project": {"x": FAILS_FOR_UPDATES, "operationType": 1, "ns": 1}}
REDACT: Document = {"$redact": {"$cond": [{"$eq": [FAILS_FOR_UPDATES, 1]}, "$$KEEP", "$$PRUNE"]}}
INSERTS: Document = {"$match": {"operationType": "insert"}}
IS_INSERT: Document = {"$eq": ["$operationType", "insert"]}
NEVER: Document = {"case": 0, "then": "$x"}
IMAGES_REQUIRED: list[Document] = [{"fullDocument": "required"}, {"fullDocumentBeforeChange": "required"}]


@pytest.mark.parametrize(
    "pipeline",
    [
        [SET, INSERTS],
        [PROJECT, INSERTS],
        [PROJECT, {"$match": {"x": 1, "operationType": "insert"}}],
        [REDACT, INSERTS],
        [REDACT, {"$match": {"ns": {"$ne": 1}}}, INSERTS],
        [{"$redact": "$$KEEP"}, REDACT, INSERTS],
        [REDACT, {"$match": {"operationType": {"$in": [Regex("^ins"), "no"]}}}],
        [{"$unset": "ns"}, SET, INSERTS],
        [SET, {"$unset": "x"}, INSERTS],
        [SET, {"$match": {"foo": None}}, {"$unset": "x"}, INSERTS],
        [SET, {"$set": {"type": "$operationType"}}, {"$match": {"type": "insert"}}],
        [SET, {"$match": {"$expr": {"$eq": ["$$ROOT.operationType", "insert"]}}}],
        [SET, {"$set": {"made.type": "$operationType"}}, {"$match": {"made.type": "insert"}}],
        [SET, {"$match": {"$expr": {"$and": [{"$eq": ["$operationType", "insert"]}, {"$eq": ["$x", 1]}]}}}],
        [SET, {"$match": {"$jsonSchema": {"properties": {"operationType": {"enum": ["insert"]}}}}}],
        [REDACT, {"$match": {"operationType": Regex("^i")}}],
        [REDACT, {"$match": {"operationType": {"$regex": "^I", "$options": "i"}}}],
        [REDACT, {"$match": {"operationType": {"$all": ["insert"]}}}],
        [SET, {"$match": {"$expr": {"$eq": [{"$cond": [True, "$operationType", "$x"]}, "insert"]}}}],
        [SET, {"$match": {"$expr": {"$and": [1, {"$eq": ["$operationType", {"$concat": ["in", "sert"]}]}]}}}],
        [
            SET,
            {"$set": {"y": {"$cond": {"if": 0, "then": "$x", "else": "$operationType"}}}},
            {"$match": {"y": "insert"}},
        ],
        [SET, {"$match": {"$expr": {"$eq": [{"$ifNull": [None, "$operationType", None]}, "insert"]}}}],
        [
            SET,
            {
                "$match": {
                    "$expr": {
                        "$switch": {
                            "branches": [
                                {"case": 0, "then": "$x"},
                                {"case": 1, "then": {"$eq": ["$operationType", "insert"]}},
                            ]
                        }
                    }
                }
            },
        ],
    ],
)
def test_a_filter_moves_before_stages_that_do_not_change_what_it_reads(pipeline: list[Document]) -> None:
    assert len(stream(OPLOG, pipeline=pipeline)) == 1


@pytest.mark.parametrize(
    "pipeline",
    [
        [SET],
        [SET, {"$match": {"x": 1}}],
        [SET, {"$match": {"x.y": 1}}],
        [PROJECT, {"$match": {"x": 1}}],
        [{"$replaceWith": {"_id": "$_id", "x": FAILS_FOR_UPDATES}}, INSERTS],
        [REDACT, {"$match": {"operationType": {"$ne": "update"}}}],
        [SET, {"$project": {"x": 0}}],
        [SET, {"$match": {"ns.coll": {"$size": 1}}}],
        [SET, {"$match": {"ns.coll": {"$all": []}}}],
        [SET, {"$match": {"$expr": {"$eq": [{"$getField": "operationType"}, "insert"]}}}],
    ],
)
def test_a_filter_stays_after_stages_that_it_depends_on(pipeline: list[Document]) -> None:
    assert code_of(OPLOG, pipeline=pipeline) == 2


@pytest.mark.parametrize("spec", IMAGES_REQUIRED)
@pytest.mark.parametrize(
    "condition",
    [
        {"foo": 1},
        {"foo": {"$type": "int"}},
        {"foo": {"$not": {"$exists": False}}},
        {"$nor": [{"foo": None}, {"fullDocument": 9}]},
    ],
)
def test_no_image_is_required_for_events_that_a_filter_drops(spec: Document, condition: Document) -> None:
    assert stream(OPLOG, spec, [{"$match": condition}]) == []
    assert stream(OPLOG, spec, [{"$set": {"x": 1}}, {"$match": condition}]) == []


@pytest.mark.parametrize("spec", IMAGES_REQUIRED)
@pytest.mark.parametrize(
    "condition", [{"documentKey._id": {"$elemMatch": {"k": 1}}}, {"lsid.id": {"$size": 1}}]
)
def test_nor_for_events_that_it_drops_by_their_entries(spec: Document, condition: Document) -> None:
    assert stream(OPLOG, spec, [{"$match": condition}]) == []
    assert code_of(OPLOG, spec, [{"$set": {"x": 1}}, {"$match": condition}]) == 47


@pytest.mark.parametrize("spec", IMAGES_REQUIRED)
@pytest.mark.parametrize(
    "condition",
    [
        {"fullDocument.a": {"$size": 3}},
        {"ns.coll": {"$size": 1}},
        {"updateDescription.removedFields": {"$elemMatch": {"$eq": "zz"}}},
        {"$expr": {"$eq": [{"$getField": "operationType"}, "insert"]}},
    ],
)
def test_images_are_required_for_filters_that_run_after_them(spec: Document, condition: Document) -> None:
    assert code_of(OPLOG, spec, [{"$match": condition}]) == 47


def test_a_filter_on_one_image_runs_before_the_other_is_added() -> None:
    both = {"fullDocument": "required", "fullDocumentBeforeChange": "whenAvailable"}
    assert stream(OPLOG, both, [{"$match": {"fullDocumentBeforeChange.a": 1}}]) == []
    other = {"fullDocument": "whenAvailable", "fullDocumentBeforeChange": "required"}
    assert code_of(OPLOG, other, [{"$match": {"fullDocument.a": 1}}]) == 47


def test_with_system_events_alone_the_drop_of_a_view_is_a_deletion_for_a_filter() -> None:
    oplog = [entry(1, "d", {"_id": "shop.seen"}, ns="shop.system.views")]
    pipeline = [{"$match": {"operationType": {"$ne": "delete"}}}]
    spec: Document = {"showSystemEvents": True}
    assert types(stream(oplog, spec, ns="shop")) == ["drop"]
    assert stream(oplog, spec, pipeline, ns="shop") == []
    expanded = {**spec, "showExpandedEvents": True}
    assert types(stream(oplog, expanded, pipeline, ns="shop")) == ["drop"]
