"""`$exists` and `$type`."""

from typing import Any

import pytest
from bson import Binary, Code, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

from tailrace.bson.values import DBPointer, Symbol, Undefined
from tailrace.errors import CommandError
from tailrace.query.match import compile_match

# (filter, document, expected)
EXISTS: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    ({"a": {"$exists": True}}, {"a": 1}, True),
    ({"a": {"$exists": True}}, {"a": None}, True),
    ({"a": {"$exists": True}}, {"a": Undefined()}, True),
    ({"a": {"$exists": True}}, {"a": []}, True),
    ({"a": {"$exists": True}}, {"b": 1}, False),
    ({"a": {"$exists": False}}, {"b": 1}, True),
    ({"a": {"$exists": False}}, {"a": None}, False),
    ({"a": {"$exists": 1}}, {"a": 1}, True),
    ({"a": {"$exists": -123}}, {"a": 1}, True),
    ({"a": {"$exists": "false"}}, {"a": 1}, True),
    ({"a": {"$exists": ""}}, {"a": 1}, True),
    ({"a": {"$exists": {}}}, {"a": 1}, True),
    ({"a": {"$exists": []}}, {"a": 1}, True),
    ({"a": {"$exists": 0}}, {}, True),
    ({"a": {"$exists": 0.0}}, {}, True),
    ({"a": {"$exists": Int64(0)}}, {}, True),
    ({"a": {"$exists": Decimal128("0")}}, {}, True),
    ({"a": {"$exists": None}}, {}, True),
    ({"a": {"$exists": Undefined()}}, {}, True),
    ({"a.b": {"$exists": True}}, {"a": {"b": None}}, True),
    ({"a.b": {"$exists": True}}, {"a": [{}, {"b": 1}]}, True),
    ({"a.b": {"$exists": True}}, {"a": [{}, 1]}, False),
    ({"a.b": {"$exists": False}}, {"a": [{}, {"b": 1}]}, False),
    ({"a.b": {"$exists": False}}, {"a": [1]}, True),
    ({"a.b": {"$exists": False}}, {"a": []}, True),
    ({"a.0": {"$exists": True}}, {"a": [1]}, True),
    ({"a.1": {"$exists": True}}, {"a": [1]}, False),
]


@pytest.mark.parametrize(("filter_", "document", "expected"), EXISTS)
def test_exists(filter_: dict[str, Any], document: dict[str, Any], expected: bool) -> None:
    assert compile_match(filter_)(document) == expected


# One value of every type, by code and alias.
VALUES: list[tuple[int, str, Any]] = [
    (1, "double", 1.0),
    (2, "string", "x"),
    (3, "object", {"x": 1}),
    (5, "binData", b"x"),
    (6, "undefined", Undefined()),
    (7, "objectId", ObjectId()),
    (8, "bool", False),
    (9, "date", DatetimeMS(0)),
    (10, "null", None),
    (11, "regex", Regex("x")),
    (12, "dbPointer", DBPointer("c", ObjectId())),
    (13, "javascript", Code("x")),
    (14, "symbol", Symbol("x")),
    (15, "javascriptWithScope", Code("x", {})),
    (16, "int", 1),
    (17, "timestamp", Timestamp(1, 1)),
    (18, "long", Int64(1)),
    (19, "decimal", Decimal128("1")),
    (-1, "minKey", MinKey()),
    (127, "maxKey", MaxKey()),
]


@pytest.mark.parametrize(("code", "alias", "value"), VALUES)
def test_type_matches_only_its_own_type(code: int, alias: str, value: Any) -> None:
    for wanted in (code, float(code), Int64(code), Decimal128(str(code)), alias, [alias], [code, alias]):
        matcher = compile_match({"a": {"$type": wanted}})
        assert [name for _, name, other in VALUES if matcher({"a": other})] == [alias]
        assert matcher({"a": [value]})
        assert not matcher({"a": [[value]]})
        assert not matcher({})
        assert compile_match({"a": {"$not": {"$type": wanted}}})({})


# (types, value, expected)
TYPES: list[tuple[Any, Any, bool]] = [
    ("number", 1, True),
    ("number", 1.5, True),
    ("number", Int64(1), True),
    ("number", Decimal128("1"), True),
    ("number", True, False),
    ("number", "1", False),
    ("array", [], True),
    ("array", [1], True),
    ("array", [[]], True),
    ("array", 1, False),
    (4, [1], True),
    ("string", ["x"], True),
    ("string", [["x"]], False),
    ("object", [{}], True),
    ("long", 2**40, True),
    ("int", 2**40, False),
    ("binData", Binary(b"", 4), True),
    (["string", "number"], 5, True),
    (["string", "number"], "x", True),
    (["string", "number"], None, False),
    (["long", 2, "array", "long"], [], True),
]


@pytest.mark.parametrize(("types", "value", "expected"), TYPES)
def test_type(types: Any, value: Any, expected: bool) -> None:
    assert compile_match({"a": {"$type": types}})({"a": value}) == expected


def test_type_of_an_array_at_an_index() -> None:
    matcher = compile_match({"a.0": {"$type": "array"}})
    assert matcher({"a": [[]]})
    assert not matcher({"a": [1]})
    assert compile_match({"a.0.0": {"$type": "array"}})({"a": [[[]]]})


@pytest.mark.parametrize(
    ("types", "code"),
    [
        ("float", 2),
        ("", 2),
        ("missing", 2),
        ("String", 2),
        (0, 2),
        (42, 2),
        (-123, 2),
        (255, 2),
        (2.5, 2),
        (float("nan"), 2),
        (float("inf"), 2),
        (Decimal128("2.5"), 2),
        (Int64(2**40), 2),
        (None, 14),
        (True, 14),
        ({}, 14),
        ([], 9),
        (["string", None], 14),
        ([{}, "string"], 14),
        (["string", "nope"], 2),
        ([["string"]], 14),
    ],
)
def test_type_refused(types: Any, code: int) -> None:
    with pytest.raises(CommandError) as caught:
        compile_match({"a": {"$type": types}})
    assert caught.value.code == code
