"""`$densify` and `$fill`."""

from typing import Any

import pytest
from bson import DatetimeMS, Decimal128

from tests.mongod.language.aggregation.pipeline_helpers import assert_code, assert_results, results

DAY = 86_400_000


def densify(documents: list[dict[str, Any]], **spec: Any) -> list[dict[str, Any]]:
    return results([{"$densify": {"field": "v", **spec}}], documents)


def values(documents: list[dict[str, Any]]) -> list[Any]:
    return [document.get("v") for document in documents]


def of(*found: Any) -> list[dict[str, Any]]:
    return [{"v": value} for value in found]


def span(step: Any, bounds: Any, **more: Any) -> dict[str, Any]:
    return {"step": step, "bounds": bounds, **more}


NUMBERS: list[tuple[list[Any], Any, Any, list[Any]]] = [
    ([0, 4], 1, "full", [0, 1, 2, 3, 4]),
    ([4, 0], 2, "full", [0, 2, 4]),
    ([0, 3, 4], 2, "full", [0, 2, 3, 4]),
    ([0, 5], 2, "full", [0, 2, 4, 5]),
    ([1, 1, 3], 1, "full", [1, 1, 2, 3]),
    ([0, 1], 0.25, "full", [0, 0.25, 0.5, 0.75, 1]),
    ([5], 1, "full", [5]),
    ([], 1, "full", []),
    ([], 1, [0, 3], [0, 1, 2]),
    ([0, 30], 5, [10, 25], [0, 10, 15, 20, 30]),
    ([12], 5, [10, 25], [10, 12, 15, 20]),
    ([15], 5, [10, 25], [10, 15, 20]),
    ([99], 2, [0, 5], [0, 2, 4, 99]),
    ([-99], 2, [0, 5], [-99, 0, 2, 4]),
    ([1], 1, [3, 3], [1]),
    ([None, 0, 2], 1, "full", [None, 0, 1, 2]),
    ([None], 3, [0, 7], [None, 0, 3, 6]),
    ([Decimal128("0"), 2], 1, "full", [Decimal128("0"), Decimal128("1"), 2]),
]


@pytest.mark.parametrize(("found", "step", "bounds", "expected"), NUMBERS)
def test_numbers(found: list[Any], step: Any, bounds: Any, expected: list[Any]) -> None:
    assert values(densify(of(*found), range=span(step, bounds))) == expected


def test_dates() -> None:
    first, last = DatetimeMS(0), DatetimeMS(3 * DAY)
    result = densify(of(first, last), range=span(1, "full", unit="day"))
    assert values(result) == [DatetimeMS(n * DAY) for n in range(4)]
    january, april = DatetimeMS(0), DatetimeMS(90 * DAY)
    result = densify([], range=span(1, [january, april], unit="month"))
    assert values(result) == [DatetimeMS(n * DAY) for n in (0, 31, 59)]
    result = densify(of(january), range=span(12.0, [january, DatetimeMS(DAY)], unit="hour"))
    assert values(result) == [DatetimeMS(0), DatetimeMS(DAY // 2)]


def test_nested_fields_and_other_fields() -> None:
    documents = [{"a": {"v": 0, "w": 1}, "z": 1}, {"a": {"v": 2}}, {"z": 3}]
    stage = {"$densify": {"field": "a.v", "range": span(1, "full")}}
    expected = [{"z": 3}, {"a": {"v": 0, "w": 1}, "z": 1}, {"a": {"v": 1}}, {"a": {"v": 2}}]
    assert_results([stage], documents, expected)


def partitioned(bounds: Any, step: int = 2) -> list[tuple[Any, Any]]:
    documents = [{"p": 0, "v": 0}, {"p": 0, "v": 4}, {"p": 1, "v": 0}, {"p": 1, "v": 5}, {"p": 2, "v": 10}]
    found = densify(documents, range=span(step, bounds), partitionByFields=["p"])
    return sorted((document["p"], document["v"]) for document in found)


def test_partitions() -> None:
    steps = [0, 2, 4, 6, 8, 10]
    assert partitioned("full") == sorted([(p, v) for p in range(3) for v in steps] + [(1, 5)])
    assert partitioned("partition") == [(0, 0), (0, 2), (0, 4), (1, 0), (1, 2), (1, 4), (1, 5), (2, 10)]
    expected = [(p, v) for p in range(3) for v in (3, 5)] + [(0, 0), (0, 4), (1, 0), (2, 10)]
    assert partitioned([3, 6]) == sorted(expected)


def test_partitions_of_several_fields_and_paths() -> None:
    documents = [{"a": {"b": 1}, "c": 1, "v": 0}, {"a": {"b": 1}, "c": 1, "v": 2}, {"c": 1, "v": 7}]
    stage = {"$densify": {"field": "v", "partitionByFields": ["a.b", "c"], "range": span(1, "partition")}}
    expected = [
        {"c": 1, "v": 7},
        {"a": {"b": 1}, "c": 1, "v": 0},
        {"a": {"b": 1}, "c": 1, "v": 1},
        {"a": {"b": 1}, "c": 1, "v": 2},
    ]
    assert_results([stage], documents, expected)


def test_the_number_of_new_documents_is_limited() -> None:
    stage = {"$densify": {"field": "v", "range": span(1, [0, 500_001])}}
    assert_code([stage, {"$count": "n"}], 5897900)


DENSIFY_ERRORS: list[tuple[Any, int]] = [
    (1, 9),
    ({"field": "v"}, 40414),
    ({"range": span(1, "full")}, 40414),
    ({"field": "v", "range": {"step": 1}}, 40414),
    ({"field": "v", "range": {"bounds": "full"}}, 40414),
    ({"field": "v", "range": span(1, "full"), "other": 1}, 40415),
    ({"field": 1, "range": span(1, "full")}, 14),
    ({"field": "v", "range": 1}, 14),
    ({"field": "v", "range": span("x", "full")}, 14),
    ({"field": "v", "range": span(1, "full", unit=1)}, 14),
    ({"field": "v", "range": span(1, "full", unit="fortnight")}, 9),
    ({"field": "v", "range": span(1, "full"), "partitionByFields": "x"}, 14),
    ({"field": "v", "range": span(1, "full"), "partitionByFields": [1]}, 14),
    ({"field": "v", "range": span(1, "full"), "partitionByFields": ["v"]}, 8993000),
    ({"field": "v", "range": span(1, "full"), "partitionByFields": ["v.w"]}, 8993000),
    ({"field": "v.w", "range": span(1, "full"), "partitionByFields": ["v"]}, 9554500),
    ({"field": "$v", "range": span(1, "full")}, 16410),
    ({"field": "v", "range": span(1, "full"), "partitionByFields": ["$x"]}, 16410),
    ({"field": "v", "range": span(0, "full")}, 5733401),
    ({"field": "v", "range": span(-1, "full")}, 5733401),
    ({"field": "v", "range": span(1, "other")}, 5946802),
    ({"field": "v", "range": span(1, 1)}, 5733404),
    ({"field": "v", "range": span(0.5, [0, 1])}, 5876900),
    ({"field": "v", "range": span(1, [1])}, 5733403),
    ({"field": "v", "range": span(1, [2, 1])}, 5733402),
    ({"field": "v", "range": span(1, [1, DatetimeMS(1)])}, 5733406),
    ({"field": "v", "range": span(1, ["a", "b"])}, 5733406),
    ({"field": "v", "range": span(1, [1, 2], unit="day")}, 5733409),
    ({"field": "v", "range": span(1, [DatetimeMS(1), DatetimeMS(2)])}, 5733410),
    ({"field": "v", "range": span(1, "partition")}, 5733408),
    ({"field": "v", "range": span(1.1, [DatetimeMS(1), DatetimeMS(2)], unit="day")}, 6586400),
    ({"field": "t", "range": span(1, "full")}, 5733201),
    ({"field": "v", "range": span(1, "full", unit="day")}, 6053600),
    ({"field": "d", "range": span(1, "full")}, 6053600),
]


@pytest.mark.parametrize(("spec", "code"), DENSIFY_ERRORS)
def test_densify_errors(spec: Any, code: int) -> None:
    assert_code([{"$densify": spec}], code, [{"v": 1, "t": "text", "d": DatetimeMS(0)}])


def test_fill_with_values() -> None:
    stage = {"$fill": {"output": {"a": {"value": 0}, "b.c": {"value": "$d"}}}}
    documents = [{"a": None, "d": 1}, {"a": 5, "b": {"c": 2}, "d": 1}, {"b": {"c": None}}]
    expected = [{"a": 0, "d": 1, "b": {"c": 1}}, {"a": 5, "b": {"c": 2}, "d": 1}, {"b": {}, "a": 0}]
    assert_results([stage], documents, expected)


def test_fill_with_methods() -> None:
    documents = [{"x": 3, "v": 3}, {"x": 1, "v": 1}, {"x": 2}, {"x": 4, "w": 1}]
    stage = {"$fill": {"sortBy": {"x": 1}, "output": {"v": {"method": "linear"}, "w": {"value": 0}}}}
    expected = [
        {"x": 1, "v": 1, "w": 0},
        {"x": 2, "v": 2.0, "w": 0},
        {"x": 3, "v": 3, "w": 0},
        {"x": 4, "w": 1, "v": None},
    ]
    assert_results([stage], documents, expected)
    stage = {"$fill": {"output": {"v": {"method": "locf"}}}}
    found = results([stage], documents)
    assert [document["v"] for document in found] == [3, 1, 1, 1]


@pytest.mark.parametrize("partition", [{"partitionBy": {"p": "$p"}}, {"partitionByFields": ["p"]}])
def test_fill_in_partitions(partition: dict[str, Any]) -> None:
    documents = [{"p": 1, "v": 1}, {"p": 2}, {"p": 1}, {"p": 2, "v": 2}]
    stage = {"$fill": {**partition, "output": {"v": {"method": "locf"}}}}
    expected = [{"p": 1, "v": 1}, {"p": 1, "v": 1}, {"p": 2, "v": None}, {"p": 2, "v": 2}]
    assert_results([stage], documents, expected)


def test_densify_and_fill() -> None:
    stages = [
        {"$densify": {"field": "x", "range": span(1, "full")}},
        {"$fill": {"sortBy": {"x": 1}, "output": {"y": {"method": "linear"}}}},
    ]
    documents = [{"x": 0, "y": 0}, {"x": 3, "y": 6}]
    assert [document["y"] for document in results(stages, documents)] == [0, 2.0, 4.0, 6]


FILL_ERRORS: list[tuple[Any, int]] = [
    ("x", 9),
    ({}, 40414),
    ({"output": {}}, 6050203),
    ({"output": {"a": "x"}}, 6050200),
    ({"output": {"a": {}}}, 6050201),
    ({"output": {"a": {"method": "locf", "value": 1}}}, 6050201),
    ({"output": {"a": {"method": "locf", "second": 1}}}, 40415),
    ({"output": {"a": {"method": "random"}}}, 6050202),
    ({"output": {"a": {"method": 1}}}, 14),
    ({"output": {"a": {"method": "linear"}}}, 605001),
    ({"output": {"a": {"value": 1}}, "partitionBy": "$a", "partitionByFields": ["a"]}, 6050204),
    ({"output": {"a": {"value": 1}}, "partitionBy": 1}, 14),
    ({"output": {"a": {"value": 1}}, "partitionByFields": ["$a"]}, 16410),
    ({"output": {"a": {"value": 1}}, "sortBy": 1}, 14),
]


@pytest.mark.parametrize(("spec", "code"), FILL_ERRORS)
def test_fill_errors(spec: Any, code: int) -> None:
    assert_code([{"$fill": spec}], code)


def test_explicit_bounds_are_filled_partition_by_partition() -> None:
    documents = [{"g": 1, "v": 1}, {"g": 0, "v": 2}]
    found = densify(documents, partitionByFields=["g"], range=span(1, [0, 2]))
    assert [(document["g"], document["v"]) for document in found] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
