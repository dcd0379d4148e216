"""Comparison operators: tables of filter, document and expected."""

from typing import Any

import pytest
from bson import Binary, Code, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

from tailrace.bson.values import DBPointer, Symbol, Undefined
from tailrace.errors import CommandError
from tailrace.query.collation import Collation
from tailrace.query.match import compile_match

NAN = float("nan")
INF = float("inf")
ID = ObjectId("0123456789abcdef01234567")
LATER_ID = ObjectId("0123456789abcdef01234568")

# (condition on a, document, expected)
EQUALITY: list[tuple[Any, dict[str, Any], bool]] = [
    (1, {"a": 1}, True),
    (1, {"a": 2}, False),
    (1, {}, False),
    (1, {"b": 1}, False),
    (1, {"a": 1.0}, True),
    (1, {"a": Int64(1)}, True),
    (1, {"a": Decimal128("1.00")}, True),
    (1.5, {"a": Decimal128("1.5")}, True),
    (Decimal128("1.5"), {"a": 1.5}, True),
    (Decimal128("0.1"), {"a": 0.1}, False),
    (Decimal128("1"), {"a": 1}, True),
    (2**53 + 1, {"a": float(2**53)}, False),
    (Int64(2**61), {"a": float(2**61)}, True),
    (0.0, {"a": -0.0}, True),
    (0, {"a": Decimal128("-0E+5")}, True),
    (1, {"a": True}, False),
    (True, {"a": 1}, False),
    (True, {"a": True}, True),
    (False, {"a": 0}, False),
    (False, {"a": None}, False),
    (1, {"a": "1"}, False),
    (NAN, {"a": NAN}, True),
    (NAN, {"a": Decimal128("NaN")}, True),
    (Decimal128("NaN"), {"a": NAN}, True),
    (NAN, {"a": 1}, False),
    (1, {"a": NAN}, False),
    (INF, {"a": Decimal128("Infinity")}, True),
    (INF, {"a": -INF}, False),
    ("x", {"a": "x"}, True),
    ("x", {"a": "X"}, False),
    ("x", {"a": Symbol("x")}, True),
    (Symbol("x"), {"a": "x"}, True),
    (Symbol("x"), {"a": Symbol("y")}, False),
    ("x", {"a": Code("x")}, False),
    (Code("x"), {"a": "x"}, False),
    (Code("x"), {"a": Code("x")}, True),
    (Code("x"), {"a": Code("x", {})}, False),
    (Code("x", {"y": 1}), {"a": Code("x", {"y": 1.0})}, True),
    ("", {"a": ""}, True),
    ("", {}, False),
    (ID, {"a": ID}, True),
    (ID, {"a": LATER_ID}, False),
    (ID, {"a": str(ID)}, False),
    (b"ab", {"a": b"ab"}, True),
    (b"ab", {"a": Binary(b"ab", 0)}, True),
    (b"ab", {"a": Binary(b"ab", 5)}, False),
    (Binary(b"ab", 4), {"a": Binary(b"ab", 4)}, True),
    (DatetimeMS(5), {"a": DatetimeMS(5)}, True),
    (DatetimeMS(5), {"a": 5}, False),
    (DatetimeMS(5), {"a": Timestamp(5, 0)}, False),
    (Timestamp(1, 2), {"a": Timestamp(1, 2)}, True),
    (Timestamp(1, 2), {"a": Timestamp(2, 1)}, False),
    (DBPointer("c", ID), {"a": DBPointer("c", ID)}, True),
    (MinKey(), {"a": MinKey()}, True),
    (MinKey(), {"a": None}, False),
    (MaxKey(), {"a": MaxKey()}, True),
    # Null
    (None, {"a": None}, True),
    (None, {}, True),
    (None, {"a": Undefined()}, False),
    (None, {"a": [Undefined()]}, False),
    (None, {"a": 0}, False),
    (None, {"a": []}, False),
    (None, {"a": {}}, False),
    (None, {"a": [None]}, True),
    (None, {"a": [1, None]}, True),
    (None, {"a": [[None]]}, False),
    # Documents
    ({}, {"a": {}}, True),
    ({}, {"a": {"b": 1}}, False),
    ({"b": 1}, {"a": {"b": 1}}, True),
    ({"b": 1}, {"a": {"b": 1.0}}, True),
    ({"b": 1}, {"a": {"b": 1, "c": 2}}, False),
    ({"b": 1, "c": 2}, {"a": {"c": 2, "b": 1}}, False),
    ({"b": 1, "c": 2}, {"a": {"b": 1, "c": 2}}, True),
    ({"b": None}, {"a": {}}, False),
    ({"b": {"c": [1]}}, {"a": {"b": {"c": [1]}}}, True),
    ({"b": 1}, {"a": [{"b": 1}]}, True),
    ({"b": 1, "$gt": 5}, {"a": {"b": 1, "$gt": 5}}, True),
    ({"$ref": "c", "$id": 1}, {"a": {"$ref": "c", "$id": 1}}, True),
    ({"$ref": "c", "$id": 1}, {"a": {"$ref": "c", "$id": 2}}, False),
    # Arrays
    (1, {"a": [1, 2]}, True),
    (3, {"a": [1, 2]}, False),
    (1, {"a": [[1]]}, False),
    ([1, 2], {"a": [1, 2]}, True),
    ([1, 2], {"a": [2, 1]}, False),
    ([1, 2], {"a": [1, 2, 3]}, False),
    ([1, 2], {"a": [[1, 2]]}, True),
    ([1, 2], {"a": [[[1, 2]]]}, False),
    ([1, 2], {"a": {"0": 1, "1": 2}}, False),
    ([], {"a": []}, True),
    ([], {"a": [[]]}, True),
    ([], {}, False),
    ([None], {"a": [None]}, True),
    # A regex without an operator searches
    (Regex("^f"), {"a": "foo"}, True),
    (Regex("^f"), {"a": "bar"}, False),
    (Regex("^f"), {"a": ["bar", "foo"]}, True),
    (Regex("^F", "i"), {"a": "foo"}, True),
    (Regex("^f"), {"a": Symbol("foo")}, True),
    (Regex("^f"), {"a": Regex("^f")}, True),
    (Regex("^f"), {"a": Regex("^f", "i")}, False),
    (Regex("^f", "mi"), {"a": Regex("^f", "im")}, True),
    (Regex("^f"), {}, False),
    (Regex("."), {"a": 1}, False),
]


@pytest.mark.parametrize(("condition", "document", "expected"), EQUALITY)
def test_equality(condition: Any, document: dict[str, Any], expected: bool) -> None:
    assert compile_match({"a": condition})(document) == expected


@pytest.mark.parametrize(
    ("condition", "document", "expected"), [row for row in EQUALITY if not isinstance(row[0], Regex)]
)
def test_eq_and_ne_agree_with_equality(condition: Any, document: dict[str, Any], expected: bool) -> None:
    assert compile_match({"a": {"$eq": condition}})(document) == expected
    assert compile_match({"a": {"$ne": condition}})(document) != expected


@pytest.mark.parametrize(
    ("condition", "document", "expected"),
    [row for row in EQUALITY if not isinstance(row[0], Regex) and not isinstance(row[1].get("a"), list)],
)
def test_equal_is_neither_above_nor_below(condition: Any, document: dict[str, Any], expected: bool) -> None:
    assert compile_match({"a": {"$gte": condition, "$lte": condition}})(document) == expected


@pytest.mark.parametrize(("condition", "document", "expected"), EQUALITY)
def test_in_and_nin_agree_with_equality(condition: Any, document: dict[str, Any], expected: bool) -> None:
    unlikely = [ObjectId(), "unlikely", Int64(2**40)]
    for values in ([condition], [*unlikely, condition], [condition, condition, *unlikely]):
        assert compile_match({"a": {"$in": values}})(document) == expected
        assert compile_match({"a": {"$nin": values}})(document) != expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(Regex("f"), True), (Regex("f", "i"), False), ("f", False), ([Regex("f")], True), (None, False)],
)
def test_eq_does_not_search_with_a_regex(value: Any, expected: bool) -> None:
    assert compile_match({"a": {"$eq": Regex("f")}})({"a": value}) == expected


# (operators on a, value of a, expected)
RANGES: list[tuple[dict[str, Any], Any, bool]] = [
    ({"$gt": 5}, 6, True),
    ({"$gt": 5}, 5, False),
    ({"$gte": 5}, 5, True),
    ({"$gte": 5}, 4.9, False),
    ({"$lt": 5}, 4, True),
    ({"$lt": 5}, 5, False),
    ({"$lte": 5}, 5.0, True),
    ({"$lte": 5}, 6, False),
    ({"$gt": 5}, Decimal128("5.0000000001"), True),
    ({"$lt": Decimal128("5.5")}, 5.25, True),
    ({"$lt": Decimal128("5.5")}, Decimal128("5.49"), True),
    ({"$gte": 2**53 + 1}, float(2**53), False),
    ({"$gt": 5}, "6", False),
    ({"$gt": 5}, True, False),
    ({"$gt": 5}, None, False),
    ({"$gt": 5}, DatetimeMS(6), False),
    ({"$lt": 5}, MinKey(), False),
    ({"$gt": 5}, MaxKey(), False),
    ({"$lt": 5}, INF, False),
    ({"$lt": 5}, -INF, True),
    ({"$lt": 5}, NAN, False),
    ({"$gt": 5}, NAN, False),
    ({"$gte": 5}, NAN, False),
    ({"$lt": 5}, Decimal128("NaN"), False),
    ({"$lt": Decimal128("5")}, NAN, False),
    ({"$lte": NAN}, NAN, True),
    ({"$gte": NAN}, NAN, True),
    ({"$gte": NAN}, Decimal128("NaN"), True),
    ({"$gte": Decimal128("NaN")}, NAN, True),
    ({"$lt": NAN}, NAN, False),
    ({"$gt": NAN}, NAN, False),
    ({"$gt": NAN}, 1, False),
    ({"$lte": NAN}, -INF, False),
    ({"$gt": "b"}, "c", True),
    ({"$gt": "b"}, "bb", True),
    ({"$gt": "b"}, "B", False),
    ({"$gt": "b"}, Symbol("c"), True),
    ({"$gt": Symbol("b")}, "c", True),
    ({"$gt": "b"}, 5, False),
    ({"$lt": "\uffff"}, "\U00010000", False),
    ({"$gt": False}, True, True),
    ({"$gt": False}, 1, False),
    ({"$lte": True}, False, True),
    ({"$gt": DatetimeMS(5)}, DatetimeMS(6), True),
    ({"$gt": DatetimeMS(5)}, DatetimeMS(-6), False),
    ({"$gt": Timestamp(1, 2)}, Timestamp(1, 3), True),
    ({"$gt": Timestamp(1, 2)}, Timestamp(0, 9), False),
    ({"$gt": ID}, LATER_ID, True),
    ({"$lt": ID}, LATER_ID, False),
    ({"$gt": b"b"}, b"a", False),
    ({"$gt": b"b"}, b"aa", True),
    ({"$gt": Binary(b"b", 1)}, Binary(b"a", 2), True),
    ({"$gt": {"b": 1}}, {"b": 2}, True),
    ({"$gt": {"b": 1}}, {"a": 2}, False),
    ({"$gt": {"b": 1}}, {"b": 1, "c": 0}, True),
    ({"$gt": {"b": 1}}, {"a": "x"}, True),
    ({"$gte": {}}, {}, True),
    ({"$gt": {}}, [], False),
    ({"$gt": Code("a")}, Code("b"), True),
    # Null
    ({"$gte": None}, None, True),
    ({"$lte": None}, None, True),
    ({"$gt": None}, None, False),
    ({"$lt": None}, None, False),
    ({"$gte": None}, 5, False),
    ({"$gte": None}, Undefined(), False),
    ({"$gte": None}, [1, None], True),
    ({"$gt": None}, 5, False),
    # Arrays
    ({"$gt": 5}, [1, 6], True),
    ({"$gt": 5}, [1, 5], False),
    ({"$gt": 5}, [], False),
    ({"$gt": 5}, [[6]], False),
    ({"$gt": 5, "$lt": 3}, [1, 9], True),
    ({"$gt": 5, "$lt": 8}, [1, 9], True),
    ({"$gt": [1, 2]}, [1, 3], True),
    ({"$gt": [1, 2]}, [1, 2], False),
    ({"$gt": [1, 2]}, [1], False),
    ({"$gt": [1, 2]}, [[1, 3]], True),
    ({"$gte": [1, 2]}, [1, 2], True),
    ({"$gt": [1, 2]}, 9, False),
    ({"$lt": [5]}, ["x"], False),
    # The ends of the order
    ({"$gt": MinKey()}, 1, True),
    ({"$gt": MinKey()}, None, True),
    ({"$gt": MinKey()}, Undefined(), True),
    ({"$gt": MinKey()}, MaxKey(), True),
    ({"$gt": MinKey()}, MinKey(), False),
    ({"$gte": MinKey()}, MinKey(), True),
    ({"$lt": MinKey()}, MinKey(), False),
    ({"$lte": MinKey()}, MinKey(), True),
    ({"$lte": MinKey()}, 1, False),
    ({"$lt": MaxKey()}, 1, True),
    ({"$lt": MaxKey()}, MinKey(), True),
    ({"$lt": MaxKey()}, MaxKey(), False),
    ({"$lte": MaxKey()}, MaxKey(), True),
    ({"$gt": MaxKey()}, MaxKey(), False),
    ({"$gte": MaxKey()}, MaxKey(), True),
    ({"$gte": MaxKey()}, 1, False),
    ({"$gt": MinKey()}, [], True),
    ({"$lt": MaxKey()}, [], True),
]


@pytest.mark.parametrize(("operators", "value", "expected"), RANGES)
def test_ranges(operators: dict[str, Any], value: Any, expected: bool) -> None:
    assert compile_match({"a": operators})({"a": value}) == expected


@pytest.mark.parametrize(
    ("operators", "expected"),
    [
        ({"$gte": None}, True),
        ({"$lte": None}, True),
        ({"$gt": None}, False),
        ({"$gt": MinKey()}, True),
        ({"$lt": MaxKey()}, True),
        ({"$lte": MinKey()}, False),
        ({"$lt": 5}, False),
        ({"$gt": ""}, False),
        ({"$gt": {}}, False),
        ({"$in": [None]}, True),
        ({"$in": []}, False),
        ({"$nin": []}, True),
        ({"$nin": [None]}, False),
        ({"$ne": None}, False),
        ({"$ne": 1}, True),
    ],
)
def test_missing_field(operators: dict[str, Any], expected: bool) -> None:
    assert compile_match({"a": operators})({}) == expected


# (filter, document, expected)
PATHS: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    ({"a.b": 1}, {"a": {"b": 1}}, True),
    ({"a.b": 1}, {"a": [{"b": 2}, {"b": 1}]}, True),
    ({"a.b": 1}, {"a": [[{"b": 1}]]}, False),
    ({"a.b": 1}, {"a": {"b": [0, 1]}}, True),
    ({"a.b": None}, {}, True),
    ({"a.b": None}, {"a": 4}, True),
    ({"a.b": None}, {"a": None}, True),
    ({"a.b": None}, {"a": Undefined()}, True),
    ({"a.b": None}, {"a": {"b": Undefined()}}, False),
    ({"a.b": None}, {"a": [4]}, False),
    ({"a.b": None}, {"a": []}, False),
    ({"a.b": None}, {"a": [[]]}, False),
    ({"a.b": None}, {"a": [4, {}]}, True),
    ({"a.b": None}, {"a": [{"b": 1}, {"b": None}]}, True),
    ({"a.b": None}, {"a": [{"b": 1}]}, False),
    ({"a.b": {"$ne": None}}, {"a": [4]}, True),
    ({"a.b": {"$ne": None}}, {"a": [{"b": 1}, {}]}, False),
    ({"a.b": {"$ne": 1}}, {"a": [{"b": 1}, {"b": 2}]}, False),
    ({"a.b": {"$nin": [1, 2]}}, {"a": [{"b": 3}]}, True),
    ({"a.0": 5}, {"a": [5, 6]}, True),
    ({"a.1": 5}, {"a": [5, 6]}, False),
    ({"a.0": 5}, {"a": {"0": 5}}, True),
    ({"a.0": 5}, {"a": [[5]]}, False),
    ({"a.0.0": 5}, {"a": [[5]]}, True),
    ({"a.0": [5]}, {"a": [[5]]}, True),
    ({"a.0.b": 1}, {"a": [{"b": 1}, {"b": 2}]}, True),
    ({"a.1.b": 1}, {"a": [{"b": 1}, {"b": 2}]}, False),
    ({"a.1.b": None}, {"a": [5, {"b": 4}, 3]}, True),
    ({"a": 1, "b": 2}, {"a": 1, "b": 2}, True),
    ({"a": 1, "b": 2}, {"a": 1, "b": 3}, False),
    ({}, {}, True),
    ({}, {"a": 1}, True),
    ({"": 1}, {"": 1}, True),
    ({"a..b": 1}, {"a": {"": {"b": 1}}}, True),
    ({"a.$b": 1}, {"a": {"$b": 1}}, True),
    ({"_id": ID}, {"_id": ID}, True),
]


@pytest.mark.parametrize(("filter_", "document", "expected"), PATHS)
def test_paths(filter_: dict[str, Any], document: dict[str, Any], expected: bool) -> None:
    assert compile_match(filter_)(document) == expected


@pytest.mark.parametrize(
    "condition",
    [
        Undefined(),
        {"$eq": Undefined()},
        {"$ne": Undefined()},
        {"$gt": Undefined()},
        {"$in": [1, Undefined()]},
        {"$nin": [Undefined()]},
        {"$all": [Undefined()]},
        {"$ne": Regex("a")},
        {"$gt": Regex("a")},
        {"$lte": Regex("a")},
        {"$in": 5},
        {"$in": {"a": 1}},
        {"$nin": "x"},
        {"$in": None},
        {"$in": [{"$gt": 1}]},
        {"$nin": [{"$regex": "a"}]},
    ],
)
def test_refused(condition: Any) -> None:
    with pytest.raises(CommandError) as caught:
        compile_match({"a": condition})
    assert caught.value.code == 2


# (filter, document, expected) with a collation that ignores case
COLLATED: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    ({"a": "FOO"}, {"a": "foo"}, True),
    ({"a": "FOO"}, {"a": Symbol("foo")}, True),
    ({"a": {"$eq": "FOO"}}, {"a": "bar"}, False),
    ({"a": {"$ne": "FOO"}}, {"a": "foo"}, False),
    ({"a": {"$in": ["BAR", "FOO"]}}, {"a": "foo"}, True),
    ({"a": {"$in": ["BAR", Regex("FOO")]}}, {"a": "foo"}, False),
    ({"a": {"$nin": ["FOO"]}}, {"a": ["x", "foo"]}, False),
    ({"a": {"$gt": "B"}}, {"a": "a"}, False),
    ({"a": {"$gt": "B"}}, {"a": "c"}, True),
    ({"a": {"$gte": "B"}}, {"a": "b"}, True),
    ({"a": {"$lt": "b"}}, {"a": "C"}, False),
    ({"a": {"b": "FOO"}}, {"a": {"b": "foo"}}, True),
    ({"a": {"B": "FOO"}}, {"a": {"b": "foo"}}, False),
    ({"a": ["FOO"]}, {"a": ["foo"]}, True),
    ({"a": {"$all": ["FOO", "BAR"]}}, {"a": ["foo", "bar"]}, True),
    ({"a": {"$elemMatch": {"$eq": "FOO"}}}, {"a": ["foo"]}, True),
    ({"a": {"$elemMatch": {"b": "FOO"}}}, {"a": [{"b": "foo"}]}, True),
    ({"a": {"$not": {"$eq": "FOO"}}}, {"a": "foo"}, False),
    ({"$or": [{"a": "FOO"}, {"a": "x"}]}, {"a": "foo"}, True),
    ({"a": Regex("FOO")}, {"a": "foo"}, False),
    ({"a": {"$regex": "FOO"}}, {"a": "foo"}, False),
    ({"a": 5}, {"a": 5.0}, True),
    ({"$expr": {"$eq": ["$a", "FOO"]}}, {"a": "foo"}, True),
    ({"$jsonSchema": {"properties": {"a": {"enum": ["FOO"]}}}}, {"a": "foo"}, False),
]


@pytest.mark.parametrize(("filter_", "document", "expected"), COLLATED)
def test_collation(filter_: dict[str, Any], document: dict[str, Any], expected: bool) -> None:
    collation = Collation.parse({"locale": "en", "strength": 2})
    assert compile_match(filter_, collation=collation)(document) == expected


def test_one_of_many_values() -> None:
    matches = compile_match({"a": {"$in": [*range(0, 120_000, 2), "x", None]}})
    found = [
        value for value in (0, 1, 2.0, 119_998, 120_000, "x", "y", None, [1, 4]) if matches({"a": value})
    ]
    assert found == [0, 2.0, 119_998, "x", None, [1, 4]]
