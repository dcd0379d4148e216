"""`$set`, `$setOnInsert`, `$unset`, `$currentDate`, `$rename`: documents, diffs, errors."""

from typing import Any

import pytest
from bson import Int64

from tests.mongod.language.update_helpers import (
    CLUSTER_TIME,
    NO_CHANGE,
    NOW,
    check_error,
    check_modifiers,
    update,
)

CASES: list[tuple[dict[str, Any], Any, Any, Any]] = [
    # (before, update, after, diff)
    ({"a": 1}, {"$set": {"a": 2}}, {"a": 2}, {"u": {"a": 2}}),
    ({"a": 1}, {"$set": {"b": 2}}, {"a": 1, "b": 2}, {"i": {"b": 2}}),
    ({"a": 1}, {"$set": {"a": 1}}, NO_CHANGE, None),
    ({"a": 1}, {"$set": {}}, NO_CHANGE, None),
    ({"a": 1}, {"$set": {"a": Int64(1)}}, {"a": Int64(1)}, {"u": {"a": Int64(1)}}),
    ({"a": 1}, {"$set": {"a": 1.0}}, {"a": 1.0}, {"u": {"a": 1.0}}),
    ({"a": 1, "z": 1}, {"$set": {"a": {"b": 1}}}, {"a": {"b": 1}, "z": 1}, {"u": {"a": {"b": 1}}}),
    ({"a": {"b": 1}}, {"$set": {"a.b": 2}}, {"a": {"b": 2}}, {"sa": {"u": {"b": 2}}}),
    ({"a": {"b": 1}}, {"$set": {"a.c": 2}}, {"a": {"b": 1, "c": 2}}, {"sa": {"i": {"c": 2}}}),
    ({}, {"$set": {"a.b.c": 1}}, {"a": {"b": {"c": 1}}}, {"i": {"a": {"b": {"c": 1}}}}),
    ({"a": {}}, {"$set": {"a.b.c": 1}}, {"a": {"b": {"c": 1}}}, {"sa": {"i": {"b": {"c": 1}}}}),
    ({}, {"$set": {"a.c": 1, "a.b": 2}}, {"a": {"b": 2, "c": 1}}, {"i": {"a": {"b": 2, "c": 1}}}),
    ({}, {"$set": {"z": 1, "b": 2, "a": 3}}, {"a": 3, "b": 2, "z": 1}, {"i": {"a": 3, "b": 2, "z": 1}}),
    ({}, {"$set": {"10": 1, "9": 2, "b": 3}}, {"9": 2, "10": 1, "b": 3}, {"i": {"9": 2, "10": 1, "b": 3}}),
    ({}, {"$set": {"b": 1}, "$inc": {"a": 2}}, {"a": 2, "b": 1}, {"i": {"a": 2, "b": 1}}),
    ({}, {"$set": {"a.0": 1}}, {"a": {"0": 1}}, {"i": {"a": {"0": 1}}}),
    ({"a": {"0": 1}}, {"$set": {"a.0": 2}}, {"a": {"0": 2}}, {"sa": {"u": {"0": 2}}}),
    ({"a": [1, 2]}, {"$set": {"a.0": 9}}, {"a": [9, 2]}, {"sa": {"a": True, "u0": 9}}),
    ({"a": [1]}, {"$set": {"a.1": 9}}, {"a": [1, 9]}, {"sa": {"a": True, "u1": 9}}),
    ({"a": [1]}, {"$set": {"a.3": 9}}, {"a": [1, None, None, 9]}, {"sa": {"a": True, "u3": 9}}),
    ({"a": []}, {"$set": {"a.1.b": 9}}, {"a": [None, {"b": 9}]}, {"sa": {"a": True, "u1": {"b": 9}}}),
    (
        {"a": [{"b": 1}]},
        {"$set": {"a.0.b": 2}},
        {"a": [{"b": 2}]},
        {"sa": {"a": True, "s0": {"u": {"b": 2}}}},
    ),
    (
        {"a": [{"b": 1}]},
        {"$set": {"a.0.c.d": 2}},
        {"a": [{"b": 1, "c": {"d": 2}}]},
        {"sa": {"a": True, "s0": {"i": {"c": {"d": 2}}}}},
    ),
    (
        {"a": [0] * 3},
        {"$set": {"a.10": 1, "a.9": 2, "a.1": 3}},
        {"a": [0, 3, 0, *[None] * 6, 2, 1]},
        {"sa": {"a": True, "u1": 3, "u9": 2, "u10": 1}},
    ),
    (
        {"t": [{"sub": [0, [0, [{"bot": [1, 2, 0]}]], 2]}]},
        {"$set": {"t.0.sub.1.1.0.bot.2": 3}},
        {"t": [{"sub": [0, [0, [{"bot": [1, 2, 3]}]], 2]}]},
        {"st": {"a": True, "s0": {"ssub": {"a": True, "s1": {"a": True, "s1": {
            "a": True, "s0": {"sbot": {"a": True, "u2": 3}}}}}}}},
    ),
    ({"_id": 1}, {"$set": {"_id": 1}}, NO_CHANGE, None),
    ({"_id": {"a": 1}}, {"$set": {"_id.a": 1}}, NO_CHANGE, None),
    ({"a": {}}, {"$set": {"a.$b": 1}}, {"a": {"$b": 1}}, {"sa": {"i": {"$b": 1}}}),
    ({"$ref": "c"}, {"$set": {"$id": 1}}, {"$ref": "c", "$id": 1}, {"i": {"$id": 1}}),
    ({"$x": {"a": 1}}, {"$set": {"$x.a": 2}}, {"$x": {"a": 2}}, {"s$x": {"u": {"a": 2}}}),
    ({"$x": 1}, {"$unset": {"$x": ""}}, {}, {"d": {"$x": False}}),
    ({"a": [1, 2]}, {"$set": {"a.01": 3}}, {"a": [1, 3]}, {"sa": {"a": True, "u1": 3}}),
    # $unset
    ({"a": 1, "b": 2}, {"$unset": {"a": ""}}, {"b": 2}, {"d": {"a": False}}),
    ({"a": 1}, {"$unset": {"b": ""}}, NO_CHANGE, None),
    ({"a": 1}, {"$unset": {"a.b": "", "b.c": ""}}, NO_CHANGE, None),
    ({"a": [1]}, {"$unset": {"a.x": "", "a.5": ""}}, NO_CHANGE, None),
    ({"a": {"b": 1, "c": 2}}, {"$unset": {"a.b": 1}}, {"a": {"c": 2}}, {"sa": {"d": {"b": False}}}),
    ({"a": {"b": 1}}, {"$unset": {"a.b": 1}}, {"a": {}}, {"sa": {"d": {"b": False}}}),
    ({"a": [1, 2]}, {"$unset": {"a.0": ""}}, {"a": [None, 2]}, {"sa": {"a": True, "u0": None}}),
    ({"a": [None]}, {"$unset": {"a.0": ""}}, {"a": [None]}, {"sa": {"a": True, "u0": None}}),
    (
        {"a": {"b": 1, "c": 1}, "x": {"y": 1, "z": 1}},
        {"$unset": {"x.z": 1, "x.y": 1, "a.c": 1, "a.b": 1}},
        {"a": {}, "x": {}},
        {"sa": {"d": {"b": False, "c": False}}, "sx": {"d": {"y": False, "z": False}}},
    ),
    (
        {"a": 1, "b": 2, "c": {"d": 1}},
        {"$unset": {"a": 1}, "$set": {"b": 3, "e": 4, "c.d": 5}},
        {"b": 3, "c": {"d": 5}, "e": 4},
        {"d": {"a": False}, "u": {"b": 3}, "i": {"e": 4}, "sc": {"u": {"d": 5}}},
    ),
    # $setOnInsert does nothing to an existing document, and does not check its path
    ({"a": 1}, {"$setOnInsert": {"b": 1, "a.x": 2}}, NO_CHANGE, None),
    # $currentDate
    ({}, {"$currentDate": {"a": True}}, {"a": NOW}, {"i": {"a": NOW}}),
    ({"a": 1}, {"$currentDate": {"a": {"$type": "date"}}}, {"a": NOW}, {"u": {"a": NOW}}),
    ({}, {"$currentDate": {"a": {"$type": "timestamp"}}}, {"a": CLUSTER_TIME}, {"i": {"a": CLUSTER_TIME}}),
    ({"a": NOW}, {"$currentDate": {"a": False}}, NO_CHANGE, None),
    # $rename
    ({"a": 1}, {"$rename": {"a": "b"}}, {"b": 1}, {"d": {"a": False}, "i": {"b": 1}}),
    ({"b": 0, "a": 1}, {"$rename": {"a": "b"}}, {"b": 1}, {"d": {"a": False}, "u": {"b": 1}}),
    ({"b": 0}, {"$rename": {"a": "b"}}, NO_CHANGE, None),
    ({"b": 0}, {"$rename": {"a": "b.c"}}, NO_CHANGE, None),
    ({"a": {"b": 1}}, {"$rename": {"a.x": "b"}}, NO_CHANGE, None),
    ({"a": [1]}, {"$rename": {"a.5": "b"}}, NO_CHANGE, None),
    (
        {"a": {"b": 1, "c": 2}},
        {"$rename": {"a.b": "x.y"}},
        {"a": {"c": 2}, "x": {"y": 1}},
        {"i": {"x": {"y": 1}}, "sa": {"d": {"b": False}}},
    ),
    (
        {"z": 1, "m": 2},
        {"$rename": {"z": "a"}, "$unset": {"m": ""}},
        {"a": 1},
        {"d": {"z": False, "m": False}, "i": {"a": 1}},
    ),
    (
        {"a": 1, "b": 2},
        {"$rename": {"a": "c"}, "$set": {"b": 3}},
        {"b": 3, "c": 1},
        {"d": {"a": False}, "u": {"b": 3}, "i": {"c": 1}},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("before", "spec", "after", "diff"), CASES, ids=[str(case[:2]) for case in CASES])
def test_operators(before: dict[str, Any], spec: Any, after: Any, diff: Any) -> None:
    check_modifiers(before, spec, after, diff)


def test_set_on_insert_sets_on_insert() -> None:
    spec = {"$setOnInsert": {"b": 1, "c.d": 2}, "$set": {"a": 3}}
    diff = {"i": {"a": 3, "b": 1, "c": {"d": 2}}}
    after = {"_id": 1, "a": 3, "b": 1, "c": {"d": 2}}
    check_modifiers({"_id": 1}, spec, after, diff, is_upsert_insert=True)
    assert update({"_id": 1}, spec).document == {"_id": 1, "a": 3}


def test_an_upsert_may_set_an_id() -> None:
    result = update({}, {"$setOnInsert": {"_id": 5}}, is_upsert_insert=True)
    assert result.document == {"_id": 5}


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


def test_depth_limit() -> None:
    assert update({}, {"$set": {"x": nested(179)}}).modified
    check_error(15, {}, {"$set": {"x": nested(180)}})
    assert update({}, {"$set": {".".join("a" * 180): 1}}).modified
    check_error(15, {}, {"$set": {".".join("a" * 181): 1}})
    check_error(15, {"a": nested(100)}, {"$set": {"a" + ".a" * 99 + ".x": nested(80)}})


def test_padding_limit() -> None:
    assert len(update({"a": []}, {"$set": {"a.1500000": 1}}).document["a"]) == 1_500_001
    check_error(34, {"a": []}, {"$set": {"a.1500001": 1}})
    check_error(34, {"a": [0]}, {"$set": {"a.4294967295.b": 1}})
    check_error(28, {"a": [0]}, {"$set": {"a.4294967296.b": 1}})


ERRORS: list[tuple[int, dict[str, Any], Any]] = [
    # invalid paths
    (28, {"a": 1}, {"$set": {"a.b": 1}}),
    (28, {"a": None}, {"$set": {"a.b": 1}}),
    (28, {"a": "text"}, {"$inc": {"a.b.c": 1}}),
    (28, {"a": [1]}, {"$set": {"a.b": 1}}),
    (2, {"a": 1}, {"$set": {"a.$": 1}}),
    (2, {"a": 1}, {"$unset": {"a.b.$[].c": 1}}),
    (2, {"a": 1}, {"$setOnInsert": {"c.$[]": 3}}),
    (28, {"a": [1]}, {"$set": {"a.-1": 1}}),
    (28, {"a": [1]}, {"$set": {"a.0.b": 1}}),
    (28, {"a": 1}, {"$pop": {"a.b": 1}}),
    (28, {"a": 1}, {"$pullAll": {"a.b": [1]}}),
    # names
    (56, {}, {"$set": {"": 1}}),
    (56, {}, {"$set": {"a.": 1}}),
    (56, {}, {"$set": {".a": 1}}),
    (56, {}, {"$unset": {"a..b": 1}}),
    (52, {}, {"$set": {"$a": 1}}),
    (52, {}, {"$set": {"$a.b": 1}}),
    (55, {}, {"$set": {"$ref": "c"}}),
    (55, {}, {"$set": {"$ref": 1, "$id": 1}}),
    (55, {}, {"$set": {"$id": 1}}),
    (55, {"$ref": "c", "$id": 1}, {"$set": {"$db": 1}}),
    # the first fault in the update
    (40, {}, {"$set": {"a": 1, "a.b": 2}, "$inc": {"x": "y"}}),
    (40, {}, {"$set": {"a": 1, "a.b": 2}, "$foo": {"x": "y"}}),
    (14, {}, {"$inc": {"x": "y"}, "$set": {"a": 1, "a.b": 2}}),
    (52, {}, {"$set": {"$a.b": 1}}),
    # the update itself
    (9, {}, {"$frobnicate": {"a": 1}}),
    (9, {}, {"$set": {"a": 1}, "b": 1}),
    (9, {}, {"$v": 2, "diff": {"u": {"a": 1}}}),
    (9, {}, {"$set": 1}),
    (9, {}, {"$set": [1]}),
    (9, {}, "text"),
    # conflicts
    (40, {}, {"$set": {"a": 1}, "$inc": {"a": 1}}),
    (40, {}, {"$set": {"a": 1, "a.b": 1}}),
    (40, {}, {"$set": {"a.b": 1, "a": 1}}),
    (40, {}, {"$set": {"a.b.c": 1}, "$unset": {"a.b": 1}}),
    (40, {}, {"$rename": {"a": "b"}, "$set": {"a": 1}}),
    (40, {}, {"$rename": {"a": "b"}, "$set": {"b.c": 1}}),
    (40, {}, {"$rename": {"a": "b", "b": "c"}}),
    (40, {}, {"$setOnInsert": {"a": 1}, "$set": {"a": 1}}),
    # _id
    (66, {"_id": 1}, {"$set": {"_id": 2}}),
    (66, {"_id": 1}, {"$inc": {"_id": 1}}),
    (66, {"_id": 1}, {"$unset": {"_id": 1}}),
    (66, {"_id": 1}, {"$rename": {"_id": "a"}}),
    (66, {"_id": {"a": 1}}, {"$set": {"_id.b": 1}}),
    (66, {"_id": 1, "a": 2}, {"$rename": {"a": "_id"}}),
    (53, {}, {"$set": {"_id": [1]}}),
    (52, {}, {"$set": {"_id": {"$a": 1}}}),
    # $currentDate
    (2, {}, {"$currentDate": {"a": 1}}),
    (2, {}, {"$currentDate": {"a": {"$type": "clock"}}}),
    (2, {}, {"$currentDate": {"a": {"$type": ["date"]}}}),
    (2, {}, {"$currentDate": {"a": {"$type": "date", "x": 1}}}),
    # $rename
    (2, {}, {"$rename": {"a": 1}}),
    (2, {}, {"$rename": {"a": "a"}}),
    (2, {}, {"$rename": {"a": "a.b"}}),
    (2, {}, {"$rename": {"a.b": "a"}}),
    (2, {}, {"$rename": {"a.$": "b"}}),
    (2, {}, {"$rename": {"a": "b.$[]"}}),
    (2, {}, {"$rename": {"a": "b\0c"}}),
    (56, {}, {"$rename": {"a": ""}}),
    (56, {}, {"$rename": {"a": "b."}}),
    (2, {"a": [1]}, {"$rename": {"a.0": "b"}}),
    (2, {"a": [{"b": 1}]}, {"$rename": {"a.0.b": "c"}}),
    (2, {"a": 1, "b": [0]}, {"$rename": {"a": "b.0"}}),
    (2, {"a": 1, "b": [{}]}, {"$rename": {"a": "b.0.c"}}),
    (28, {"a": 1}, {"$rename": {"a.b": "c"}}),
    (28, {"a": 1, "b": 2}, {"$rename": {"a": "b.c"}}),
]


@pytest.mark.parametrize(("code", "document", "spec"), ERRORS, ids=[str(case) for case in ERRORS])
def test_errors(code: int, document: dict[str, Any], spec: Any) -> None:
    check_error(code, document, spec)
