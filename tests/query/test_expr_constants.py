"""Operands that a mongod combines before it reads a document, and the order in which operands are checked."""

from typing import Any

import pytest
from bson import DatetimeMS, Decimal128, Int64, Timestamp

from tests.query.expr_helpers import assert_code, assert_value

DOCUMENT = {"zero": 0, "n": None, "s": "x", "five": 5, "a": [3, "b", 1], "d": DatetimeMS(1000)}
D = Decimal128

VALUES: list[tuple[Any, Any]] = [
    ({"$add": ["x", "$n"]}, None),
    ({"$multiply": ["x", "$n"]}, None),
    ({"$setUnion": [5, "$n"]}, None),
    ({"$concat": ["$n", 5]}, None),
    ({"$concatArrays": ["$n", 5]}, None),
    ({"$and": [{"$add": ["$s", 1]}, False]}, False),
    ({"$or": [{"$add": ["$s", 1]}, 1]}, True),
    ({"$setUnion": [["b", "a"], ["$s"]]}, ["a", "b", "x"]),
    ({"$setIntersection": ["$a", ["b", 1, 3]]}, [1, 3, "b"]),
    ({"$setDifference": ["$a", [3]]}, ["b", 1]),
    ({"$add": ["$d", 2.5]}, DatetimeMS(1003)),
    ({"$add": ["$d", D("1.5"), 1]}, DatetimeMS(1002)),
    ({"$toString": 0.1 + 0.2}, "0.30000000000000004"),
    ({"$toUpper": float("inf")}, "INF"),
    ({"$toUpper": 123456789.123}, "1.23457E+08"),
    ({"$toLower": Timestamp(5, 1)}, "jan  1 00:00:05:1"),
    ({"$multiply": [0, D("-2.5")]}, D("-0.0")),
    ({"$ceil": D("Infinity")}, D("NaN")),
    ({"$toDecimal": "0.1234567890123456789012345678901234567"}, D("0.1234567890123456789012345678901234")),
    ({"$toDouble": "-0x10"}, -16.0),
    ({"$indexOfCP": ["abc", "", 2, 2]}, -1),
    ({"$pow": [2, Int64(3)]}, Int64(8)),
    ({"$add": ["$n", {"$divide": [1, "$zero"]}]}, None),
    ({"$concat": ["$n", {"$toString": "$a"}]}, None),
]
CODES: list[tuple[Any, int]] = [
    ({"$add": ["$n", "x", 1]}, 14),
    ({"$multiply": ["$a", {"$divide": [1, "$zero"]}]}, 14),
    ({"$setIntersection": ["$n", 5, 6]}, 17047),
    ({"$concat": ["$n", "a", 5]}, 16702),
    ({"$slice": ["$five", 0, None]}, 28724),
    ({"$zip": {"inputs": ["$five", "$n"]}}, 34468),
    ({"$round": ["$s", "$n"]}, 51081),
    ({"$atan2": ["$s", "$n"]}, 51044),
    ({"$round": ["$five", float("nan")]}, 31109),
    ({"$substrCP": ["abc", -1, -1]}, 34454),
    ({"$regexMatch": {"input": "a", "regex": None, "options": "q"}}, 51108),
    ({"$regexMatch": {"input": 5, "regex": "$n"}}, 51104),
    ({"$dateToString": {"date": None, "format": "%"}}, 18535),
    ({"$dateTrunc": {"date": "$d", "unit": "day", "binSize": Int64(2**62)}}, 5439006),
    ({"$dateTrunc": {"date": "$d", "unit": "hour", "binSize": Int64(2**62)}}, 5439002),
    ({"$let": {"vars": 5, "in": 1}}, 10065),
    ({"$toDouble": "1E-400"}, 241),
]


@pytest.mark.parametrize(("spec", "expected"), VALUES)
def test_value(spec: Any, expected: Any) -> None:
    assert_value(spec, DOCUMENT, expected)


@pytest.mark.parametrize(("spec", "code"), CODES)
def test_code(spec: Any, code: int) -> None:
    assert_code(spec, DOCUMENT, code)
