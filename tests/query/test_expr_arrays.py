"""Array operators: values, result types, nulls and error codes."""

from typing import Any

import pytest
from bson import Decimal128, Int64, ObjectId
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.bson.compare import sort_key
from tailrace.bson.values import Undefined
from tailrace.query.expressions import environment, parse_expression
from tailrace.query.missing import MISSING
from tests.query.expr_helpers import CaseInsensitive, assert_code, assert_value, evaluate

D = Decimal128
DOC: dict[str, Any] = {
    "a": [1, 2, 3, 4, 5],
    "e": [],
    "o": [{"x": 1, "y": "b"}, {"x": 3, "y": "a"}, {"x": 2}],
    "mixed": [{"v": 1}, {}, {"v": None}, 5],
    "n": None,
    "u": Undefined(),
    "s": "text",
    "i": 3,
    "doc": {"k1": 1, "k2": [2]},
}

VALUES: list[tuple[Any, Any]] = [
    # $arrayElemAt $first $last
    ({"$arrayElemAt": ["$a", 0]}, 1),
    ({"$arrayElemAt": ["$a", -1]}, 5),
    ({"$arrayElemAt": ["$a", 2.0]}, 3),
    ({"$arrayElemAt": ["$a", D("1")]}, 2),
    ({"$arrayElemAt": ["$a", 9]}, MISSING),
    ({"$arrayElemAt": ["$a", -6]}, MISSING),
    ({"$arrayElemAt": ["$n", 0]}, None),
    ({"$arrayElemAt": ["$a", "$absent"]}, None),
    ({"$first": "$a"}, 1),
    ({"$first": [[7, 8]]}, 7),
    ({"$first": "$e"}, MISSING),
    ({"$first": "$u"}, None),
    ({"$last": "$a"}, 5),
    ({"$last": "$n"}, None),
    # $arrayToObject $objectToArray
    ({"$arrayToObject": [[["a", 1], ["b", 2], ["a", 3]]]}, {"a": 3, "b": 2}),
    ({"$arrayToObject": {"$literal": [{"k": "a", "v": 1}, {"v": 2, "k": "b"}]}}, {"a": 1, "b": 2}),
    ({"$arrayToObject": "$e"}, {}),
    ({"$arrayToObject": "$n"}, None),
    ({"$objectToArray": "$doc"}, [{"k": "k1", "v": 1}, {"k": "k2", "v": [2]}]),
    ({"$objectToArray": {}}, []),
    ({"$objectToArray": "$absent"}, None),
    # $concatArrays
    ({"$concatArrays": []}, []),
    ({"$concatArrays": ["$a", [9], "$e"]}, [1, 2, 3, 4, 5, 9]),
    ({"$concatArrays": ["$a", "$n", "$i"]}, None),
    ({"$concatArrays": "$a"}, [1, 2, 3, 4, 5]),
    # $filter
    ({"$filter": {"input": "$a", "cond": {"$gt": ["$$this", 2]}}}, [3, 4, 5]),
    ({"$filter": {"input": "$a", "as": "x", "cond": {"$gt": ["$$x", "$i"]}}}, [4, 5]),
    ({"$filter": {"input": "$a", "cond": True, "limit": 2}}, [1, 2]),
    ({"$filter": {"input": "$a", "cond": True, "limit": None}}, [1, 2, 3, 4, 5]),
    ({"$filter": {"input": "$a", "cond": True, "limit": Int64(9)}}, [1, 2, 3, 4, 5]),
    ({"$filter": {"input": "$n", "cond": True}}, None),
    ({"$filter": {"input": [None, 0, "", {}], "cond": "$$this"}}, ["", {}]),
    # $map
    ({"$map": {"input": "$a", "in": {"$multiply": ["$$this", "$i"]}}}, [3, 6, 9, 12, 15]),
    ({"$map": {"input": "$mixed", "as": "m", "in": "$$m.v"}}, [1, None, None, None]),
    ({"$map": {"input": "$o", "as": "CURRENT", "in": "$x"}}, [1, 3, 2]),
    ({"$map": {"input": [[1, 2], [3]], "in": {"$map": {"input": "$$this", "in": {"$add": ["$$this", 1]}}}}},
     [[2, 3], [4]]),
    ({"$map": {"input": "$absent", "in": 1}}, None),
    # $reduce
    ({"$reduce": {"input": "$a", "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}}, 15),
    ({"$reduce": {"input": ["a", "b"], "initialValue": "", "in": {"$concat": ["$$value", "$$this"]}}}, "ab"),
    ({"$reduce": {"input": "$e", "initialValue": "$i", "in": 1}}, 3),
    ({"$reduce": {"input": "$n", "initialValue": 0, "in": 1}}, None),
    # $in $indexOfArray $isArray $size
    ({"$in": [3, "$a"]}, True),
    ({"$in": [3.0, "$a"]}, True),
    ({"$in": ["$absent", [None]]}, False),
    ({"$in": [{"x": 2}, "$o"]}, True),
    ({"$indexOfArray": ["$a", 3]}, 2),
    ({"$indexOfArray": ["$a", 9]}, -1),
    ({"$indexOfArray": [[1, 2, 1], 1, 1]}, 2),
    ({"$indexOfArray": ["$a", 5, 0, 3]}, -1),
    ({"$indexOfArray": ["$a", 5, 9]}, -1),
    ({"$indexOfArray": ["$n", 1]}, None),
    ({"$isArray": "$a"}, True),
    ({"$isArray": [["x"]]}, True),
    ({"$isArray": "$n"}, False),
    ({"$size": "$a"}, 5),
    ({"$size": [[1]]}, 1),
    # $range $reverseArray $slice $zip
    ({"$range": [0, 3]}, [0, 1, 2]),
    ({"$range": [5, 0, -2]}, [5, 3, 1]),
    ({"$range": [Int64(0), 2.0]}, [0, 1]),
    ({"$range": [3, 1]}, []),
    ({"$reverseArray": "$a"}, [5, 4, 3, 2, 1]),
    ({"$reverseArray": "$n"}, None),
    ({"$slice": ["$a", 2]}, [1, 2]),
    ({"$slice": ["$a", -2]}, [4, 5]),
    ({"$slice": ["$a", 0]}, []),
    ({"$slice": ["$a", 1, 2]}, [2, 3]),
    ({"$slice": ["$a", -3, 2]}, [3, 4]),
    ({"$slice": ["$a", -9, 2]}, [1, 2]),
    ({"$slice": ["$a", 9, 2]}, []),
    ({"$slice": ["$a", 1, "$n"]}, None),
    ({"$zip": {"inputs": ["$a", ["x", "y"]]}}, [[1, "x"], [2, "y"]]),
    ({"$zip": {"inputs": [[1, 2], ["x"]], "useLongestLength": True}}, [[1, "x"], [2, None]]),
    ({"$zip": {"inputs": [[1, 2], ["x"]], "defaults": [0, "d"], "useLongestLength": True}},
     [[1, "x"], [2, "d"]]),
    ({"$zip": {"inputs": ["$a", "$n"]}}, None),
    # $sortArray and its relatives
    ({"$sortArray": {"input": [3, "b", 1, None, {"a": 1}, [0]], "sortBy": 1}},
     [None, 1, 3, "b", {"a": 1}, [0]]),
    ({"$sortArray": {"input": [1, 3, 2], "sortBy": -1}}, [3, 2, 1]),
    ({"$sortArray": {"input": "$o", "sortBy": {"x": -1}}},
     [{"x": 3, "y": "a"}, {"x": 2}, {"x": 1, "y": "b"}]),
    ({"$sortArray": {"input": "$o", "sortBy": {"y": 1, "x": 1}}},
     [{"x": 2}, {"x": 3, "y": "a"}, {"x": 1, "y": "b"}]),
    ({"$sortArray": {"input": [{"a": 1, "i": 0}, 5, {"a": 1, "i": 2}], "sortBy": {"a": -1}}},
     [{"a": 1, "i": 0}, {"a": 1, "i": 2}, 5]),
    ({"$sortArray": {"input": [{"a": [2, 9]}, {"a": [1]}], "sortBy": {"a.0": 1}}},
     [{"a": [1]}, {"a": [2, 9]}]),
    ({"$sortArray": {"input": "$n", "sortBy": 1}}, None),
    ({"$firstN": {"input": "$a", "n": 2}}, [1, 2]),
    ({"$lastN": {"input": "$a", "n": Int64(2)}}, [4, 5]),
    ({"$lastN": {"input": "$a", "n": 9}}, [1, 2, 3, 4, 5]),
    ({"$minN": {"input": [None, 2, None, 1], "n": 3}}, [1, 2]),
    ({"$maxN": {"input": "$a", "n": {"$subtract": ["$i", 1]}}}, [5, 4]),
    ({"$maxN": {"input": [1, "a", [2]], "n": 2}}, [[2], "a"]),
    # sets
    ({"$allElementsTrue": [[1, True, "x"]]}, True),
    ({"$allElementsTrue": [[1, 0]]}, False),
    ({"$allElementsTrue": ["$e"]}, True),
    ({"$anyElementTrue": [[0, None, 1]]}, True),
    ({"$anyElementTrue": ["$e"]}, False),
    ({"$setDifference": [[1, 2, 1, 3], [2.0]]}, [1, 3]),
    ({"$setDifference": ["$a", "$n"]}, None),
    ({"$setEquals": [[1, 2, 2], [2, 1.0]]}, True),
    ({"$setEquals": [[1], [1], [1, 2]]}, False),
    ({"$setIntersection": [[1, 2, 3], [3, 2.0], [2]]}, [2]),
    ({"$setIntersection": []}, []),
    ({"$setIntersection": [[1], "$n"]}, None),
    ({"$setIsSubset": [[1, 1], [1, 2]]}, True),
    ({"$setIsSubset": [[3], [1, 2]]}, False),
    ({"$setUnion": [[1, 2], [2, 3, [1]], [[1]]]}, [1, 2, 3, [1]]),
    ({"$setUnion": []}, []),
    ({"$setUnion": [[1], "$absent"]}, None),
    # accumulators
    ({"$sum": [1, 2, 3]}, 6),
    ({"$sum": "$a"}, 15),
    ({"$sum": ["$a", 1]}, 1),
    ({"$sum": [1, "x", None, [5]]}, 1),
    ({"$sum": []}, 0),
    ({"$sum": "$absent"}, 0),
    ({"$sum": [2**31 - 1, 1]}, Int64(2**31)),
    ({"$sum": [Int64(1), 1]}, Int64(2)),
    ({"$sum": [Int64(2**63 - 1), 1]}, 2.0**63),
    ({"$sum": [0.1, 0.2, 0.3]}, 0.6),
    ({"$sum": [1e308, 1e308]}, float("inf")),
    ({"$sum": [D("1.5"), 1]}, D("2.5")),
    ({"$sum": [D("1"), 0.1]}, D("1.100000000000000005551115123125783")),
    ({"$avg": [1, 2]}, 1.5),
    ({"$avg": "$a"}, 3.0),
    ({"$avg": [D("1"), 2]}, D("1.5")),
    ({"$avg": ["x"]}, None),
    ({"$avg": "$e"}, None),
    ({"$min": [3, 1.5, None]}, 1.5),
    ({"$min": ["$a", 7]}, 7),
    ({"$max": "$a"}, 5),
    ({"$max": [1, "a"]}, "a"),
    ({"$max": ["$n", "$absent"]}, None),
    ({"$stdDevPop": [1, 2, 3, 4]}, 1.118033988749895),
    ({"$stdDevSamp": [1, 2, 3, 4]}, 1.2909944487358056),
    ({"$stdDevSamp": [1]}, None),
    ({"$stdDevPop": [1]}, 0.0),
    ({"$stdDevPop": ["x"]}, None),
    ({"$median": {"input": [3, 1, 2, "x"], "method": "approximate"}}, 2.0),
    ({"$median": {"input": [1, 2, 3, 4], "method": "approximate"}}, 2.0),
    ({"$median": {"input": "$n", "method": "approximate"}}, None),
    ({"$percentile": {"input": "$a", "p": [0, 0.5, 0.9, 1], "method": "approximate"}}, [1.0, 3.0, 5.0, 5.0]),
    ({"$percentile": {"input": "$absent", "p": [0.5], "method": "approximate"}}, [None]),
    # documents
    ({"$getField": "i"}, 3),
    ({"$getField": {"field": "x", "input": {"x": 1}}}, 1),
    ({"$getField": {"field": {"$literal": "$v"}, "input": {"$literal": {"$v": 1}}}}, 1),
    ({"$getField": {"field": "a.b", "input": {"$literal": {"a.b": 2}}}}, 2),
    ({"$getField": {"field": {"$concat": ["k", "1"]}, "input": "$doc"}}, 1),
    ({"$getField": "nothing"}, MISSING),
    ({"$getField": {"field": "x", "input": None}}, None),
    ({"$getField": {"field": "x", "input": "$absent"}}, MISSING),
    ({"$getField": {"field": "x", "input": 5}}, MISSING),
    ({"$setField": {"field": "z", "input": {"a": 1}, "value": 2}}, {"a": 1, "z": 2}),
    ({"$setField": {"field": "a", "input": {"a": 1, "b": 2}, "value": "$i"}}, {"a": 3, "b": 2}),
    ({"$setField": {"field": "a.b", "input": {}, "value": 1}}, {"a.b": 1}),
    ({"$setField": {"field": "a", "input": {"a": 1}, "value": "$$REMOVE"}}, {}),
    ({"$setField": {"field": "a", "input": "$n", "value": 1}}, None),
    ({"$unsetField": {"field": "k1", "input": "$doc"}}, {"k2": [2]}),
    ({"$unsetField": {"field": {"$literal": "$x"}, "input": {"$literal": {"$x": 1, "y": 2}}}}, {"y": 2}),
    ({"$mergeObjects": ["$doc", {"k1": 9, "z": 1}, "$n"]}, {"k1": 9, "k2": [2], "z": 1}),
    ({"$mergeObjects": "$o"}, {"x": 2, "y": "a"}),
    ({"$mergeObjects": []}, {}),
    ({"$binarySize": "aé"}, 3),
    ({"$binarySize": b"abc"}, 3),
    ({"$binarySize": "$n"}, None),
    ({"$bsonSize": {}}, 5),
    ({"$bsonSize": {"a": 1}}, 12),
    ({"$bsonSize": "$absent"}, None),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), VALUES)
def test_value(spec: Any, expected: Any) -> None:
    assert_value(spec, DOC, expected)


ERRORS: list[tuple[Any, int]] = [
    ({"$arrayElemAt": ["$i", 0]}, 28689),
    ({"$arrayElemAt": ["$a", "$s"]}, 28690),
    ({"$arrayElemAt": ["$a", 1.5]}, 28691),
    ({"$arrayElemAt": ["$a"]}, 16020),
    ({"$first": "$i"}, 28689),
    ({"$last": "$s"}, 28689),
    ({"$arrayToObject": "$s"}, 40386),
    ({"$arrayToObject": [[0]]}, 40398),
    ({"$arrayToObject": [[["a"]]]}, 40397),
    ({"$arrayToObject": [[[1, 2]]]}, 40395),
    ({"$arrayToObject": [[["a", 1], {"k": "a", "v": 1}]]}, 40396),
    ({"$arrayToObject": [[{"k": "a", "v": 1}, ["a", 1]]]}, 40391),
    ({"$arrayToObject": [[{"k": "a"}]]}, 40392),
    ({"$arrayToObject": [[{"x": "a", "y": 1}]]}, 40393),
    ({"$arrayToObject": [[{"k": 1, "v": 1}]]}, 40394),
    ({"$arrayToObject": [[["a\0b", 1]]]}, 4940400),
    ({"$arrayToObject": [[{"k": "a\0b", "v": 1}]]}, 4940401),
    ({"$objectToArray": "$a"}, 40390),
    ({"$concatArrays": ["$a", 1]}, 28664),
    ({"$filter": "x"}, 28646),
    ({"$filter": {"input": [], "cond": 1, "x": 1}}, 28647),
    ({"$filter": {"cond": 1}}, 28648),
    ({"$filter": {"input": []}}, 28650),
    ({"$filter": {"input": "$i", "cond": 1}}, 28651),
    ({"$filter": {"input": [], "as": "$x", "cond": 1}}, 9),
    ({"$filter": {"input": [], "cond": 1, "limit": 1.5}}, 327391),
    ({"$filter": {"input": [], "cond": 1, "limit": 0}}, 327392),
    ({"$map": 1}, 16878),
    ({"$map": {"input": [], "in": 1, "x": 1}}, 16879),
    ({"$map": {"in": 1}}, 16880),
    ({"$map": {"input": []}}, 16882),
    ({"$map": {"input": "$i", "in": 1}}, 16883),
    ({"$map": {"input": [], "as": "ROOT", "in": 1}}, 9),
    ({"$map": {"input": [], "in": "$$other"}}, 17276),
    ({"$reduce": 1}, 40075),
    ({"$reduce": {"input": [], "initialValue": 0, "in": 1, "x": 1}}, 40076),
    ({"$reduce": {"initialValue": 0, "in": 1}}, 40077),
    ({"$reduce": {"input": [], "in": 1}}, 40078),
    ({"$reduce": {"input": [], "initialValue": 0}}, 40079),
    ({"$reduce": {"input": 1, "initialValue": 0, "in": 1}}, 40080),
    ({"$reduce": {"input": "$a", "initialValue": 0, "in": "$$absent"}}, 17276),
    ({"$in": [1, "$n"]}, 40081),
    ({"$in": [1, "$i"]}, 40081),
    ({"$indexOfArray": ["$s", 1]}, 40090),
    ({"$indexOfArray": ["$a", 1, "$s"]}, 40096),
    ({"$indexOfArray": ["$a", 1, -1]}, 40097),
    ({"$indexOfArray": ["$a"]}, 28667),
    ({"$isArray": [1, 2]}, 16020),
    ({"$size": "$n"}, 17124),
    ({"$size": "$s"}, 17124),
    ({"$range": ["$s", 1]}, 34443),
    ({"$range": [1.5, 2]}, 34444),
    ({"$range": [1, None]}, 34445),
    ({"$range": [1, Int64(2**31)]}, 34446),
    ({"$range": [1, 2, "$s"]}, 34447),
    ({"$range": [1, 2, 1.5]}, 34448),
    ({"$range": [1, 2, 0]}, 34449),
    ({"$range": [0, 2**31 - 1]}, 146),
    ({"$reverseArray": "$i"}, 34435),
    ({"$slice": ["$i", 1]}, 28724),
    ({"$slice": ["$a", "$s"]}, 28725),
    ({"$slice": ["$a", 1.5]}, 28726),
    ({"$slice": ["$a", 1, "$s"]}, 28727),
    ({"$slice": ["$a", 1, 1.5]}, 28728),
    ({"$slice": ["$a", 1, 0]}, 28729),
    ({"$zip": 3}, 34460),
    ({"$zip": {"inputs": {"a": "b"}}}, 34461),
    ({"$zip": {"inputs": ["$a"], "defaults": {"a": "b"}}}, 34462),
    ({"$zip": {"inputs": ["$a"], "useLongestLength": 1}}, 34463),
    ({"$zip": {"inputs": ["$a"], "x": 1}}, 34464),
    ({"$zip": {"inputs": []}}, 34465),
    ({"$zip": {"inputs": ["$a"], "defaults": [1]}}, 34466),
    ({"$zip": {"inputs": ["$a"], "defaults": [1, 2], "useLongestLength": True}}, 34467),
    ({"$zip": {"inputs": ["$a", "$i"]}}, 34468),
    ({"$sortArray": 1}, 2942500),
    ({"$sortArray": {"input": [], "sortBy": 1, "x": 1}}, 2942501),
    ({"$sortArray": {"sortBy": 1}}, 2942502),
    ({"$sortArray": {"input": []}}, 2942503),
    ({"$sortArray": {"input": "$i", "sortBy": 1}}, 2942504),
    ({"$sortArray": {"input": [], "sortBy": {}}}, 2942505),
    ({"$sortArray": {"input": [], "sortBy": "a"}}, 2942507),
    ({"$sortArray": {"input": [], "sortBy": {"a": 2}}}, 2942505),
    ({"$firstN": 1}, 5787801),
    ({"$maxN": 1}, 5787900),
    ({"$firstN": {"input": [], "n": 1, "x": 1}}, 5787901),
    ({"$minN": {"input": [], "n": "$s"}}, 5787902),
    ({"$minN": {"input": [], "n": 3.2}}, 5787903),
    ({"$lastN": {"input": []}}, 5787906),
    ({"$maxN": {"n": 1}}, 5787907),
    ({"$maxN": {"input": [], "n": 0}}, 5787908),
    ({"$maxN": {"input": "$n", "n": 1}}, 5788200),
    ({"$allElementsTrue": "$n"}, 17040),
    ({"$anyElementTrue": "$i"}, 17041),
    ({"$setIsSubset": [[1], "$n"]}, 17042),
    ({"$setUnion": [[1], "$i"]}, 17043),
    ({"$setEquals": [[1], "$n"]}, 17044),
    ({"$setEquals": [[1]]}, 17045),
    ({"$setIsSubset": ["$n", [1]]}, 17310),
    ({"$setIsSubset": ["$n", 1]}, 17311),
    ({"$setIsSubset": ["$n", "$n"]}, 17046),
    ({"$setEquals": ["$n", 1]}, 5887502),
    ({"$indexOfArray": [1, "$n"]}, 50809),
    ({"$indexOfArray": [1, 2]}, 40090),
    ({"$setIntersection": [[1], "$i"]}, 17047),
    ({"$setDifference": ["$i", [1]]}, 17048),
    ({"$setDifference": [[1], "$i"]}, 17049),
    ({"$median": 1}, 7436201),
    ({"$percentile": [1]}, 7436200),
    ({"$median": {"input": 1}}, 40414),
    ({"$median": {"input": 1, "method": "approximate", "x": 1}}, 40415),
    ({"$median": {"input": 1, "method": "fancy"}}, 2),
    ({"$percentile": {"input": 1, "method": "approximate"}}, 40414),
    ({"$percentile": {"input": 1, "p": [], "method": "approximate"}}, 7750301),
    ({"$percentile": {"input": 1, "p": 0.5, "method": "approximate"}}, 7750301),
    ({"$percentile": {"input": 1, "p": ["x"], "method": "approximate"}}, 7750302),
    ({"$percentile": {"input": 1, "p": [2], "method": "approximate"}}, 7750303),
    ({"$getField": {"field": "a", "input": {}, "x": 1}}, 3041701),
    ({"$getField": {"input": {}}}, 3041702),
    ({"$getField": {"field": "a"}}, 3041703),
    ({"$getField": 5}, 3041704),
    ({"$getField": {"field": "$i", "input": {}}}, 3041704),
    ({"$setField": 5}, 4161100),
    ({"$setField": {"field": "a", "input": {}, "value": 1, "x": 1}}, 4161101),
    ({"$unsetField": {"field": "a", "input": {}, "value": 1}}, 4161101),
    ({"$setField": {"value": 1}}, 4161102),
    ({"$setField": {"field": "a"}}, 4161103),
    ({"$setField": {"field": "a", "value": 1, "input": 5}}, 4161105),
    ({"$setField": {"field": {"$concat": ["a"]}, "value": 1, "input": {}}}, 4161106),
    ({"$setField": {"field": 3, "value": 1, "input": {}}}, 4161107),
    ({"$setField": {"field": "$a", "value": 1, "input": {}}}, 4161108),
    ({"$unsetField": {"field": "a"}}, 4161109),
    ({"$mergeObjects": ["$doc", 1]}, 40400),
    ({"$binarySize": 1}, 51276),
    ({"$bsonSize": []}, 16020),
    ({"$bsonSize": "$a"}, 31393),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "code"), ERRORS)
def test_error(spec: Any, code: int) -> None:
    assert_code(spec, DOC, code)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"$in": ["A", ["a"]]}, True),
        ({"$indexOfArray": [["x", "a"], "A"]}, 1),
        ({"$setEquals": [["a"], ["A", "a"]]}, True),
        ({"$setUnion": [["a"], ["A"]]}, ["a"]),
        ({"$setDifference": [["a", "b"], ["A"]]}, ["b"]),
        ({"$max": ["a", "B"]}, "B"),
        ({"$sortArray": {"input": ["b", "A", "C"], "sortBy": 1}}, ["A", "b", "C"]),
        ({"$maxN": {"input": ["b", "A", "C"], "n": 1}}, ["C"]),
    ],
)
def test_collation_decides_which_strings_are_equal(spec: Any, expected: Any) -> None:
    expression = parse_expression(spec, collation=CaseInsensitive())
    assert expression(environment({}, {})) == expected


def test_object_ids_and_dates_sort_with_everything_else() -> None:
    values = [ObjectId(b"b" * 12), ObjectId(b"a" * 12), "x", 1]
    assert evaluate({"$sortArray": {"input": "$v", "sortBy": 1}}, {"v": values}) == [
        1,
        "x",
        values[1],
        values[0],
    ]


LAWS = settings(derandomize=False, print_blob=True, max_examples=60)
LISTS = st.lists(st.integers(-3, 3) | st.text("ab", max_size=1) | st.none() | st.floats(-2, 2), max_size=6)


@LAWS
@given(LISTS)
def test_reversing_twice_and_sorting_backwards(values: list[Any]) -> None:
    document = {"v": values}
    assert_value({"$reverseArray": {"$reverseArray": "$v"}}, document, values)
    ascending = evaluate({"$sortArray": {"input": "$v", "sortBy": 1}}, document)
    descending = evaluate({"$sortArray": {"input": "$v", "sortBy": -1}}, document)
    keys = [sort_key(value) for value in ascending]
    assert keys == sorted(keys)
    assert [sort_key(value) for value in reversed(descending)] == keys


@LAWS
@given(LISTS, LISTS)
def test_set_algebra(a: list[Any], b: list[Any]) -> None:
    document = {"a": a, "b": b}
    parts = {"$setUnion": [{"$setDifference": ["$a", "$b"]}, {"$setIntersection": ["$a", "$b"]}]}
    assert evaluate({"$setEquals": [parts, "$a"]}, document) is True
    assert evaluate({"$setIsSubset": [{"$setIntersection": ["$a", "$b"]}, "$b"]}, document) is True
    assert (
        evaluate({"$setEquals": [{"$setUnion": ["$a", "$b"]}, {"$concatArrays": ["$b", "$a"]}]}, document)
        is True
    )


@LAWS
@given(LISTS, st.integers(0, 7))
def test_slices_concatenate_to_the_array(values: list[Any], n: int) -> None:
    document = {"v": values, "n": n}
    rest = {"$slice": ["$v", "$n", 10]}
    assert_value({"$concatArrays": [{"$slice": ["$v", "$n"]}, rest]}, document, values)


@LAWS
@given(st.dictionaries(st.text("abc.$", min_size=1, max_size=3), st.integers(-5, 5), max_size=4))
def test_objects_and_arrays_convert_both_ways(value: dict[str, int]) -> None:
    assert_value({"$arrayToObject": {"$objectToArray": "$v"}}, {"v": value}, value)


def test_sets_of_many_elements() -> None:
    some: list[Any] = [number if number % 3 else float(number) for number in range(51_000, 0, -1)]
    document = {"a": [*some, 3, 2.0], "b": [3, 2.0, "x"]}
    assert_value({"$setUnion": ["$a", "$b"]}, document, [*reversed(some), "x"])
    assert_value({"$setIntersection": ["$a", "$b"]}, document, [2, 3.0])
    assert_value({"$setDifference": ["$a", "$b"]}, document, [*some[:-3], 1])
    assert evaluate({"$setEquals": ["$a", {"$reverseArray": "$a"}]}, document) is True
    assert evaluate({"$setIsSubset": ["$b", "$a"]}, document) is False
