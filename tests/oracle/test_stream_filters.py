"""Filters that a server moves before other stages, beside the real one: which events need an image.

The streams require images that do not exist. Whether they fail shows whether the filter came first.
"""

import random
from collections.abc import Iterator
from typing import Any, Final
from uuid import uuid4

import pytest
from bson import Binary, Int64, MaxKey, MinKey, Regex

from tests.oracle.comparison import Document
from tests.oracle.seeds import SEEDS, some
from tests.oracle.twins import Recalled, Twins, end_cursors

PIPELINES: Final[list[list[Document]]] = [
    [{"$match": {"operationType": "insert"}}],
    [{"$set": {"x": 1}}, {"$match": {"operationType": "insert"}}],
    [{"$set": {"x": 1}}, {"$set": {"y": 1}}, {"$match": {"operationType": "insert"}}],
    [{"$set": {"operationType": "insert"}}, {"$match": {"operationType": "insert"}}],
    [{"$set": {"x": "$operationType"}}, {"$match": {"x": "insert"}}],
    [{"$project": {"x": "$operationType"}}, {"$match": {"x": "insert"}}],
    [{"$project": {"operationType": 1}}, {"$match": {"operationType": "insert"}}],
    [{"$project": {"ns": 1}}, {"$match": {"operationType": "insert"}}],
    [{"$project": {"ns": 0}}, {"$match": {"operationType": "insert"}}],
    [{"$project": {"operationType": 0}}, {"$match": {"operationType": "insert"}}],
    [{"$unset": "ns"}, {"$match": {"operationType": "insert"}}],
    [{"$unset": "operationType"}, {"$match": {"operationType": "insert"}}],
    [{"$replaceRoot": {"newRoot": "$$ROOT"}}, {"$match": {"operationType": "insert"}}],
    [{"$replaceWith": {"$mergeObjects": ["$$ROOT", {"x": 1}]}}, {"$match": {"operationType": "insert"}}],
    [{"$redact": "$$KEEP"}, {"$match": {"operationType": "insert"}}],
    [{"$redact": "$$KEEP"}, {"$set": {"x": 1}}, {"$match": {"operationType": "insert"}}],
    [{"$set": {"x": 1}}, {"$match": {"operationType": "insert", "x": 1}}],
    [{"$set": {"x": 1}}, {"$match": {"$and": [{"operationType": "insert"}, {"x": 1}]}}],
    [{"$set": {"x": 1}}, {"$match": {"$or": [{"operationType": "insert"}, {"x": 2}]}}],
    [{"$set": {"x": 1}}, {"$match": {"$nor": [{"operationType": "update"}, {"x": 2}]}}],
    [{"$set": {"x": 1}}, {"$match": {"$expr": {"$eq": ["$operationType", "insert"]}}}],
    [
        {"$set": {"x": 1}},
        {"$match": {"$expr": {"$and": [{"$eq": ["$operationType", "insert"]}, {"$eq": ["$x", 1]}]}}},
    ],
    [{"$set": {"x": 1}}, {"$match": {"$expr": {"$eq": ["$$ROOT.operationType", "insert"]}}}],
    [{"$match": {"$expr": {"$getField": {"field": "zz", "input": "$ns"}}}}],
    [{"$match": {"$expr": {"$getField": {"field": "zz", "input": {"$getField": "ns"}}}}}],
    [{"$match": {"$expr": {"$getField": "zz"}}}],
    [{"$set": {"ns.x": 1}}, {"$match": {"ns.coll": "zz"}}],
    [{"$set": {"ns.x": 1}}, {"$match": {"ns": "zz"}}],
    [{"$set": {"ns": {"x": 1}}}, {"$match": {"ns.coll": "zz"}}],
    [{"$set": {"ns.coll": 1}}, {"$match": {"ns.db": "zz"}}],
    [{"$set": {"x": "$ns.coll"}}, {"$match": {"x": "zz"}}],
    [{"$set": {"x": "$ns"}}, {"$match": {"x.coll": "zz"}}],
    [{"$project": {"x": "$ns"}}, {"$match": {"x.coll": "zz"}}],
    [{"$project": {"x": "$ns.coll"}}, {"$match": {"x": "zz"}}],
    [{"$project": {"x.y": "$operationType"}}, {"$match": {"x.y": "insert"}}],
    [{"$set": {"x.y": "$operationType"}}, {"$match": {"x.y": "insert"}}],
    [{"$project": {"ns": 1}}, {"$match": {"ns.coll": "zz"}}],
    [{"$project": {"ns.coll": 1}}, {"$match": {"ns.coll": "zz"}}],
    [{"$project": {"ns.coll": 1}}, {"$match": {"ns.db": "zz"}}],
    [{"$project": {"ns.coll": 1}}, {"$match": {"ns": "zz"}}],
    [{"$project": {"ns.coll": 0}}, {"$match": {"ns.db": "zz"}}],
    [{"$project": {"ns.coll": 0}}, {"$match": {"ns": "zz"}}],
    [{"$set": {"x": 1}}, {"$match": {"missing": {"$exists": True}}}],
    [{"$set": {"x": 1}}, {"$match": {"operationType": {"$in": ["insert"]}}}],
    [{"$set": {"x": 1}}, {"$match": {"operationType": {"$not": {"$eq": "update"}}}}],
    [{"$match": {"fullDocument": 1}}, {"$match": {"operationType": "insert"}}],
    [{"$match": {"fullDocument.a": {"$exists": False}}}, {"$match": {"operationType": "insert"}}],
    [{"$match": {"$expr": {"$gt": ["$fullDocument", 1]}}}, {"$match": {"operationType": "insert"}}],
    [{"$_internalInhibitOptimization": {}}, {"$match": {"operationType": "insert"}}],
    [{"$set": {"x": "$$ROOT"}}, {"$match": {"operationType": "insert"}}],
    [{"$set": {"x": {"$divide": [1, 0]}}}, {"$match": {"operationType": "insert"}}],
    [{"$match": {}}, {"$set": {"x": 1}}, {"$match": {"operationType": "insert"}}],
    [{"$match": {"fullDocumentBeforeChange": None}}, {"$match": {"operationType": "insert"}}],
    [{"$set": {"fullDocumentBeforeChange": 1}}, {"$match": {"operationType": "insert"}}],
    [{"$set": {"x": "$fullDocumentBeforeChange"}}, {"$match": {"operationType": "insert"}}],
    [
        {"$set": {"x": 1}},
        {"$match": {"operationType": "insert"}},
        {"$set": {"y": 1}},
        {"$match": {"ns.coll": "zz"}},
    ],
    [{"$unset": ["x", "y.z"]}, {"$match": {"y": 1}}],
    [{"$unset": ["x", "y.z"]}, {"$match": {"y.q": 1}}],
    [{"$set": {"a.b": 1}}, {"$match": {"a.c": 5}}],
    [{"$set": {"operationType.x": 1}}, {"$match": {"operationType": "insert"}}],
    [{"$addFields": {}}, {"$match": {"operationType": "insert"}}],
    [{"$match": {"$or": [{"operationType": "insert"}, {"fullDocument": 7}]}}],
    [{"$match": {"$nor": [{"operationType": "update"}, {"fullDocument": 7}]}}],
    [{"$match": {"$and": [{"operationType": "insert"}, {"fullDocumentBeforeChange": None}]}}],
    [
        {
            "$match": {
                "$jsonSchema": {"properties": {"operationType": {"enum": ["insert"]}}, "required": ["zz"]}
            }
        }
    ],
    [{"$match": {"$expr": {"$eq": ["$operationType", "insert"]}}}],
    [{"$match": {"$expr": {"$eq": [{"$getField": "operationType"}, "insert"]}}}],
    [{"$match": {"$comment": "x", "operationType": "insert"}}],
    [{"$match": {"operationType": {"$type": "int"}}}],
    [{"$match": {"documentKey": {"$elemMatch": {"a": 1}}}}],
    [{"$match": {"$alwaysFalse": 1}}],
    [{"$match": {"$expr": False}}],
    [{"$match": {"operationType": {"$in": []}}}],
    [{"$match": {"$nor": [{}]}}],
    [{"$match": {"$sampleRate": 0.0}}],
    [{"$match": {"$expr": {"$lt": [{"$rand": {}}, 0]}}}],
    [{"$project": {"operationType": 1, "_id": 0}}, {"$match": {"operationType": "insert"}}],
    [{"$project": {"_id": 1}}, {"$match": {"operationType": "insert"}}],
    [{"$project": {"x": {"$literal": 1}, "operationType": 1}}, {"$match": {"operationType": "insert"}}],
    [
        {"$project": {"x": "$operationType", "operationType": 1}},
        {"$match": {"x": "insert", "operationType": "insert"}},
    ],
    [
        {"$replaceRoot": {"newRoot": {"_id": "$_id", "operationType": "$operationType"}}},
        {"$match": {"operationType": "insert"}},
    ],
    [{"$replaceWith": "$ns"}, {"$match": {"coll": "zz"}}],
    [{"$redact": "$$KEEP"}, {"$match": {"ns.coll": "zz"}}],
    [{"$redact": "$$KEEP"}, {"$match": {"operationType": {"$ne": "update"}}}],
    [{"$redact": "$$KEEP"}, {"$match": {"$nor": [{"operationType": "update"}]}}],
    [{"$redact": "$$KEEP"}, {"$match": {"operationType": {"$in": ["insert"]}}}],
    [{"$redact": "$$KEEP"}, {"$match": {"operationType": {"$regex": "^i"}}}],
    [{"$redact": "$$KEEP"}, {"$match": {"missing": {"$exists": True}}}],
    [{"$redact": "$$KEEP"}, {"$match": {"missing": None}}],
    [{"$redact": "$$KEEP"}, {"$match": {"operationType": Regex("^i")}}],
    [{"$set": {"x": 1}}, {"$match": {"operationType": Regex("^i")}}],
    [{"$redact": "$$KEEP"}, {"$match": {"$or": [{"operationType": "insert"}, {"ns.coll": "x"}]}}],
    [{"$redact": "$$KEEP"}, {"$match": {"$expr": {"$eq": ["$operationType", "insert"]}}}],
    [{"$redact": "$$KEEP"}, {"$match": {"operationType": {"$gt": "v"}}}],
    [{"$redact": "$$KEEP"}, {"$match": {"operationType": {"$eq": "insert"}, "x": {"$exists": False}}}],
    [{"$fill": {"output": {"x": {"value": 1}}}}, {"$match": {"operationType": "insert"}}],
]
_TYPE_OF_TIME: Final = {"$type": {"$cond": [{"$literal": "t0"}, "$clusterTime", "$fullDocument.rows"]}}
CONSTANTS: Final[list[list[Document]]] = [
    [{"$match": {"$nor": [{"$expr": _TYPE_OF_TIME}, {"fullDocument.a": 7}]}}],
    [{"$match": {"$expr": {"$and": [False, "$fullDocument.x"]}}}],
    [{"$match": {"$expr": {"$and": [True, {"$eq": ["$operationType", "a"]}, "$fullDocument.x"]}}}],
    [{"$match": {"$expr": {"$or": [False, "$nothing"]}}}],
    [{"$match": {"$or": [{"$expr": False}, {"fullDocument.x": 1}]}}],
    [{"$match": {"$nor": [{"$expr": True}, {"fullDocument.x": 1}]}}],
    [{"$match": {"$nor": [{"$expr": {"$isNumber": {"$add": [1, 2]}}}, {"fullDocument.x": 1}]}}],
    [{"$match": {"$expr": {"$eq": [{"$ifNull": ["a", "$fullDocument.x"]}, "$operationType"]}}}],
    [{"$match": {"$expr": {"$eq": [{"$ifNull": [None, "$fullDocument.x"]}, "$operationType"]}}}],
    [{"$match": {"$expr": {"$eq": ["$operationType", {"$concat": ["in", "sert"]}]}}}],
    [{"$match": {"$expr": {"$switch": {"branches": [{"case": True, "then": "$nothing"}], "default": "$x"}}}}],
    [
        {
            "$match": {
                "$expr": {"$switch": {"branches": [{"case": False, "then": "$x"}], "default": "$nothing"}}
            }
        }
    ],
    [{"$match": {"$expr": {"$let": {"vars": {"a": "$fullDocument.x"}, "in": 0}}}}],
    [{"$match": {"$expr": {"$cond": [{"$regexMatch": {"input": "a", "regex": "a"}}, 0, "$fullDocument.x"]}}}],
    [{"$match": {"$expr": {"$cond": [{"$eq": ["$$NOW", 1]}, "$fullDocument.x", 0]}}}],
    [{"$set": {"x": {"$cond": [True, "$operationType", "$ns"]}}}, {"$match": {"x": "insert"}}],
    [{"$project": {"x": {"$cond": [False, 1, "$operationType"]}}}, {"$match": {"x": "insert"}}],
    [{"$project": {"x": {"$cond": [True, 1, "$a"]}, "y": {"$cond": [True, {"a": 1}, 2]}}}],
]
_FIELD: Final = "updateDescription.updatedFields.b"
CONDITIONS: Final[list[Document]] = [
    *({operator: 8} for operator in ("$bitsAllSet", "$bitsAnySet", "$bitsAllClear", "$bitsAnyClear")),
    *({"$eq": value} for value in (9, None, {"a": 1}, [1])),
    *({"$in": values} for values in ([9], [None], [{"a": 1}], [[1]], [Regex("q")], [9, None], [])),
    *({"$all": values} for values in ([9], [9, None], [None], [{"a": 1}], [Regex("q")], [])),
    {"$all": [{"$elemMatch": {"$gte": 9}}]},
    *({"$elemMatch": value} for value in ({"$gte": 9}, {"x": 9}, {"$ne": 1}, {"x": None}, {"$type": "bool"})),
    {"$elemMatch": {"$gte": 9, "$exists": True}},
    *({"$mod": [3, 2]}, {"$type": "bool"}, {"$size": 7}, {"$exists": False}, {"$not": {"$gt": 0}}),
]
"""None holds for the update, in which the field is 1."""
BEFORE: Final[list[list[Document]]] = [
    [],
    [{"$set": {"x": 1}}],
    [{"$_internalInhibitOptimization": {}}],
    [{"$redact": "$$KEEP"}],
    [{"$project": {"ns": 0}}],
]
_TRIVIAL: Final[list[Document]] = [
    {"$alwaysTrue": 1}, {"$alwaysFalse": 1}, {"operationType": {"$in": []}}, {"operationType": {"$nin": []}},
    {"$expr": False}, {"$expr": True}, {}, {"$nor": [{}]}, {"$comment": "x"}, {"$jsonSchema": {}},
    {"$jsonSchema": {"properties": {"x": {}}}}, {"a": {"$all": []}},
]  # fmt: skip
"""Conditions that everything or nothing passes."""
BEFORE_TRIVIAL: Final[list[list[Document]]] = [
    [],
    [{"$match": {"ns.x": {"$exists": False}}}],
    [{"$set": {"x": 1}}],
    [{"$project": {"x": "$ns", "operationType": 1}}],
    [{"$redact": "$$KEEP"}],
]


_PROPERTIES: Final[list[Document]] = [
    {"bsonType": "int"}, {"type": "number"}, {"enum": ["zz"]}, {"minLength": 50}, {"pattern": "zz"},
    {"not": {}}, {"not": {"bsonType": "string"}}, {"anyOf": [{"bsonType": "int"}]}, {"minimum": 5},
    {"properties": {"q": {"bsonType": "int"}}}, {"required": ["q"]}, {"description": "x"},
]  # fmt: skip
SCHEMAS: Final[list[Document]] = [
    *({"properties": {path: one}} for one in _PROPERTIES for path in ("operationType", "clusterTime")),
    {"not": {"required": ["ns"]}}, {"not": {"required": ["zz"]}}, {"anyOf": [{"required": ["zz"]}]},
    {"allOf": [{"required": ["zz"]}]}, {"oneOf": [{"required": ["zz"]}]}, {"bsonType": "int"},
    {"anyOf": [{"required": ["zz"]}, {"properties": {"ns": {"bsonType": "int"}}}]}, {"bsonType": "object"},
    {"type": "object", "required": ["zz"]}, {"required": ["zz"], "not": {"required": ["ns"]}},
    {"required": ["fullDocument", "zz"]}, {"required": ["fullDocumentBeforeChange"]},
    {"additionalProperties": False}, {"patternProperties": {"^op": {"bsonType": "int"}}},
]  # fmt: skip


def combined(trivial: Document) -> list[Document]:
    """A trivial condition combined with another one."""
    found = [trivial, {**trivial, "ns.x": 5}]
    for other in ({"operationType": "zz"}, {"operationType": "insert"}):
        for name in ("$and", "$or", "$nor"):
            found += [{name: [trivial, other]}, {name: [other, trivial]}, {name: [trivial]}]
        found += [
            {"$or": [{"$and": [trivial, other]}, other]},
            {"$nor": [{"$and": [trivial, other]}]},
            {"$nor": [{"$or": [trivial, other]}]},
            {"$and": [{"$nor": [trivial]}, other]},
            {"$and": [{"$nor": [trivial, other]}, other]},
            {"$or": [{"$nor": [trivial, other]}, other]},
            {"$and": [{"$or": [trivial, other]}, {"ns.db": "zz"}]},
        ]
    return found


SESSIONS: Final[list[Document]] = [
    {"txnNumber": {"$exists": False}},
    {"lsid": None},
    {"txnNumber": {"$ne": 7}},
    {"txnNumber": {"$not": {"$gt": 9}}},
    {"txnNumber": {"$not": {"$all": []}}},
    {"fullDocument.tags": {"$not": {"$all": []}}},
    {"$nor": [{"lsid": {"$exists": True}}, {"fullDocument.a": 5}]},
    {"$expr": {"$lte": ["$txnNumber", None]}},
    {"$or": [{"txnNumber": None}, {"operationType": "delete"}]},
    {"$or": [{"txnNumber": None}, {"unknown": 2}]},
    *({"$jsonSchema": {"properties": {name: {"bsonType": "int"}}}} for name in ("lsid", "txnNumber")),
    {"$nor": [{"$jsonSchema": {"properties": {"txnNumber": {"bsonType": "long"}}}}]},
]


@pytest.fixture(scope="module")
def began(twins: Twins) -> Iterator[Recalled]:
    # Positions of streams are compared: none may move by itself.
    twins.same({"setParameter": 1, "writePeriodicNoops": False}, "admin")
    twins.run({"create": "d"})
    before = twins.operation_time("before the changes")
    session = {"lsid": {"id": Binary.from_uuid(uuid4())}}
    twins.same(
        {"insert": "d", "documents": [{"_id": 1, "a": 1}, {"_id": 2}], **session, "txnNumber": Int64(7)}
    )
    twins.same({"update": "d", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 1, "b": 1}}}]})
    yield before
    twins.same({"setParameter": 1, "writePeriodicNoops": True}, "admin")


@pytest.mark.parametrize(
    "spec",
    [
        {"fullDocumentBeforeChange": "required"},
        {"fullDocument": "required"},
        {"fullDocument": "required", "fullDocumentBeforeChange": "required"},
        {"fullDocument": "required", "fullDocumentBeforeChange": "whenAvailable"},
    ],
    ids=str,
)
def test_events_that_are_filtered_out_need_no_image(twins: Twins, began: Recalled, spec: Document) -> None:
    compare(twins, began, spec, PIPELINES)


@pytest.mark.parametrize("image", ["fullDocument", "fullDocumentBeforeChange"])
def test_constants_are_computed_before_filters_move(twins: Twins, began: Recalled, image: str) -> None:
    compare(twins, began, {image: "required"}, CONSTANTS)


@pytest.mark.parametrize("expanded", [False, True])
@pytest.mark.parametrize("path", [_FIELD, "documentKey._id", "operationType", "nothing"])
def test_which_conditions_are_tested_before_redact(
    twins: Twins, began: Recalled, path: str, *, expanded: bool
) -> None:
    pruned: Document = {"$redact": {"$cond": ["$ns.db", "$$PRUNE", "$$DESCEND"]}}
    spec = {"fullDocumentBeforeChange": "required", "showExpandedEvents": expanded}
    filters = [{"$match": {path: condition}} for condition in CONDITIONS]
    compare(twins, began, spec, [[pruned, one] for one in filters] + [[one] for one in filters])


@pytest.mark.parametrize("before", BEFORE_TRIVIAL, ids=str)
def test_conditions_that_decide_nothing(twins: Twins, began: Recalled, before: list[Document]) -> None:
    filters = some((one for trivial in _TRIVIAL for one in combined(trivial)), 60)
    spec = {"fullDocumentBeforeChange": "required"}
    compare(twins, began, spec, [[*before, {"$match": condition}] for condition in filters])


@pytest.mark.parametrize("before", BEFORE_TRIVIAL, ids=str)
def test_filters_after_others_that_do_not_move(twins: Twins, began: Recalled, before: list[Document]) -> None:
    """Two filters are joined first; then a part of the second one may move before the stage."""
    later = [{"operationType": "zz"}, {"ns.x": 5}, {"x": 5}, {"operationType": "insert"}]
    filters = some(((one, other) for one in _TRIVIAL for other in later), 24)
    pipelines = [[*before, {"$match": one}, {"$match": other}] for one, other in filters]
    compare(twins, began, {"fullDocumentBeforeChange": "required"}, pipelines)


@pytest.mark.parametrize("image", ["fullDocument", "fullDocumentBeforeChange"])
def test_which_parts_of_schemas_move(twins: Twins, began: Recalled, image: str) -> None:
    pipelines: list[list[Document]] = []
    for schema in ({"$jsonSchema": found} for found in SCHEMAS):
        other = {"operationType": "zz"}
        conditions = (schema, {"$nor": [schema]}, {**schema, **other}, {"$or": [schema, other]})
        pipelines += [[{"$set": {"x": 1}}, {"$match": schema}], *([{"$match": one}] for one in conditions)]
    compare(twins, began, {image: "required"}, some(pipelines, 60))


def test_filters_on_parents_of_copied_fields(twins: Twins, began: Recalled) -> None:
    copies: list[Document] = [
        {"$set": {"x.y": "$ns"}}, {"$set": {"x": {"y": "$ns"}}}, {"$project": {"x.y": "$ns"}},
        {"$set": {"x.y": "$ns.db"}}, {"$set": {"x.y": "$ns", "x.z": 1}},
    ]  # fmt: skip
    filters: list[Document] = [
        {"x": {"$exists": True}}, {"x": None}, {"x.y": {"$exists": True}}, {"x.y.db": "test"},
        {"$expr": {"$eq": [{"$type": "$x"}, "object"]}}, {"$or": [{"x": {"$type": "object"}}, {"ns": 1}]},
    ]  # fmt: skip
    compare(twins, began, {}, [[copy, {"$match": one}] for copy in copies for one in filters])


def test_which_filters_are_tested_on_entries(twins: Twins, began: Recalled) -> None:
    compare(
        twins, began, {}, [[*before, {"$match": condition}] for before in BEFORE for condition in SESSIONS]
    )


_DESCRIPTIONS: Final = (
    "updateDescription", "updateDescription.updatedFields", "updateDescription.removedFields",
    "updateDescription.truncatedArrays", "updateDescription.disambiguatedPaths",
    "updateDescription.updatedFields.a", "updateDescription.missing", "documentKey", "ns", "missing",
)  # fmt: skip
_LIMITS: Final[list[Document]] = [
    {"$lt": MaxKey()}, {"$lte": MaxKey()}, {"$gt": MinKey()}, {"$gte": MinKey()}, {"$ne": MaxKey()},
    {"$gte": MinKey(), "$lt": MaxKey()}, {"$in": [MinKey(), MaxKey()]}, {"$not": {"$lt": MaxKey()}},
]  # fmt: skip


@pytest.mark.parametrize("image", ["default", "required"])
def test_descriptions_of_updates_compared_with_the_limits(twins: Twins, began: Recalled, image: str) -> None:
    filters: list[Document] = [{path: limit} for path in _DESCRIPTIONS for limit in _LIMITS]
    described = {_DESCRIPTIONS[1]: _LIMITS[0]}
    filters += [
        {"$nor": [described]}, {"$nor": [{"$nor": [described]}]}, {"$and": [described, {"ns.db": "test"}]},
        {"$or": [described, {"operationType": "update"}]}, {"$or": [described, {"missing": 1}]},
        {"$expr": {"$lt": ["$updateDescription.updatedFields", MaxKey()]}},
    ]  # fmt: skip
    pipelines = [[*before, {"$match": one}] for before in ([], [{"$set": {"x": 1}}]) for one in filters]
    compare(twins, began, {"fullDocument": image}, pipelines)


def compare(twins: Twins, began: Recalled, spec: Document, pipelines: list[list[Document]]) -> None:
    different = []
    for stages in pipelines:
        stream = {"$changeStream": {**spec, "startAtOperationTime": began}}
        pair = twins.run({"aggregate": "d", "pipeline": [stream, *stages], "cursor": {}})
        end_cursors(twins, pair)
        if pair.differences:
            different.append(f"{stages}: {pair.differences[0]}")
    assert not different, "\n".join(different)


_IMAGE_CONDITIONS: Final[list[Document]] = [
    {"fullDocument.a": 99}, {"fullDocumentBeforeChange.a": 99}, {"fullDocument": {"$exists": False}},
]  # fmt: skip
_EXCLUDING: Final[list[Document]] = [
    {field: condition}
    for field in (
        "operationType", "documentKey._id", "ns.coll", "ns.db", "ns", "clusterTime", "txnNumber", "lsid.id",
    )
    for condition in (
        {"$gt": "zz"}, {"$lt": "a"}, {"$gte": "zz"}, {"$in": ["zz"]}, {"$eq": "zz"}, "zz", {"$exists": False},
        {"$not": {"$exists": True}}, {"$type": "date"}, {"$regex": "^zz"}, {"$in": [Regex("^zz")]},
        {"$nin": ["insert", "update", "d", 1]},
        {"$ne": "update"}, {"$elemMatch": {"$eq": 1}}, {"$all": ["zz"]}, {"$size": 3}, {"$mod": [7, 6]},
    )
]  # fmt: skip


@pytest.mark.parametrize("image", ["fullDocument", "fullDocumentBeforeChange"])
def test_which_conditions_are_tested_before_images(twins: Twins, began: Recalled, image: str) -> None:
    filters = [
        form
        for excluding in _EXCLUDING
        for wanted in _IMAGE_CONDITIONS
        for form in (
            {"$or": [excluding, wanted]}, {"$and": [excluding, wanted]}, {"$nor": [excluding, wanted]},
            {"$or": [{"$and": [excluding, {"operationType": "update"}]}, wanted]},
        )
    ]  # fmt: skip
    compare(twins, began, {image: "required"}, [[{"$match": one}] for one in some(filters, 60)])


_FAILS: Final[Document] = {"$expr": {"$round": "$wallTime"}}
_CONDITIONS: Final[list[Document]] = [
    _FAILS, {"$nor": [_FAILS]}, {"$nor": [{"$expr": "$missing"}, _FAILS]}, {"ns.coll": "d"},
    {"ns.coll": "zz"},
    {"fullDocument.a": 99}, {"missing": {"$not": {"$in": [None]}}}, {"ns.db": {"$in": ["zz"]}},
    {"missing": {"$all": [1, 2]}}, {"documentKey._id": {"$gt": 0, "$lt": 1000}},
    {"$expr": {"$eq": ["$ns.coll", "d"]}}, {"$expr": {"$gt": [0, "$documentKey._id"]}},
    {"$expr": {"$and": ["$missing", {"$eq": ["$ns.coll", "zz"]}]}},
    {"$expr": {"$or": [{"$eq": ["$fullDocument.a", 99]}, {"$lt": ["$ns.db", "a"]}]}},
]  # fmt: skip


def _random_filter(choose: random.Random, levels: int) -> Document:
    if not levels or choose.random() < 0.3:
        return choose.choice(_CONDITIONS)
    operator = choose.choice(["$and", "$or", "$nor"])
    return {operator: [_random_filter(choose, levels - 1) for _ in range(choose.randrange(1, 4))]}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_order_of_conditions(twins: Twins, began: Recalled, seed: int) -> None:
    """It shows where an expression fails: which conditions decide before it is evaluated."""
    choose = random.Random(seed)
    filters = [_random_filter(choose, 3) for _ in range(60)]
    pipelines = [[*before, {"$match": one}] for before in ([], [{"$set": {"x": 1}}]) for one in filters]
    compare(twins, began, {}, pipelines)


def test_names_with_a_null_byte(twins: Twins, began: Recalled) -> None:
    name = "a\0b"
    conditions: list[Any] = [
        name, {"$ne": name}, {"$in": ["q", name]}, {"$nin": [name]}, {"$all": [name]}, {"$gt": name},
        {"$not": {"$eq": name}}, {"$not": {"$lt": name}}, {"$elemMatch": {"$eq": name}},
        {"db": name, "coll": "x"},
    ]  # fmt: skip
    paths = ("ns", "ns.db", "ns.coll", "ns.coll.x", "to", "to.db", "to.coll", "operationType", "missing")
    filters: list[Document] = [{path: condition} for path in paths for condition in conditions]
    filters += [{"$nor": [{"to.coll": name}]}, {"$or": [{"ns.db": name}, {"missing": 1}]}]
    filters += [{"$expr": {operator: ["$ns.coll", name]}} for operator in ("$eq", "$ne", "$gt")]
    pipelines = [[*before, {"$match": one}] for before in ([], [{"$set": {"x": 1}}]) for one in filters]
    compare(twins, began, {}, pipelines)
