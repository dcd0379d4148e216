"""Updates that build a whole document: replacements and pipelines."""

from typing import Any

import pytest
from bson import DatetimeMS, Int64, Regex, Timestamp

from tailrace.bson.documents import encode
from tailrace.mongod.language.update import compile_update
from tests.mongod.language.update_helpers import CLUSTER_TIME, NOW, check_error, update

REPLACEMENTS: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"_id": 1, "a": 1}, {"b": 2}, {"_id": 1, "b": 2}),
    ({"_id": 1, "a": 1}, {}, {"_id": 1}),
    ({"_id": 1, "a": 1}, {"b": 2, "_id": 1}, {"_id": 1, "b": 2}),
    ({"_id": 1, "a": 1}, {"_id": Int64(1)}, {"_id": Int64(1)}),
    ({"_id": 1}, {"a": {"$b": 1, "c.d": 2}}, {"_id": 1, "a": {"$b": 1, "c.d": 2}}),
    ({"_id": 1}, {"a.b": 1}, {"_id": 1, "a.b": 1}),
    ({"_id": 1}, {"t": Timestamp(0, 0)}, {"_id": 1, "t": CLUSTER_TIME}),
    ({"_id": 1}, {"d": {"t": Timestamp(0, 0)}}, {"_id": 1, "d": {"t": Timestamp(0, 0)}}),
    ({"a": 1}, {"b": 2}, {"b": 2}),
    ({}, {"b": 2, "_id": 7}, {"_id": 7, "b": 2}),
]


@pytest.mark.parametrize(("before", "spec", "after"), REPLACEMENTS, ids=[str(c[:2]) for c in REPLACEMENTS])
def test_replacement(before: dict[str, Any], spec: dict[str, Any], after: dict[str, Any]) -> None:
    result = update(before, spec)
    assert encode(result.document) == encode(after)
    assert (result.diff, result.is_replacement, result.modified) == (None, True, True)


def test_a_replacement_may_change_nothing() -> None:
    result = update({"_id": 1, "a": 1}, {"a": 1})
    assert (result.is_replacement, result.modified) == (True, False)
    assert not compile_update({"$set": {"a": 1}}).is_replacement
    assert compile_update({"a": 1}).is_replacement


REPLACEMENT_ERRORS: list[tuple[int, dict[str, Any], Any]] = [
    (66, {"_id": 1}, {"_id": 2}),
    (52, {"_id": 1}, {"a": 1, "$set": {"b": 1}}),
    (52, {"_id": 1}, {"a": 1, "$x": 1}),
    (53, {}, {"_id": [1]}),
    (53, {}, {"_id": Regex("a")}),
    (52, {}, {"_id": {"$a": 1}}),
]


@pytest.mark.parametrize(("code", "document", "spec"), REPLACEMENT_ERRORS)
def test_replacement_errors(code: int, document: dict[str, Any], spec: Any) -> None:
    check_error(code, document, spec)


def test_the_depth_of_a_replacement_is_limited() -> None:
    document: dict[str, Any] = {"a": 1}
    for _ in range(179):
        document = {"a": document}
    assert update({"_id": 1}, document).modified
    check_error(15, {"_id": 1}, {"a": document})


PIPELINES: list[tuple[dict[str, Any], list[Any], dict[str, Any]]] = [
    ({"_id": 1, "a": 1}, [{"$set": {"b": {"$add": ["$a", 1]}}}], {"_id": 1, "a": 1, "b": 2}),
    ({"_id": 1, "a": 1}, [{"$addFields": {"a": "$$NOW"}}], {"_id": 1, "a": NOW}),
    ({"_id": 1}, [{"$set": {"t": "$$CLUSTER_TIME"}}], {"_id": 1, "t": CLUSTER_TIME}),
    ({"_id": 1, "a": 1, "b": 2}, [{"$unset": "a"}, {"$set": {"c": 3}}], {"_id": 1, "b": 2, "c": 3}),
    ({"_id": 1, "a": 1, "b": 2}, [{"$project": {"a": 1}}], {"_id": 1, "a": 1}),
    ({"_id": 1, "a": {"x": 5}}, [{"$replaceRoot": {"newRoot": "$a"}}], {"_id": 1, "x": 5}),
    ({"_id": 1, "a": {"x": 5}}, [{"$replaceWith": {"y": "$a.x", "_id": 1}}], {"_id": 1, "y": 5}),
    ({"_id": 1, "a": 2}, [{"$unset": "_id"}, {"$set": {"b": 1}}], {"_id": 1, "a": 2, "b": 1}),
]


@pytest.mark.parametrize(("before", "spec", "after"), PIPELINES, ids=[str(c[:2]) for c in PIPELINES])
def test_pipeline(before: dict[str, Any], spec: list[Any], after: dict[str, Any]) -> None:
    result = update(before, spec)
    assert encode(result.document) == encode(after)
    assert (result.diff, result.is_replacement, result.modified) == (None, False, True)


def test_a_pipeline_may_change_nothing() -> None:
    assert not update({"_id": 1, "a": 1}, [{"$set": {"a": 1}}]).modified
    assert not update({"_id": 1, "a": 1}, []).modified


def test_a_pipeline_uses_the_time_of_each_application() -> None:
    compiled = compile_update([{"$set": {"t": "$$NOW", "c": "$$k"}}], variables={"k": 5})
    for milliseconds in (1, 2, 2):
        time = DatetimeMS(milliseconds)
        result = compiled.apply({"_id": 1}, now=time, cluster_time=CLUSTER_TIME)
        assert result.document == {"_id": 1, "t": time, "c": 5}


PIPELINE_ERRORS: list[tuple[int, Any]] = [
    (66, [{"$set": {"_id": 2}}]),
    (66, [{"$replaceWith": {"_id": 2}}]),
    (72, [{"$match": {"a": 1}}]),
    (72, [{"$group": {"_id": 1}}]),
    (40324, [{"$frobnicate": {"a": 1}}]),
    (40323, [{}]),
    (40323, [{"$set": {"a": 1}, "$unset": "b"}]),
    (14, ["$set"]),
]


@pytest.mark.parametrize(("code", "spec"), PIPELINE_ERRORS, ids=[str(case) for case in PIPELINE_ERRORS])
def test_pipeline_errors(code: int, spec: Any) -> None:
    check_error(code, {"_id": 1, "a": 1}, spec)
