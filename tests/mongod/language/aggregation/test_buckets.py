"""`$bucket` and `$bucketAuto`."""

from typing import Any

import pytest
from bson import Decimal128

from tailrace.mongod.language.aggregation.stages.granularity import granularity
from tests.mongod.language.aggregation.pipeline_helpers import assert_code, assert_results, results


def of(*values: Any) -> list[dict[str, Any]]:
    return [{"v": value} for value in values]


def test_bucket() -> None:
    stage = {"$bucket": {"groupBy": "$v", "boundaries": [0, 10, 20], "default": "other"}}
    expected = [{"_id": 0, "count": 2}, {"_id": 10, "count": 1}, {"_id": "other", "count": 4}]
    assert_results([stage], of(9.5, 10, 0, 20, -1, "x", None), expected)


def test_bucket_output_and_expressions() -> None:
    stage = {
        "$bucket": {
            "groupBy": {"$multiply": ["$v", 2]},
            "boundaries": [{"$add": [0, 0]}, 5, Decimal128("100")],
            "default": -1,
            "output": {"all": {"$push": "$v"}, "sum": {"$sum": "$v"}},
        }
    }
    expected = [
        {"_id": -1, "all": [None], "sum": 0},
        {"_id": 0, "all": [1, 2], "sum": 3},
        {"_id": 5, "all": [3], "sum": 3},
    ]
    assert_results([stage], of(3, 1, None, 2), expected)


def test_a_missing_value_goes_to_the_default_bucket() -> None:
    stage = {"$bucket": {"groupBy": "$w", "boundaries": [0, 1], "default": "none"}}
    assert_results([stage], of(1), [{"_id": "none", "count": 1}])


def test_a_value_outside_without_a_default() -> None:
    assert_code([{"$bucket": {"groupBy": "$v", "boundaries": [0, 1]}}], 40066, of(1))


BUCKET_ERRORS: list[tuple[Any, int]] = [
    (1, 40201),
    ({"groupBy": "$v", "boundaries": [0, 1], "x": 1}, 40197),
    ({"groupBy": "$v"}, 40198),
    ({"groupBy": "v", "boundaries": [0, 1]}, 40202),
    ({"groupBy": 1, "boundaries": [0, 1]}, 40202),
    ({"groupBy": "$v", "boundaries": 1}, 40200),
    ({"groupBy": "$v", "boundaries": ["$v", 1]}, 40191),
    ({"groupBy": "$v", "boundaries": [1]}, 40192),
    ({"groupBy": "$v", "boundaries": [1, "x"]}, 40193),
    ({"groupBy": "$v", "boundaries": [1, 1]}, 40194),
    ({"groupBy": "$v", "boundaries": [2, 1]}, 40194),
    ({"groupBy": "$v", "boundaries": [0, 1], "default": "$v"}, 40195),
    ({"groupBy": "$v", "boundaries": [0, 1], "default": 0.5}, 40199),
    ({"groupBy": "$v", "boundaries": [0, 1], "output": 1}, 40196),
    ({"groupBy": "$v", "boundaries": [0, 1], "output": {"a": 1}}, 40234),
]


@pytest.mark.parametrize(("spec", "code"), BUCKET_ERRORS)
def test_bucket_errors(spec: Any, code: int) -> None:
    assert_code([{"$bucket": spec}], code)


AUTO: list[tuple[list[Any], int, list[tuple[Any, Any, int]]]] = [
    ([1, 2, 3, 4], 2, [(1, 3, 2), (3, 4, 2)]),
    ([4, 3, 2, 1, 0], 2, [(0, 3, 3), (3, 4, 2)]),
    ([1, 1, 1, 2, 3], 3, [(1, 2, 3), (2, 3, 2)]),
    ([1, 1, 1], 3, [(1, 1, 3)]),
    ([5], 3, [(5, 5, 1)]),
    ([1, 2], 5, [(1, 2, 1), (2, 2, 1)]),
    ([None, "x", 1], 3, [(None, 1, 1), (1, "x", 1), ("x", "x", 1)]),
    ([], 3, []),
]


@pytest.mark.parametrize(("values", "buckets", "expected"), AUTO)
def test_bucket_auto(values: list[Any], buckets: int, expected: list[tuple[Any, Any, int]]) -> None:
    found = results([{"$bucketAuto": {"groupBy": "$v", "buckets": buckets}}], of(*values))
    assert [(b["_id"]["min"], b["_id"]["max"], b["count"]) for b in found] == expected


def test_bucket_auto_output() -> None:
    stage = {"$bucketAuto": {"groupBy": "$v", "buckets": 2, "output": {"all": {"$push": "$v"}}}}
    expected = [{"_id": {"min": 1, "max": 3}, "all": [1, 2]}, {"_id": {"min": 3, "max": 4}, "all": [3, 4]}]
    assert_results([stage], of(4, 2, 1, 3), expected)


SERIES: list[tuple[str, list[Any], int, list[tuple[float, float, int]]]] = [
    ("POWERSOF2", [1, 3, 5, 9, 20], 2, [(0.5, 8.0, 3), (8.0, 32.0, 2)]),
    ("R5", [5, 6, 7], 3, [(4.0, 6.300000000000001, 2), (6.300000000000001, 10.0, 1)]),
    ("R5", [1, 2, 3, 30], 2, [(0.63, 2.5, 2), (2.5, 40.0, 2)]),
    ("1-2-5", [0, 0, 7, 8], 2, [(0.0, 5.0, 2), (5.0, 10.0, 2)]),
    ("E6", [0, 0], 2, [(0.0, 0.0, 2)]),
]


@pytest.mark.parametrize(("name", "values", "buckets", "expected"), SERIES)
def test_granularity(
    name: str, values: list[Any], buckets: int, expected: list[tuple[float, float, int]]
) -> None:
    stage = {"$bucketAuto": {"groupBy": "$v", "buckets": buckets, "granularity": name}}
    found = results([stage], of(*values))
    assert [(b["_id"]["min"], b["_id"]["max"], b["count"]) for b in found] == expected


@pytest.mark.parametrize(
    "name", ["R5", "R10", "R20", "R40", "R80", "1-2-5", "E6", "E12", "E24", "E48", "E96", "E192", "POWERSOF2"]
)
def test_rounding_gives_the_neighbours_in_the_series(name: str) -> None:
    series = granularity(name)
    number = 1.0
    for _ in range(40):
        above = series.round_up(number)
        assert number < above <= number * 10
        assert series.round_down(above) <= number or series.round_down(above) < above
        assert series.round_up(series.round_down(above)) == above
        number = above


def test_the_fine_e_series_are_those_of_the_standard() -> None:
    def decade(name: str) -> list[float]:
        numbers, value = [], 0.999
        while (value := granularity(name).round_up(value)) < 10:
            numbers.append(value)
        return numbers

    assert decade("E48")[:6] == pytest.approx([1.0, 1.05, 1.1, 1.15, 1.21, 1.27])
    assert decade("E96")[-3:] == pytest.approx([9.31, 9.53, 9.76])
    assert len(decade("E192")) == 192
    assert any(number == pytest.approx(9.2) for number in decade("E192"))
    assert all(number != pytest.approx(9.19) for number in decade("E192"))


AUTO_ERRORS: list[tuple[Any, int]] = [
    (1, 40240),
    ({"groupBy": "$v", "buckets": 1, "x": 1}, 40245),
    ({"groupBy": "$v"}, 40246),
    ({"groupBy": "v", "buckets": 1}, 40239),
    ({"groupBy": "$v", "buckets": "x"}, 40241),
    ({"groupBy": "$v", "buckets": 1.5}, 40242),
    ({"groupBy": "$v", "buckets": 0}, 40243),
    ({"groupBy": "$v", "buckets": 1, "output": 1}, 40244),
    ({"groupBy": "$v", "buckets": 1, "granularity": 1}, 40261),
    ({"groupBy": "$v", "buckets": 1, "granularity": "E7"}, 40257),
    ({"groupBy": "$t", "buckets": 1, "granularity": "E6"}, 40258),
    ({"groupBy": "$nan", "buckets": 1, "granularity": "E6"}, 40259),
    ({"groupBy": "$v", "buckets": 1, "granularity": "E6"}, 40260),
]


@pytest.mark.parametrize(("spec", "code"), AUTO_ERRORS)
def test_bucket_auto_errors(spec: Any, code: int) -> None:
    assert_code([{"$bucketAuto": spec}], code, [{"v": -1, "t": "x", "nan": float("nan")}])
