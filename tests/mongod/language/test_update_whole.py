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
    result = update({"_id": 1, "a": 1}, {"_id": 1, "a": 1})
    assert (result.is_replacement, result.modified) == (True, False)
    assert not compile_update({"$set": {"a": 1}}).is_replacement
    assert compile_update({"a": 1}).is_replacement


REPLACEMENT_ERRORS: list[tuple[int, dict[str, Any], Any]] = [
    (66, {"_id": 1}, {"_id": 2}),
    (52, {"_id": 1}, {"a": 1, "$set": {"b": 1}}),
    (52, {"_id": 1}, {"a": 1, "$x": 1}),
    (55, {"_id": 1}, {"a": 1, "$ref": "c"}),
    (53, {}, {"_id": [1]}),
    (53, {}, {"_id": Regex("a")}),
    (52, {}, {"_id": {"$a": 1}}),
]


@pytest.mark.parametrize(("code", "document", "spec"), REPLACEMENT_ERRORS)
def test_replacement_errors(code: int, document: dict[str, Any], spec: Any) -> None:
    check_error(code, document, spec)


def test_without_an_id_an_equal_document_counts_as_modified() -> None:
    for spec in ({"a": 1}, [{"$unset": "_id"}], [{"$replaceWith": {"a": 1}}]):
        result = update({"_id": 1, "a": 1}, spec)
        assert result.modified
        assert list(result.document.items()) == [("_id", 1), ("a", 1)]


def test_an_id_elsewhere_is_stored_first_and_logged_in_its_place() -> None:
    for spec in ({"a": 1, "_id": 1}, [{"$replaceWith": {"a": 1, "_id": "$_id"}}]):
        result = update({"_id": 1, "a": 1}, spec)
        assert result.modified
        assert list(result.document) == ["_id", "a"]
        assert result.as_built is not None
        assert list(result.as_built) == ["a", "_id"]


def test_names_are_processed_as_text_and_two_numbers_by_value() -> None:
    names = ["b", "10", "9", "01", " ", "a"]
    made = update({}, {"$set": dict.fromkeys(names, 1)}).document
    assert list(made) == [" ", "01", "9", "10", "a", "b"]


def test_a_document_to_insert_may_have_dollar_names() -> None:
    for spec in ({"$set": {"$v": 1}}, {"a": 1, "$v": 1}):
        assert update({"_id": 1}, spec, is_upsert_insert=True).document["$v"] == 1
    check_error(54, {}, {"_id": [1]}, is_upsert_insert=True)


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


def test_a_pipeline_may_apply_a_logged_update() -> None:
    def stage(logged: Any) -> list[Any]:
        return [{"$_internalApplyOplogUpdate": logged}]

    diff = {"d": {"a": False}, "i": {"c": 2}}
    result = update({"_id": 1, "a": 1, "b": 1}, stage({"oplogUpdate": {"$v": 2, "diff": diff}}))
    assert result.document == {"_id": 1, "b": 1, "c": 2}
    for code, logged in (
        (6315901, 1),
        (40414, {}),
        (40415, {"oplogUpdate": {"$v": 2, "diff": diff}, "x": 1}),
        (4772601, {"oplogUpdate": {"$v": 2}}),
        (4770503, {"oplogUpdate": {"$v": 2, "diff": {"z": {"a": 1}}}}),
    ):
        check_error(code, {"_id": 1}, stage(logged))


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
