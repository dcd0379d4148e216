"""`$setWindowFields`: partitions, windows by documents and by range, every function, and errors."""

import math
from typing import Any

import pytest
from bson import DatetimeMS, Decimal128, Int64

from tailrace.query.collation import Collation
from tests.mongod.language.aggregation.pipeline_helpers import assert_code, assert_results, results

SECOND, DAY = 1000, 86_400_000


def window(spec: dict[str, Any], documents: list[dict[str, Any]], **more: Any) -> list[Any]:
    """The field that a function computes, in the order of x."""
    stage = {"$setWindowFields": {"sortBy": {"x": 1}, "output": {"r": spec}, **more}}
    return [document["r"] for document in results([stage], documents)]


def at(*values: Any) -> list[dict[str, Any]]:
    return [{"x": value} for value in values]


def points(**values: list[Any]) -> list[dict[str, Any]]:
    return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]


def test_partitions_and_order() -> None:
    stage = {
        "$setWindowFields": {
            "partitionBy": "$k",
            "sortBy": {"x": -1},
            "output": {"sum": {"$sum": "$x", "window": {"documents": ["unbounded", "current"]}}},
        }
    }
    documents = [{"k": "b", "x": 1}, {"k": "a", "x": 2}, {"k": "a", "x": 3}, {"x": 5}, {"k": None, "x": 4}]
    expected = [
        {"x": 5, "sum": 5},
        {"k": None, "x": 4, "sum": 9},
        {"k": "a", "x": 3, "sum": 3},
        {"k": "a", "x": 2, "sum": 5},
        {"k": "b", "x": 1, "sum": 1},
    ]
    assert_results([stage], documents, expected)


def test_the_default_window_is_all_documents() -> None:
    stage = {"$setWindowFields": {"output": {"n": {"$count": {}}, "all": {"$push": "$x"}}}}
    expected = [{"x": 2, "n": 2, "all": [2, 1]}, {"x": 1, "n": 2, "all": [2, 1]}]
    assert_results([stage], at(2, 1), expected)
    assert_results([{"$setWindowFields": {"output": {}}}], at(2, 1), at(2, 1))


def test_partition_by_expression_and_collation() -> None:
    stage = {"$setWindowFields": {"partitionBy": {"$toLower": "$k"}, "output": {"n": {"$sum": 1}}}}
    expected = [{"k": "A", "n": 2}, {"k": "a", "n": 2}, {"k": "b", "n": 1}]
    assert_results([stage], [{"k": "b"}, {"k": "A"}, {"k": "a"}], expected)
    stage = {"$setWindowFields": {"partitionBy": "$k", "output": {"n": {"$sum": 1}}}}
    collation = Collation.parse({"locale": "en", "strength": 2})
    assert_results([stage], [{"k": "b"}, {"k": "A"}, {"k": "a"}], expected, collation=collation)
    assert_code([stage], 14, [{"k": [1]}])


def test_output_paths() -> None:
    stage = {"$setWindowFields": {"output": {"a.b": {"$sum": "$x"}, "a.c": {"$max": "$x"}}}}
    documents = [{"x": 1, "a": {"z": 0}}, {"x": 2, "a": [5, {"b": 9}]}]
    expected = [
        {"x": 1, "a": {"z": 0, "b": 3, "c": 2}},
        {"x": 2, "a": [{"b": 3, "c": 2}, {"b": 3, "c": 2}]},
    ]
    assert_results([stage], documents, expected)


DOCUMENT_WINDOWS: list[tuple[list[Any], list[list[int]]]] = [
    (["unbounded", "unbounded"], [[1, 2, 3, 4]] * 4),
    (["unbounded", "current"], [[1], [1, 2], [1, 2, 3], [1, 2, 3, 4]]),
    (["current", "unbounded"], [[1, 2, 3, 4], [2, 3, 4], [3, 4], [4]]),
    (["current", "current"], [[1], [2], [3], [4]]),
    ([-1, 1], [[1, 2], [1, 2, 3], [2, 3, 4], [3, 4]]),
    ([-1, 0], [[1], [1, 2], [2, 3], [3, 4]]),
    ([1, 2], [[2, 3], [3, 4], [4], []]),
    ([-2, -1], [[], [1], [1, 2], [2, 3]]),
    ([5, 9], [[], [], [], []]),
    (["unbounded", -1], [[], [1], [1, 2], [1, 2, 3]]),
    ([1, "unbounded"], [[2, 3, 4], [3, 4], [4], []]),
    ([{"$add": [-1, 0]}, 1.0], [[1, 2], [1, 2, 3], [2, 3, 4], [3, 4]]),
]


@pytest.mark.parametrize(("bounds", "expected"), DOCUMENT_WINDOWS)
def test_windows_of_documents(bounds: list[Any], expected: list[list[int]]) -> None:
    assert window({"$push": "$x", "window": {"documents": bounds}}, at(3, 1, 4, 2)) == expected


RANGE_WINDOWS: list[tuple[list[Any], list[list[float]]]] = [
    ([-1, 0], [[0], [0, 1], [1, 1.5], [1, 1.5, 2], [100, 100], [100, 100]]),
    (["unbounded", 0], [[0], [0, 1], [0, 1, 1.5], [0, 1, 1.5, 2], [0, 1, 1.5, 2, 100, 100]]),
    ([99, "unbounded"], [[100, 100], [100, 100], [], [], [], []]),
    (["current", "current"], [[0], [1], [1.5], [2], [100], [100]]),
    (["current", 1], [[0, 1], [1, 1.5, 2], [1.5, 2], [2], [100, 100], [100]]),
    ([-98, "current"], [[0], [0, 1], [0, 1, 1.5], [0, 1, 1.5, 2], [2, 100], [2, 100, 100]]),
    ([-1, -1], [[], [0], [], [1], [], []]),
    ([Decimal128("-0.5"), 0.5], [[0], [1, 1.5], [1, 1.5, 2], [1.5, 2], [100, 100], [100, 100]]),
]


@pytest.mark.parametrize(("bounds", "expected"), RANGE_WINDOWS)
def test_windows_of_ranges(bounds: list[Any], expected: list[list[float]]) -> None:
    found = window({"$push": "$x", "window": {"range": bounds}}, at(0, 1, 1.5, 2, 100, 100))
    assert found[: len(expected)] == expected


def test_windows_of_time() -> None:
    documents = at(*(DatetimeMS(days * DAY) for days in (0, 1, 31, 59)))
    spec = {"$count": {}, "window": {"range": [-1, 0], "unit": "month"}}
    assert window(spec, documents) == [1, 2, 3, 2]
    spec = {"$count": {}, "window": {"range": [-1, 1], "unit": "day"}}
    assert window(spec, documents) == [2, 2, 1, 1]


ACCUMULATED: list[tuple[dict[str, Any], list[Any]]] = [
    ({"$sum": "$x"}, [1, 3, 6, 9]),
    ({"$avg": "$x"}, [1.0, 1.5, 2.0, 3.0]),
    ({"$min": "$x"}, [1, 1, 1, 2]),
    ({"$max": "$x"}, [1, 2, 3, 4]),
    ({"$first": "$x"}, [1, 1, 1, 2]),
    ({"$last": "$x"}, [1, 2, 3, 4]),
    ({"$addToSet": {"$mod": ["$x", 2]}}, [[1], [1, 0], [1, 0], [0, 1]]),
    ({"$stdDevSamp": "$x"}, [None, math.sqrt(0.5), 1.0, 1.0]),
    ({"$maxN": {"input": "$x", "n": 2}}, [[1], [2, 1], [3, 2], [4, 3]]),
    ({"$topN": {"sortBy": {"x": -1}, "output": "$x", "n": 1}}, [[1], [2], [3], [4]]),
    ({"$median": {"input": "$x", "method": "approximate"}}, [1.0, 1.0, 2.0, 3.0]),
    ({"$covariancePop": ["$x", {"$multiply": ["$x", 2]}]}, [0.0, 0.5, 4 / 3, 4 / 3]),
    ({"$covarianceSamp": ["$x", "$x"]}, [None, 0.5, 1.0, 1.0]),
    ({"$covariancePop": ["$x", "text"]}, [None, None, None, None]),
    ({"$covariancePop": "$x"}, [None, None, None, None]),
    ({"$first": "$missing"}, [None, None, None, None]),
]


@pytest.mark.parametrize(("spec", "expected"), ACCUMULATED)
def test_accumulators_over_the_last_three(spec: dict[str, Any], expected: list[Any]) -> None:
    found = window({**spec, "window": {"documents": [-2, 0]}}, at(1, 2, 3, 4))
    assert [pytest.approx(item) if isinstance(item, float) else item for item in expected] == found


def test_ranks() -> None:
    documents = at(1, None, 2, 1, None, 3)
    documents[1] = {}
    assert window({"$documentNumber": {}}, documents) == [1, 2, 3, 4, 5, 6]
    assert window({"$rank": {}}, documents) == [1, 1, 3, 3, 5, 6]
    assert window({"$denseRank": {}}, documents) == [1, 1, 2, 2, 3, 4]
    many = {"$setWindowFields": {"sortBy": {"a": 1, "b": -1}, "output": {"r": {"$rank": {}}}}}
    assert_code([many], 5371602)


def test_shift() -> None:
    documents = at(1, 2, 3)
    assert window({"$shift": {"output": "$x", "by": 1}}, documents) == [2, 3, None]
    assert window({"$shift": {"output": "$x", "by": -1, "default": "none"}}, documents) == ["none", 1, 2]
    assert window({"$shift": {"output": "$x", "by": 0.0}}, documents) == [1, 2, 3]
    spec = {"$shift": {"output": "$y", "by": 1, "default": {"$add": [1, 1]}}}
    assert window(spec, documents) == [2, 2, 2]


def test_derivative() -> None:
    documents = points(x=[0, 1, 3, 3], y=[0, 42, 67, 70])
    spec = {"$derivative": {"input": "$y"}, "window": {"documents": [-1, 0]}}
    assert window(spec, documents) == [None, 42.0, 12.5, None]
    spec = {"$derivative": {"input": "$y"}, "window": {"documents": [5, 6]}}
    assert window(spec, documents) == [None] * 4
    documents = points(x=[DatetimeMS(n * SECOND) for n in (0, 1, 3)], y=[5, 4, None])
    spec = {"$derivative": {"input": "$y", "unit": "minute"}, "window": {"documents": [-1, 0]}}
    assert window(spec, documents) == [None, -60.0, None]


def test_integral() -> None:
    documents = points(x=[0, 2, 4, 6], y=[100, 105, 107, -100])
    spec: dict[str, Any] = {"$integral": {"input": "$y"}, "window": {"documents": [-1, 0]}}
    assert window(spec, documents) == [0, 205.0, 212.0, 7.0]
    assert window({"$integral": {"input": "$y"}}, documents) == [424.0] * 4
    spec = {"$integral": {"input": "$y"}, "window": {"documents": [5, 6]}}
    assert window(spec, documents) == [None] * 4
    documents = points(x=[DatetimeMS(n) for n in (0, 2, 4, 6)], y=[0, 2, 4, 6])
    spec = {"$integral": {"input": "$y", "unit": "second"}, "window": {"documents": [-1, 1]}}
    assert window(spec, documents) == [0.002, 0.008, 0.016, 0.01]


def test_exponential_moving_average() -> None:
    documents = points(x=[1, 2, 3, 4], y=["text", 10, 20, 30])
    assert window({"$expMovingAvg": {"input": "$y", "N": 3}}, documents) == [None, 10, 15.0, 22.5]
    assert window({"$expMovingAvg": {"input": "$y", "alpha": 0.25}}, documents) == [None, 10, 12.5, 16.875]
    documents = points(x=[1, 2], y=[Decimal128("1"), Decimal128("2")])
    spec = {"$expMovingAvg": {"input": "$y", "alpha": Decimal128("0.1")}}
    assert window(spec, documents) == [Decimal128("1"), Decimal128("1.1")]


def test_fills() -> None:
    documents = points(x=[0, 1, 2, 9, 10, 11], y=[None, 1, None, None, 10, None])
    assert window({"$locf": "$y"}, documents) == [None, 1, 1, 1, 10, 10]
    assert window({"$linearFill": "$y"}, documents) == [None, 1, 2.0, 9.0, 10, None]
    documents = points(x=[0.5, 1, 4.384, 9, 10.09283], y=[0, None, None, None, 11.28374])
    expected = [0, 0.5881340542884634, 4.5686253337127845, 9.998278922903879, 11.28374]
    assert window({"$linearFill": "$y"}, documents) == expected
    documents = points(x=[DatetimeMS(n * DAY) for n in (0, 1, 4)], y=[1, None, 5])
    assert window({"$linearFill": "$y"}, documents) == [1, 2.0, 5]


FILL_ERRORS: list[tuple[list[dict[str, Any]], int]] = [
    (points(x=[1, 1], y=[1, None]), 6050106),
    (points(x=[None, 1], y=[1, None]), 14),
    (points(x=[1, DatetimeMS(1)], y=[1, None]), 14),
    (points(x=[1, 2], y=["text", None]), 14),
]


@pytest.mark.parametrize(("documents", "code"), FILL_ERRORS)
def test_linear_fill_errors(documents: list[dict[str, Any]], code: int) -> None:
    stage = {"$setWindowFields": {"sortBy": {"x": 1}, "output": {"r": {"$linearFill": "$y"}}}}
    assert_code([stage], code, documents)


STAGE_ERRORS: list[tuple[Any, int]] = [
    ("x", 9),
    ({}, 40414),
    ({"output": {}, "other": 1}, 40415),
    ({"output": {}, "sortBy": "x"}, 14),
    ({"output": "x"}, 14),
    ({"output": {}, "partitionBy": {"$nothing": 1}}, 168),
    ({"output": {"a": {"$sum": 1}, "a.b": {"$sum": 1}}}, 6307900),
    ({"output": {"$a": {"$sum": 1}}}, 16410),
    ({"output": {"v": {"$sum": "$a", "window": {"documents": ["unbounded", "current"]}}}}, 5339901),
    ({"output": {"v": {"$sum": "$a", "window": {"range": ["unbounded", "unbounded"]}}}}, 5339902),
    ({"sortBy": {"a": 1, "b": 1}, "output": {"v": {"$sum": 1, "window": {"range": [0, 1]}}}}, 5339902),
    ({"sortBy": {"a": -1}, "output": {"v": {"$sum": 1, "window": {"range": [0, 1]}}}}, 8947401),
    ({"output": {"v": {"$rank": {}}}}, 5371602),
    ({"output": {"v": {"$shift": {"by": 1, "output": "$x"}}}}, 9),
    ({"output": {"v": {"$expMovingAvg": {"input": "$x", "N": 1}}}}, 9),
    ({"output": {"v": {"$linearFill": "$x"}}}, 605001),
    ({"sortBy": {"a": 1, "b": 1}, "output": {"v": {"$linearFill": "$x"}}}, 605001),
]


@pytest.mark.parametrize(("spec", "code"), STAGE_ERRORS)
def test_stage_errors(spec: Any, code: int) -> None:
    assert_code([{"$setWindowFields": spec}], code)


FUNCTION_ERRORS: list[tuple[Any, int]] = [
    (1, 9),
    ({}, 9),
    ({"sum": "$x"}, 9),
    ({"$summ": "$x"}, 9),
    ({"$sum": "$x", "abcde": 1}, 9),
    ({"$sum": "$x", "window": 1}, 9),
    ({"$sum": "$x", "window": {"other": 1}}, 9),
    ({"$sum": "$x", "window": {"documents": [0, 1], "range": [0, 1]}}, 9),
    ({"$sum": "$x", "window": {"documents": [0, 1], "unit": "day"}}, 9),
    ({"$sum": "$x", "window": {"unit": "day"}}, 9),
    ({"$sum": "$x", "window": {"documents": [0]}}, 9),
    ({"$sum": "$x", "window": {"documents": 1}}, 9),
    ({"$sum": "$x", "window": {"documents": ["other", 1]}}, 9),
    ({"$sum": "$x", "window": {"documents": [{"$const": "current"}, 3]}}, 9),
    ({"$sum": "$x", "window": {"documents": ["$x", 3]}}, 9),
    ({"$sum": "$x", "window": {"documents": [0.5, 3]}}, 9),
    ({"$sum": "$x", "window": {"range": [0.5, 3], "unit": "day"}}, 9),
    ({"$sum": "$x", "window": {"range": [0, 3], "unit": "fortnight"}}, 9),
    ({"$sum": "$x", "window": {"range": [0, 3], "unit": 1}}, 9),
    ({"$sum": "$x", "window": {"documents": [1, -1]}}, 5339900),
    ({"$sum": "$x", "window": {"range": ["current", -1]}}, 5339900),
    ({"$sum": "$x", "window": {"range": [1, "current"], "unit": "day"}}, 5339900),
    ({"$rank": {}, "window": {"documents": [0, 1]}}, 5371601),
    ({"$rank": "$x"}, 5371603),
    ({"$shift": {"output": "$x"}}, 9),
    ({"$shift": {"by": 1}}, 9),
    ({"$shift": {"by": "1", "output": "$x"}}, 9),
    ({"$shift": {"by": 1.1, "output": "$x"}}, 9),
    ({"$shift": {"by": 1, "output": "$x", "default": "$x"}}, 9),
    ({"$derivative": {"input": "$x"}}, 9),
    ({"$derivative": {"input": "$x", "unit": "month"}, "window": {"documents": [-1, 0]}}, 5490710),
    ({"$integral": {"input": "$x", "unit": "year"}}, 5490710),
    ({"$integral": {"other": 1}}, 9),
    ({"$expMovingAvg": {"input": "$x", "N": 1, "alpha": 0.5}}, 9),
    ({"$expMovingAvg": {"input": "$x"}}, 9),
    ({"$expMovingAvg": {"input": "$x", "N": 0.5}}, 9),
    ({"$expMovingAvg": {"input": "$x", "alpha": 1.0}}, 9),
    ({"$expMovingAvg": {"input": "$x", "alpha": 0}}, 9),
    ({"$expMovingAvg": "$x"}, 9),
    ({"$linearFill": {}, "window": {}}, 9),
    ({"$locf": "$x", "window": {}}, 9),
]


@pytest.mark.parametrize(("spec", "code"), FUNCTION_ERRORS)
def test_function_errors(spec: Any, code: int) -> None:
    assert_code([{"$setWindowFields": {"sortBy": {"x": 1}, "output": {"r": spec}}}], code)


RANGE_VALUE_ERRORS: list[tuple[Any, dict[str, Any], int]] = [
    (None, {"$sum": 1, "window": {"range": ["unbounded", "unbounded"]}}, 5429414),
    (DatetimeMS(0), {"$sum": 1, "window": {"range": [0, 1]}}, 5429413),
    (0, {"$sum": 1, "window": {"range": [0, 1], "unit": "day"}}, 5429513),
    (0, {"$derivative": {"input": "$x", "unit": "day"}, "window": {"documents": [-1, 0]}}, 5624900),
    (DatetimeMS(0), {"$derivative": {"input": "$x"}, "window": {"documents": [-1, 0]}}, 5624901),
    ("text", {"$derivative": {"input": "$x"}, "window": {"documents": [-1, 0]}}, 5624902),
    (0, {"$integral": {"input": "$x", "unit": "day"}}, 5423901),
    (DatetimeMS(0), {"$integral": {"input": {"$add": [1, 1]}}}, 5423902),
    (0, {"$integral": {"input": "text"}}, 5423900),
]


@pytest.mark.parametrize(("value", "spec", "code"), RANGE_VALUE_ERRORS)
def test_values_of_wrong_types(value: Any, spec: dict[str, Any], code: int) -> None:
    assert_code([{"$setWindowFields": {"sortBy": {"x": 1}, "output": {"r": spec}}}], code, at(value, value))


def test_types_over_windows_that_move() -> None:
    """Values that leave a window take their type with them."""
    documents = [{"x": number, "v": Int64(number)} for number in (1, 2)]
    moving = {"window": {"documents": [0, 0]}}
    assert [type(value) for value in window({"$sum": "$v", **moving}, documents)] == [int, int]
    assert [type(value) for value in window({"$stdDevPop": "$v", **moving}, documents)] == [int, int]
    growing = {"window": {"documents": ["unbounded", "current"]}}
    assert [type(value) for value in window({"$sum": "$v", **growing}, documents)] == [Int64, Int64]


def test_a_moving_average_over_gaps() -> None:
    documents = [{"x": 1}, {"x": 2, "v": 4}, {"x": 3}, {"x": 4, "v": 8}]
    spec = {"$expMovingAvg": {"input": "$v", "alpha": 0.5}}
    assert repr(window(spec, documents)) == "[None, 4.0, 4.0, 6.0]"
