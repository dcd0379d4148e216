"""Filters on events as filters on oplog entries: the exact form, which explain shows and remote scans use."""

from typing import Any

import pytest
from bson import Regex, Timestamp

from tailrace.events.stages.rewrites.push_down import push_down

Document = dict[str, Any]
EXISTS: Document = {"$exists": True}
ABSENT: Document = {"$exists": False}
DELTA: Document = {"op": "u", "o._id": ABSENT}
IN_A: Document = {"$or": [{"ns": {"$regex": r"^(?:a)\."}}]}
IN_B: Document = {
    "$or": [
        {"op": {"$in": ["i", "u", "d"]}, "ns": {"$regex": "^[^.]+\\.(?:b)$"}},
        {"op": "c", "o.drop": {"$regex": "^(?:b)$"}},
        {"op": "c", "o.create": {"$regex": "^(?:b)$"}},
        {"op": "c", "o.createIndexes": {"$regex": "^(?:b)$"}},
        {"op": "c", "o.commitIndexBuild": {"$regex": "^(?:b)$"}},
        {"op": "c", "o.startIndexBuild": {"$regex": "^(?:b)$"}},
        {"op": "c", "o.abortIndexBuild": {"$regex": "^(?:b)$"}},
        {"op": "c", "o.dropIndexes": {"$regex": "^(?:b)$"}},
        {"op": "c", "o.collMod": {"$regex": "^(?:b)$"}},
        {"op": "c", "o.renameCollection": {"$regex": "^[^.]+\\.(?:b)$"}},
        {"op": "c", "o.upgradeDowngradeViewlessTimeseries": EXISTS},
    ]
}
CASES: list[tuple[Document, Document | None, str | None]] = [
    ({"operationType": "insert"}, {"$or": [{"op": "i"}]}, "i"),
    (
        {"operationType": {"$in": ["update", "replace"]}},
        {"$or": [{**DELTA}, {"op": "u", "o._id": EXISTS}]},
        "u",
    ),
    (
        {"operationType": {"$ne": "insert"}},
        {
            "$or": [
                {**DELTA},
                {"op": "u", "o._id": EXISTS},
                {"op": "d"},
                {"op": "c", "o.drop": EXISTS},
                {"op": "c", "o.renameCollection": EXISTS},
                {"op": "c", "o.upgradeDowngradeViewlessTimeseries": EXISTS},
                {"op": "c", "o.dropDatabase": EXISTS},
                {"op": "c", "o.create": EXISTS},
                {"op": "c", "o.createIndexes": EXISTS},
                {"op": "c", "o.commitIndexBuild": EXISTS},
                {"op": "c", "o.startIndexBuild": EXISTS},
                {"op": "c", "o.abortIndexBuild": EXISTS},
                {"op": "c", "o.dropIndexes": EXISTS},
                {"op": "c", "o.collMod": EXISTS},
            ]
        },
        "cdu",
    ),
    ({"operationType": "other"}, {"op": {"$in": []}}, None),
    ({"operationType.x": 1}, None, None),
    (
        {"operationType": "rename"},
        {
            "$or": [
                {"op": "c", "o.renameCollection": EXISTS},
                {"op": "c", "o.upgradeDowngradeViewlessTimeseries": EXISTS},
            ]
        },
        "c",
    ),
    (
        {"operationType": "createIndexes"},
        {"$or": [{"op": "c", "o.createIndexes": EXISTS}, {"op": "c", "o.commitIndexBuild": EXISTS}]},
        "c",
    ),
    (
        {"operationType": {"$in": ["drop", "dropDatabase", "create", "modify"]}},
        {
            "$or": [
                {"op": "c", "o.drop": EXISTS},
                {"op": "c", "o.dropDatabase": EXISTS},
                {"op": "c", "o.create": EXISTS},
                {"op": "c", "o.collMod": EXISTS},
            ]
        },
        "c",
    ),
    (
        {"operationType": {"$in": ["startIndexBuild", "abortIndexBuild", "dropIndexes"]}},
        {
            "$or": [
                {"op": "c", "o.startIndexBuild": EXISTS},
                {"op": "c", "o.abortIndexBuild": EXISTS},
                {"op": "c", "o.dropIndexes": EXISTS},
            ]
        },
        "c",
    ),
    ({"clusterTime": {"$gt": Timestamp(1, 1)}}, {"ts": {"$gt": Timestamp(1, 1)}}, None),
    ({"clusterTime.x": 1}, None, None),
    ({"wallTime": 5}, {"wall": 5}, None),
    ({"ns.db": "a"}, IN_A, None),
    ({"ns.db": {"$in": ["a", "b.c"]}}, {"$or": [{"ns": {"$regex": "^(?:a|b\\.c)\\."}}]}, None),
    ({"ns.db": {"$in": []}}, {"op": {"$in": []}}, None),
    ({"ns.db": 5}, None, None),
    ({"ns.db": {"$in": ["a", 5]}}, None, None),
    ({"ns.db": Regex("a")}, None, None),
    ({"ns.db": {"$eq": "a"}}, IN_A, None),
    ({"ns.db": {"$eq": {"a": 1}}}, None, None),
    ({"ns.x": "a"}, None, None),
    ({"ns": "a"}, None, None),
    ({"ns": {"db": "a", "coll": "b"}}, {"$and": [IN_A, IN_B]}, None),
    ({"ns": {"db": "a"}}, IN_A, None),
    ({"ns": {"coll": "b", "db": "a"}}, None, None),
    ({"ns": {"db": "a", "coll": 5}}, IN_A, None),
    ({"ns.coll": {"$in": []}}, {"op": {"$in": []}}, None),
    ({"ns.coll": "b"}, IN_B, None),
    (
        {"to.db": "a"},
        {
            "$or": [
                {"op": "c", "o.to": {"$regex": "^(?:a)\\."}},
                {"op": "c", "o.upgradeDowngradeViewlessTimeseries": EXISTS},
            ]
        },
        "c",
    ),
    (
        {"to.coll": "b"},
        {
            "$or": [
                {"op": "c", "o.to": {"$regex": "^[^.]+\\.(?:b)$"}},
                {"op": "c", "o.upgradeDowngradeViewlessTimeseries": EXISTS},
            ]
        },
        "c",
    ),
    ({"to": "x"}, None, None),
    ({"to.db": 1}, None, None),
    (
        {"documentKey._id": 5},
        {
            "$or": [
                {"op": {"$in": ["i", "u"]}, "o2": EXISTS, "o2._id": 5},
                {"op": "d", "o._id": 5},
                {"op": "i", "o2": ABSENT, "o._id": 5},
            ]
        },
        None,
    ),
    (
        {"documentKey._id": None},
        {
            "$or": [
                {"op": {"$in": ["i", "u"]}, "o2": EXISTS, "o2._id": None},
                {"op": "d", "o._id": None},
                {"op": "i", "o2": ABSENT, "o._id": None},
                {"op": "c"},
            ]
        },
        None,
    ),
    (
        {"documentKey": {"_id": 5}},
        {
            "$or": [
                {"op": {"$in": ["i", "u"]}, "o2": {"_id": 5}},
                {"op": "d", "o": {"_id": 5}},
                {"op": "i", "o2": ABSENT},
            ]
        },
        None,
    ),
    (
        {"documentKey._id.x": 5},
        {
            "$or": [
                {"op": {"$in": ["i", "u"]}, "o2": EXISTS, "o2._id.x": 5},
                {"op": "d", "o._id.x": 5},
                {"op": "i", "o2": ABSENT, "o._id.x": 5},
            ]
        },
        None,
    ),
    (
        {"documentKey.s": 5},
        {"$or": [{"op": {"$in": ["i", "u"]}, "o2": EXISTS, "o2.s": 5}, {"op": "d", "o.s": 5}]},
        None,
    ),
    (
        {"documentKey.s": None},
        {
            "$or": [
                {"op": {"$in": ["i", "u"]}, "o2": EXISTS, "o2.s": None},
                {"op": "d", "o.s": None},
                {"op": "i", "o2": ABSENT},
                {"op": "c"},
            ]
        },
        None,
    ),
    (
        {"documentKey._idx": 5},
        {"$or": [{"op": {"$in": ["i", "u"]}, "o2": EXISTS, "o2._idx": 5}, {"op": "d", "o._idx": 5}]},
        None,
    ),
    (
        {"fullDocument.a": 1},
        {"$or": [{**DELTA}, {"op": "u", "o._id": EXISTS, "o.a": 1}, {"op": "i", "o.a": 1}]},
        "iu",
    ),
    (
        {"fullDocument.a": None},
        {
            "$or": [
                {**DELTA},
                {"op": "u", "o._id": EXISTS, "o.a": None},
                {"op": "i", "o.a": None},
                {"op": {"$in": ["d", "c"]}},
            ]
        },
        None,
    ),
    (
        {"fullDocument": EXISTS},
        {"$or": [{**DELTA}, {"op": "u", "o._id": EXISTS, "o": EXISTS}, {"op": "i", "o": EXISTS}]},
        "iu",
    ),
    ({"fullDocumentBeforeChange.a": 1}, {"op": {"$in": ["u", "d"]}}, None),
    ({"fullDocumentBeforeChange._id": 1}, {"$or": [{"op": "u", "o2._id": 1}, {"op": "d", "o._id": 1}]}, "du"),
    ({"fullDocumentBeforeChange.a": None}, None, None),
    ({"fullDocumentBeforeChange": {"$gte": None}}, None, None),
    (
        {"updateDescription.updatedFields.a": 1},
        {**DELTA, "$or": [{"o.diff.u.a": 1}, {"o.diff.i.a": 1}, {"o.diff.b": EXISTS}]},
        "u",
    ),
    ({"updateDescription.updatedFields.a.b": 1}, {**DELTA}, "u"),
    ({"updateDescription.updatedFields.$a": 1}, {**DELTA}, "u"),
    ({"updateDescription.updatedFields": 1}, {**DELTA}, "u"),
    ({"updateDescription.removedFields": "a"}, {**DELTA, "$or": [{"o.diff.d.a": EXISTS}]}, "u"),
    ({"updateDescription.removedFields": {"$eq": "a"}}, {**DELTA, "$or": [{"o.diff.d.a": EXISTS}]}, "u"),
    (
        {"updateDescription.removedFields": {"$in": ["a", "b"]}},
        {**DELTA, "$or": [{"o.diff.d.a": EXISTS}, {"o.diff.d.b": EXISTS}]},
        "u",
    ),
    ({"updateDescription.removedFields": {"$in": ["a", "b.c"]}}, {**DELTA}, "u"),
    ({"updateDescription.removedFields": {"$gt": "a"}}, {**DELTA}, "u"),
    ({"updateDescription.removedFields": 5}, {**DELTA}, "u"),
    ({"updateDescription.removedFields": ""}, {**DELTA}, "u"),
    ({"updateDescription.removedFields.x": "a"}, {**DELTA}, "u"),
    ({"updateDescription.x": {"$ne": 5}}, None, None),
    ({"foo": 1}, None, None),
    ({"$comment": "x"}, None, None),
    ({"lsid": 1}, None, None),
    ({"txnNumber": 1}, None, None),
    ({"$and": [{"operationType": "insert"}, {"foo": 1}]}, {"$or": [{"op": "i"}]}, "i"),
    ({"$and": [{"operationType": "insert"}, {"ns.db": "a"}]}, {"$and": [{"$or": [{"op": "i"}]}, IN_A]}, "i"),
    ({"$and": [{"foo": 1}]}, None, None),
    ({"$or": [{"operationType": "insert"}, {"foo": 1}]}, None, None),
    ({"$or": [{"operationType": "insert"}, {"ns.db": "a"}]}, {"$or": [{"$or": [{"op": "i"}]}, IN_A]}, None),
    ({"$nor": [{"operationType": "insert"}]}, {"$nor": [{"$or": [{"op": "i"}]}]}, None),
    ({"$nor": [{"fullDocument.a": 1}]}, None, None),
    ({"$nor": [{"documentKey": {"_id": 5}}]}, None, None),
    (
        {"$nor": [{"documentKey._id": 5}]},
        {
            "$nor": [
                {
                    "$or": [
                        {"op": {"$in": ["i", "u"]}, "o2": EXISTS, "o2._id": 5},
                        {"op": "d", "o._id": 5},
                        {"op": "i", "o2": ABSENT, "o._id": 5},
                    ]
                }
            ]
        },
        None,
    ),
    ({"$nor": [{"$and": [{"operationType": "insert"}, {"foo": 1}]}]}, None, None),
    ({"$nor": [{"operationType": "insert", "foo": 1}]}, None, None),
    (
        {"$nor": [{"operationType": "insert", "ns.db": "a"}]},
        {"$nor": [{"$and": [{"$or": [{"op": "i"}]}, IN_A]}]},
        None,
    ),
    ({"operationType": "insert", "foo": 1}, {"$or": [{"op": "i"}]}, "i"),
    ({"$expr": {"$eq": ["$operationType", "insert"]}}, {"$or": [{"op": "i"}]}, "i"),
    ({"$expr": {"$eq": ["insert", "$operationType"]}}, {"$or": [{"op": "i"}]}, "i"),
    ({"$expr": {"$in": ["$operationType", ["insert", "delete"]]}}, {"$or": [{"op": "i"}, {"op": "d"}]}, "di"),
    ({"$expr": {"$in": ["$operationType", "$x"]}}, None, None),
    ({"$expr": {"$eq": ["$operationType", "$x"]}}, None, None),
    ({"$expr": {"$eq": ["$foo", 1]}}, None, None),
    ({"$expr": {"$eq": ["$$ROOT", 1]}}, None, None),
    ({"$expr": {"$eq": ["$operationType", {"a": 1}]}}, None, None),
    ({"$expr": {"$gt": ["$operationType", "a"]}}, None, None),
    ({"$expr": {"$eq": ["$operationType", "a", "b"]}}, None, None),
    ({"$expr": "$operationType"}, None, None),
    ({"$expr": {"$and": [{"$eq": ["$ns.db", "a"]}, {"$eq": ["$foo", 1]}]}}, IN_A, None),
    (
        {"$expr": {"$or": [{"$eq": ["$ns.db", "a"]}, {"$eq": ["$to.db", "b"]}]}},
        {
            "$or": [
                IN_A,
                {
                    "$or": [
                        {"op": "c", "o.to": {"$regex": "^(?:b)\\."}},
                        {"op": "c", "o.upgradeDowngradeViewlessTimeseries": EXISTS},
                    ]
                },
            ]
        },
        None,
    ),
    ({"$expr": {"$or": [{"$eq": ["$ns.db", "a"]}, {"$eq": ["$foo", "b"]}]}}, None, None),
    ({"$expr": {"$and": "x"}}, None, None),
    ({"$nor": [{"$expr": {"$eq": ["$operationType", "insert"]}}]}, None, None),
    ({"$expr": {"$eq": ["$clusterTime", 5]}}, None, None),
    ({"$expr": {"$in": [1, ["$operationType"]]}}, None, None),
]


@pytest.mark.parametrize(("user_filter", "document", "ops"), CASES)
def test_a_filter_on_events_as_one_on_entries(
    user_filter: Document, document: Document | None, ops: str | None
) -> None:
    pushed = push_down(user_filter)
    assert pushed.document == document
    assert pushed.ops == (None if ops is None else frozenset(ops))
    assert (pushed.operation is None) == (document is None)


@pytest.mark.parametrize(
    ("user_filter", "of_commit", "inner"),
    [
        ({"clusterTime": 1}, True, False),
        ({"lsid": 1}, True, False),
        ({"txnNumber": 1}, True, False),
        ({"wallTime": 1}, False, False),
        ({"operationType": "insert"}, False, True),
        ({"operationType": "insert", "txnNumber": 1}, True, True),
        ({"ns.db": "a"}, False, True),
        ({"foo": 1}, False, False),
    ],
)
def test_what_is_tested_on_commits_and_on_the_operations_of_transactions(
    user_filter: Document, of_commit: bool, inner: bool
) -> None:
    pushed = push_down(user_filter)
    assert (pushed.transaction is not None, pushed.inner is not None) == (of_commit, inner)
