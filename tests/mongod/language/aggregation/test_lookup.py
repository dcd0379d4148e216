"""`$lookup`: equality through arrays and nulls, pipelines with variables, indexes, errors."""

from typing import Any

import pytest
from bson import Decimal128

from tailrace.query.collation import Collation
from tests.mongod.language.aggregation.pipeline_helpers import (
    Collections,
    assert_code,
    assert_results,
    results,
)


def equality(local: str = "a", foreign: str = "b", **more: Any) -> dict[str, Any]:
    return {"$lookup": {"from": "c", "localField": local, "foreignField": foreign, "as": "found", **more}}


def found_ids(local: Any, foreign: list[Any], path: str = "b", local_path: str = "a") -> list[Any]:
    (result,) = results([equality(local_path, path)], [local], foreign={"c": foreign})
    return [document["_id"] for document in result["found"]]


def test_equality() -> None:
    foreign = [{"_id": 1, "b": 1}, {"_id": 2, "b": 2}, {"_id": 3, "b": 1.0}]
    assert_results(
        [equality()],
        [{"_id": 0, "a": 1}, {"_id": 1, "a": 9}],
        [{"_id": 0, "a": 1, "found": [foreign[0], foreign[2]]}, {"_id": 1, "a": 9, "found": []}],
        foreign={"c": foreign},
    )


def test_a_collection_that_does_not_exist_is_empty() -> None:
    assert_results([equality()], [{"a": 1}], [{"a": 1, "found": []}])


NULLS = [
    {"_id": 0, "x": 1},
    {"_id": 1, "b": None},
    {"_id": 2, "b": [None, 1]},
    {"_id": 10, "b": []},
    {"_id": 20, "b": 1},
    {"_id": 21, "b": {"x": None}},
    {"_id": 22, "b": [[None, 1], 2]},
    {"_id": 23, "b": False},
]


@pytest.mark.parametrize("local", [{}, {"a": None}, {"a": []}, {"a": [None]}])
def test_null_matches_missing(local: dict[str, Any]) -> None:
    assert found_ids(local, NULLS) == [0, 1, 2]


VALUES: list[tuple[dict[str, Any], list[int]]] = [
    ({"a": 1}, [0, 1, 2]),
    ({"a": Decimal128("1.0")}, [0, 1, 2]),
    ({"a": [1, 7]}, [0, 1, 2, 5]),
    ({"a": [7, 1, 7]}, [0, 1, 2, 5]),
    ({"a": [[1, 2]]}, [2, 3]),
    ({"a": {"x": 1}}, [4]),
    ({"a": "1"}, []),
]


@pytest.mark.parametrize(("local", "expected"), VALUES)
def test_values_in_arrays(local: dict[str, Any], expected: list[int]) -> None:
    foreign = [
        {"_id": 0, "b": 1},
        {"_id": 1, "b": [3, 1]},
        {"_id": 2, "b": [1, 2]},
        {"_id": 3, "b": [[1, 2]]},
        {"_id": 4, "b": {"x": 1}},
        {"_id": 5, "b": 7},
    ]
    assert found_ids(local, foreign) == expected


PATHS = [
    {"_id": 0, "b": {"x": 1}},
    {"_id": 1, "b": [{"x": 1}, {"x": 2}]},
    {"_id": 2, "b": [{"y": 1}, {"x": [3, 1]}]},
    {"_id": 3, "b": {"x": [[1]]}},
    {"_id": 4, "b": [1]},
    {"_id": 5, "b": []},
    {"_id": 6, "b": [{"x": 2}, {"x": 1}]},
]


def test_paths_of_the_foreign_field() -> None:
    assert found_ids({"a": 1}, PATHS, "b.x") == [0, 1, 2, 6]
    assert found_ids({"a": None}, PATHS, "b.x") == [2]
    assert found_ids({"a": 1}, PATHS, "b.0.x") == [1]


def test_paths_of_the_local_field() -> None:
    foreign = [{"_id": 1, "b": 1}, {"_id": 2, "b": 2}, {"_id": 9}]
    for local, expected in [
        ({"a": {"x": 1}}, [1]),
        ({"a": [{"x": 1}, {"x": [2]}, {}, 5]}, [1, 2]),
        ({"a": [{"y": 1}]}, [9]),
        ({"a": [1]}, [9]),
    ]:
        assert found_ids(local, foreign, local_path="a.x") == expected
    assert found_ids({"a": [{"x": 1}, {"x": 2}]}, foreign, local_path="a.1.x") == [2]


def test_as_is_a_path() -> None:
    stage = {"$lookup": {"from": "c", "localField": "a", "foreignField": "b", "as": "x.y"}}
    foreign = {"c": [{"b": 1}]}
    documents = [{"a": 1, "x": {"z": 0}}, {"a": 1, "x": 5}]
    expected = [{"a": 1, "x": {"z": 0, "y": [{"b": 1}]}}, {"a": 1, "x": {"y": [{"b": 1}]}}]
    assert_results([stage], documents, expected, foreign=foreign)


def test_collation() -> None:
    collation = Collation.parse({"locale": "en", "strength": 2})
    foreign = Collections({"c": [{"b": "X"}, {"b": "y"}]}, indexes=[("c", "b")])
    (result,) = results([equality()], [{"a": "x"}], foreign=foreign, collation=collation)
    assert result["found"] == [{"b": "X"}]
    assert foreign.index_reads == [], "the index is in the order of code points"


def test_an_index_is_used() -> None:
    foreign = Collections({"c": [{"_id": n, "b": n} for n in range(5)]}, indexes=[("c", "b")])
    documents = [{"a": 1}, {"a": [2, 3, 2]}, {"a": None}]
    found = [document["found"] for document in results([equality()], documents, foreign=foreign)]
    assert [[document["_id"] for document in documents] for documents in found] == [[1], [2, 3], []]
    assert foreign.index_reads == [("c", "b", 1), ("c", "b", 2), ("c", "b", 3)]
    assert foreign.scans == ["c"], "a null may be anything that lacks the field"


def test_the_collection_is_read_once() -> None:
    foreign = Collections({"c": [{"b": 1}]})
    results([equality()], [{"a": number} for number in range(10)], foreign=foreign)
    assert foreign.scans == ["c"]
    stage = {
        "$lookup": {"from": "c", "as": "found", "let": {"n": "$a"}, "pipeline": [{"$set": {"n": "$$n"}}]}
    }
    results([stage], [{"a": number} for number in range(10)], foreign=foreign)
    assert foreign.scans == ["c", "c"]


def test_pipeline_with_variables() -> None:
    stage = {
        "$lookup": {
            "from": "stock",
            "let": {"item": "$item", "wanted": "$quantity"},
            "pipeline": [
                {
                    "$match": {
                        "$expr": {"$and": [{"$eq": ["$item", "$$item"]}, {"$gte": ["$left", "$$wanted"]}]}
                    }
                },
                {"$project": {"_id": 0, "left": 1, "more": {"$subtract": ["$left", "$$wanted"]}}},
                {"$sort": {"left": -1}},
            ],
            "as": "stock",
        }
    }
    stock = [{"item": "nut", "left": 5}, {"item": "bolt", "left": 1}, {"item": "nut", "left": 9}]
    documents = [{"item": "nut", "quantity": 2}, {"item": "bolt", "quantity": 2}]
    expected = [
        {"item": "nut", "quantity": 2, "stock": [{"left": 9, "more": 7}, {"left": 5, "more": 3}]},
        {"item": "bolt", "quantity": 2, "stock": []},
    ]
    assert_results([stage], documents, expected, foreign={"stock": stock})


def test_missing_variables_stay_missing() -> None:
    stage = {
        "$lookup": {
            "from": "c",
            "let": {"v": "$v"},
            "pipeline": [{"$project": {"t": {"$type": "$$v"}}}],
            "as": "x",
        }
    }
    assert_results([stage], [{}], [{"x": [{"t": "missing"}]}], foreign={"c": [{}]})


def test_equality_and_pipeline() -> None:
    stage = equality(let={"least": "$least"}, pipeline=[{"$match": {"$expr": {"$gte": ["$n", "$$least"]}}}])
    foreign = {"c": [{"b": 1, "n": 1}, {"b": 1, "n": 5}, {"b": 2, "n": 9}]}
    expected = [{"a": 1, "least": 3, "found": [{"b": 1, "n": 5}]}]
    assert_results([stage], [{"a": 1, "least": 3}], expected, foreign=foreign)


def test_nested_lookups_can_use_the_variables_of_outer_ones() -> None:
    stage = {
        "$lookup": {
            "from": "b",
            "let": {"outer": "$n"},
            "pipeline": [
                {
                    "$lookup": {
                        "from": "c",
                        "let": {"inner": "$m"},
                        "pipeline": [{"$project": {"_id": 0, "sum": {"$add": ["$k", "$$outer", "$$inner"]}}}],
                        "as": "cs",
                    }
                },
                {"$project": {"_id": 0, "cs": 1, "outer": "$$outer"}},
            ],
            "as": "bs",
        }
    }
    foreign = Collections({"b": [{"m": 10}, {"m": 20}], "c": [{"k": 100}]})
    expected = [
        {"n": n, "bs": [{"cs": [{"sum": 110 + n}], "outer": n}, {"cs": [{"sum": 120 + n}], "outer": n}]}
        for n in (1, 2)
    ]
    assert_results([stage], [{"n": 1}, {"n": 2}], expected, foreign=foreign)
    assert foreign.scans == ["b", "c"]


def test_a_pipeline_that_does_not_use_the_document_runs_once() -> None:
    foreign = Collections({"c": [{"n": 1}, {"n": 2}]})
    stage = {
        "$lookup": {"from": "c", "pipeline": [{"$group": {"_id": None, "s": {"$sum": "$n"}}}], "as": "x"}
    }
    expected = [{"a": a, "x": [{"_id": None, "s": 3}]} for a in (1, 2)]
    assert_results([stage], [{"a": 1}, {"a": 2}], expected, foreign=foreign)
    stage = {"$lookup": {"from": "c", "pipeline": [{"$project": {"r": {"$rand": {}}}}], "as": "x"}}
    first, second = results([stage], [{"a": 1}, {"a": 2}], foreign=foreign)
    assert first["x"] != second["x"]


def test_documents_instead_of_a_collection() -> None:
    stage = {"$lookup": {"pipeline": [{"$documents": [{"n": 1}, {"n": 2}]}, {"$match": {"n": 2}}], "as": "x"}}
    assert_results([stage], [{"a": 1}], [{"a": 1, "x": [{"n": 2}]}])


ERRORS: list[tuple[Any, int]] = [
    (1, 9),
    ({"from": "c", "localField": "a", "foreignField": "b"}, 9),
    ({"localField": "a", "foreignField": "b", "as": "x"}, 9),
    ({"from": "c", "as": "x"}, 9),
    ({"from": "c", "localField": "a", "as": "x"}, 9),
    ({"from": "c", "foreignField": "a", "as": "x", "pipeline": []}, 9),
    ({"from": "c", "localField": "a", "foreignField": "b", "as": "x", "let": {}}, 9),
    ({"from": "c", "as": "x", "pipeline": [], "other": 1}, 9),
    ({"from": 1, "as": "x", "pipeline": []}, 9),
    ({"from": {"db": "d", "coll": "c"}, "as": "x", "pipeline": []}, 9),
    ({"from": "c", "as": 1, "pipeline": []}, 9),
    ({"from": "c", "as": "x", "pipeline": [], "let": 1}, 9),
    ({"from": "c", "as": "x", "pipeline": {}}, 14),
    ({"from": "", "as": "x", "pipeline": []}, 73),
    ({"from": "c", "as": "$x", "pipeline": []}, 16410),
    ({"from": "c", "as": "x", "localField": "$a", "foreignField": "b"}, 16410),
    ({"from": "c", "as": "x", "localField": "a", "foreignField": "$b"}, 16410),
    ({"from": "c", "as": "x", "pipeline": [], "let": {"Upper": 1}}, 9),
    ({"from": "c", "as": "x", "pipeline": [{"$nothing": 1}]}, 40324),
    ({"from": "c", "as": "x", "pipeline": [{"$match": {"$expr": "$$unknown"}}]}, 17276),
]


@pytest.mark.parametrize(("spec", "code"), ERRORS)
def test_errors(spec: Any, code: int) -> None:
    assert_code([{"$lookup": spec}], code, [{"a": 1}])
