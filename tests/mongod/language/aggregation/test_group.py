"""`$group` and its accumulators: values with their types, and errors with their codes."""

import math
from typing import Any

import pytest
from bson import Decimal128, Int64
from hypothesis import given
from hypothesis import strategies as st

from tailrace.bson.values import Undefined
from tests.mongod.language.aggregation.pipeline_helpers import assert_code, assert_results, results


def accumulate(accumulator: dict[str, Any], values: list[Any]) -> Any:
    """The result of an accumulator over documents with these values in the field v."""
    (group,) = results([{"$group": {"_id": None, "r": accumulator}}], [{"v": value} for value in values])
    return group["r"]


DECIMAL_TENTH = Decimal128("0.1")

VALUES: list[tuple[str, list[Any], Any]] = [
    ("$sum", [1, 2, 3], 6),
    ("$sum", [], 0),
    ("$sum", ["x", None, True, {"a": 1}], 0),
    ("$sum", [2**31 - 1, 1], Int64(2**31)),
    ("$sum", [Int64(1), 1], Int64(2)),
    ("$sum", [Int64(2**63 - 1), 1], float(2**63)),
    ("$sum", [1, 2.5], 3.5),
    ("$sum", [0.1] * 10, 1.0),
    ("$sum", [1e100, 1.0, -1e100], 1.0),
    ("$sum", [Int64(2**53), 1, 0.5], 9007199254740993.5),
    ("$sum", [math.inf, 1.0], math.inf),
    ("$sum", [1e308, 1e308], math.inf),
    ("$sum", [DECIMAL_TENTH, 1], Decimal128("1.1")),
    ("$sum", [DECIMAL_TENTH, 0.5], Decimal128("0.6")),
    ("$avg", [1, 2, 4, "x"], 7 / 3),
    ("$avg", [1, 3], 2.0),
    ("$avg", ["x"], None),
    ("$avg", [DECIMAL_TENTH, DECIMAL_TENTH], DECIMAL_TENTH),
    ("$min", [3, None, 1.0, "x"], 1.0),
    ("$min", [None, Undefined()], None),
    ("$max", [3, None, 1.0, "x"], "x"),
    ("$max", [1, 1.0], 1),
    ("$first", [3, 1], 3),
    ("$first", [None, 1], None),
    ("$last", [3, 1], 1),
    ("$push", [3, None, "x", 3], [3, None, "x", 3]),
    ("$addToSet", [3, 3.0, None, "x", None], [3, None, "x"]),
    ("$stdDevPop", [1, 3, "x"], 1.0),
    ("$stdDevPop", [], None),
    ("$stdDevSamp", [1, 3], math.sqrt(2)),
    ("$stdDevSamp", [1], None),
    ("$mergeObjects", [{"a": 1, "b": 1}, None, {"b": 2, "c": 3}], {"a": 1, "b": 2, "c": 3}),
    ("$mergeObjects", [None], {}),
    ("$concatArrays", [[1], [2, 1]], [1, 2, 1]),
    ("$setUnion", [[1, 2], [2.0, 3]], [1, 2, 3]),
]


@pytest.mark.parametrize(("name", "values", "expected"), VALUES)
def test_accumulators_of_one_expression(name: str, values: list[Any], expected: Any) -> None:
    if not values:
        # A group always has documents; this one has none with the field.
        values = [None]
    assert repr(accumulate({name: "$v"}, values)) == repr(expected)


def test_sum_with_nan() -> None:
    assert math.isnan(accumulate({"$sum": "$v"}, [math.inf, -math.inf]))
    assert math.isnan(accumulate({"$sum": "$v"}, [math.nan, 1]))


SELECTIONS: list[tuple[dict[str, Any], list[Any], Any]] = [
    ({"$count": {}}, [1, 2, None], 3),
    ({"$firstN": {"input": "$v", "n": 2}}, [3, None, 1], [3, None]),
    ({"$firstN": {"input": "$w", "n": 2}}, [3, 1, 2], [None, None]),
    ({"$firstN": {"input": "$v", "n": 9}}, [3, 1], [3, 1]),
    ({"$lastN": {"input": "$v", "n": 2}}, [3, None, 1], [None, 1]),
    ({"$minN": {"input": "$v", "n": 2}}, [3, None, 1, 2], [1, 2]),
    ({"$maxN": {"input": "$v", "n": 2}}, [3, None, 1, 2], [3, 2]),
    ({"$maxN": {"input": "$v", "n": Int64(2)}}, [None], []),
    ({"$top": {"sortBy": {"v": 1}, "output": "$v"}}, [3, 1, 2], 1),
    ({"$bottom": {"sortBy": {"v": 1}, "output": "$v"}}, [3, 1, 2], 3),
    ({"$topN": {"sortBy": {"v": -1}, "output": ["$v"], "n": 2}}, [3, 1, 2], [[3], [2]]),
    ({"$bottomN": {"sortBy": {"v": 1}, "output": "$v", "n": 2}}, [3, 1, 2], [2, 3]),
    ({"$topN": {"sortBy": {"v": 1}, "output": "$w", "n": 2}}, [3, 1, 2], [None, None]),
    ({"$median": {"input": "$v", "method": "approximate"}}, [3, 1, "x", 2], 2.0),
    ({"$median": {"input": "$v", "method": "approximate"}}, ["x"], None),
    ({"$percentile": {"input": "$v", "method": "approximate", "p": [0.5, 1]}}, [4, 1, 2, 3], [2.0, 4.0]),
    ({"$percentile": {"input": "$v", "method": "approximate", "p": [0.5]}}, ["x"], [None]),
    ({"$sum": {"$multiply": ["$v", 2]}}, [1, 2], 6),
    ({"$push": {"twice": {"$multiply": ["$v", 2]}}}, [1, 2], [{"twice": 2}, {"twice": 4}]),
]


@pytest.mark.parametrize(("accumulator", "values", "expected"), SELECTIONS)
def test_other_accumulators(accumulator: dict[str, Any], values: list[Any], expected: Any) -> None:
    assert repr(accumulate(accumulator, values)) == repr(expected)


def test_missing_fields() -> None:
    stage = {
        "$group": {
            "_id": "$k",
            "push": {"$push": "$v"},
            "set": {"$addToSet": "$v"},
            "first": {"$first": "$v"},
            "min": {"$min": "$v"},
            "merged": {"$mergeObjects": "$v"},
        }
    }
    expected: list[Any] = [{"_id": None, "push": [], "set": [], "first": None, "min": None, "merged": {}}]
    assert_results([stage], [{}, {"k": None}], expected)


def test_groups_by_value() -> None:
    documents = [{"k": 1}, {"k": "x"}, {"k": 1.0}, {"k": Decimal128("1.00")}, {}, {"k": None}, {"k": [1]}]
    expected = [
        {"_id": 1, "n": 3},
        {"_id": "x", "n": 1},
        {"_id": None, "n": 2},
        {"_id": [1], "n": 1},
    ]
    assert_results([{"$group": {"_id": "$k", "n": {"$sum": 1}}}], documents, expected)


def test_groups_by_documents_distinguish_missing_and_null() -> None:
    documents = [{"a": 1, "b": 2}, {"a": 1}, {"a": 1, "b": None}, {"b": 2, "a": 1}]
    expected = [
        {"_id": {"x": 1, "y": 2}, "n": 2},
        {"_id": {"x": 1}, "n": 1},
        {"_id": {"x": 1, "y": None}, "n": 1},
    ]
    stage = {"$group": {"_id": {"x": "$a", "y": "$b"}, "n": {"$count": {}}}}
    assert_results([stage], documents, expected)


def test_a_document_of_one_field_does_not_distinguish_them() -> None:
    found = results([{"$group": {"_id": {"k": "$k"}, "n": {"$sum": 1}}}], [{}, {"k": None}, {"k": 1}])
    assert found == [{"_id": {"k": None}, "n": 2}, {"_id": {"k": 1}, "n": 1}]
    found = results([{"$group": {"_id": {"k": {"l": "$k"}}}}], [{}, {"k": None}])
    assert found == [{"_id": {"k": {}}}, {"_id": {"k": {"l": None}}}]


def test_first_is_not_evaluated_again() -> None:
    stage = {"$group": {"_id": None, "r": {"$first": {"$divide": [1, "$v"]}}}}
    assert results([stage], [{"v": 2}, {"v": 0}]) == [{"_id": None, "r": 0.5}]


def test_no_documents_give_no_groups() -> None:
    assert_results([{"$group": {"_id": None, "n": {"$sum": 1}}}], [], [])


def test_n_may_depend_on_the_group() -> None:
    stage = {
        "$group": {
            "_id": {"k": "$k"},
            "r": {"$firstN": {"input": "$v", "n": {"$cond": [{"$eq": ["$k", "a"]}, 2, 1]}}},
        }
    }
    documents = [{"k": k, "v": v} for k in "ab" for v in (1, 2, 3)]
    assert_results([stage], documents, [{"_id": {"k": "a"}, "r": [1, 2]}, {"_id": {"k": "b"}, "r": [1]}])


ERRORS: list[tuple[Any, int]] = [
    (1, 15947),
    ({"n": {"$sum": 1}}, 15955),
    ({"_id": None, "n": 1}, 40234),
    ({"_id": None, "n": {}}, 40234),
    ({"_id": None, "n": {"$sum": 1, "$avg": 1}}, 40238),
    ({"_id": None, "a.b": {"$sum": 1}}, 40235),
    ({"_id": None, "$a": {"$sum": 1}}, 40236),
    ({"_id": None, "n": {"$sum": [1, 2]}}, 40237),
    ({"_id": None, "n": {"$nothing": 1}}, 15952),
    ({"_id": None, "n": {"$accumulator": {}}}, 115),
    ({"_id": None, "n": {"$count": 1}}, 14),
    ({"_id": {"$nothing": 1}}, 168),
    ({"_id": None, "n": {"$firstN": 1}}, 5787801),
    ({"_id": None, "n": {"$firstN": {"input": "$v"}}}, 5787906),
    ({"_id": None, "n": {"$firstN": {"n": 1}}}, 5787907),
    ({"_id": None, "n": {"$firstN": {"input": "$v", "n": 1, "x": 1}}}, 5787901),
    ({"_id": None, "n": {"$firstN": {"input": "$v", "n": "x"}}}, 5787902),
    ({"_id": None, "n": {"$firstN": {"input": "$v", "n": 0}}}, 5787908),
    ({"_id": {"x": 1}}, 17390),
    ({"_id": {"x": "$v", "y": True}}, 17390),
    ({"_id": None, "n": {"$nope": [1]}}, 40237),
    ({"_id": None, "n": {"$top": {"output": "$v"}}}, 5788005),
    ({"_id": None, "n": {"$top": {"sortBy": {"v": 1}}}}, 5788004),
    ({"_id": None, "n": {"$topN": {"sortBy": {"v": 1}, "output": "$v"}}}, 5788003),
    ({"_id": None, "n": {"$top": {"sortBy": {"v": 1}, "output": "$v", "n": 1}}}, 5788002),
    ({"_id": None, "n": {"$top": {"sortBy": {}, "output": "$v"}}}, 9657900),
    ({"_id": None, "n": {"$top": {"sortBy": 1, "output": "$v"}}}, 10065),
    ({"_id": None, "n": {"$median": {"input": "$v", "method": "exact"}}}, 2),
    ({"_id": None, "n": {"$percentile": {"input": "$v", "method": "approximate", "p": [2]}}}, 7750303),
    ({"_id": None, "n": {"$mergeObjects": "$v"}}, 40400),
    ({"_id": None, "n": {"$concatArrays": "$v"}}, 14),
    ({"_id": None, "n": {"$setUnion": "$v"}}, 14),
]


@pytest.mark.parametrize(("spec", "code"), ERRORS)
def test_errors(spec: Any, code: int) -> None:
    assert_code([{"$group": spec}], code, [{"v": 1}])


_EIGHTHS = st.integers(-(10**6), 10**6).map(lambda number: number / 8)


@given(st.lists(st.one_of(st.integers(-(2**31), 2**31 - 1), _EIGHTHS), min_size=1))
def test_group_and_expression_agree(values: list[Any]) -> None:
    """Accumulators that exist in both forms have the same results with the same types."""
    names = ("$sum", "$avg", "$min", "$max", "$stdDevPop", "$stdDevSamp")
    documents = [{"v": value} for value in values]
    (grouped,) = results([{"$group": {"_id": None, **{n[1:]: {n: "$v"} for n in names}}}], documents)
    (computed,) = results([{"$project": {"_id": None, **{n[1:]: {n: "$v"} for n in names}}}], [{"v": values}])
    assert repr(grouped) == repr({"_id": None, **computed})
