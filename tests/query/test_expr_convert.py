"""Conversions between types: every supported pair, every kind of failure, and type names."""

import math
from typing import Any
from uuid import UUID

import pytest
from bson import (
    Binary,
    Code,
    DatetimeMS,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.bson.values import DBPointer, Symbol, Undefined
from tailrace.query.missing import MISSING
from tests.query.expr_helpers import assert_code, assert_value, evaluate

D = Decimal128
T = DatetimeMS
OID = ObjectId("0123456789abcdef01234567")
UUID_BYTES = bytes.fromhex("867dee52c331484e92d1c56479b8e67e")
UUID_TEXT = "867dee52-c331-484e-92d1-c56479b8e67e"
UUID_BINARY = Binary(UUID_BYTES, 4)

CONVERSIONS: list[tuple[Any, str, Any]] = [
    (1.9, "double", 1.9), (1.9, "string", "1.9"), (1.9, "bool", True), (1.9, "date", T(1)), (1.9, "int", 1),
    (1.9, "long", Int64(1)), (1.9, "decimal", D("1.90000000000000")), (-1.9, "int", -1), (0.0, "bool", False),
    (math.nan, "bool", True), (math.nan, "string", "NaN"), (-math.inf, "string", "-Infinity"),
    (5, "double", 5.0), (5, "string", "5"), (5, "bool", True), (5, "int", 5), (5, "long", Int64(5)),
    (5, "decimal", D("5")),
    (Int64(5), "double", 5.0), (Int64(5), "string", "5"), (Int64(0), "bool", False), (Int64(5), "int", 5),
    (Int64(5), "long", Int64(5)), (Int64(5), "decimal", D("5")), (Int64(5), "date", T(5)),
    (D("1.9"), "double", 1.9), (D("1.90"), "string", "1.90"), (D("0.0"), "bool", False),
    (D("1.9"), "date", T(1)),
    (D("-1.9"), "int", -1), (D("1.9"), "long", Int64(1)), (D("1.9"), "decimal", D("1.9")),
    (False, "double", 0.0), (True, "string", "true"), (True, "bool", True), (True, "int", 1),
    (False, "long", Int64(0)), (True, "decimal", D("1")),
    ("1.9", "double", 1.9), ("-1e3", "double", -1000.0), (".5", "double", 0.5), ("inf", "double", math.inf),
    ("str", "string", "str"), ("", "bool", True), ("12", "int", 12), ("-12", "int", -12), ("+12", "int", 12),
    ("12", "long", Int64(12)), ("1.90", "decimal", D("1.90")), ("0123456789abcdef01234567", "objectId", OID),
    ("1970-01-01T00:00:00.001Z", "date", T(1)), ("1970-01-02", "date", T(86400000)),
    (OID, "string", "0123456789abcdef01234567"), (OID, "bool", True), (OID, "objectId", OID),
    (OID, "date", T(0x01234567 * 1000)),
    (T(123), "double", 123.0), (T(123), "string", "1970-01-01T00:00:00.123Z"), (T(0), "bool", True),
    (T(123), "date", T(123)), (T(123), "long", Int64(123)), (T(-1), "decimal", D("-1")),
    (Timestamp(3, 1), "date", T(3000)), (Timestamp(0, 0), "bool", True),
    (MinKey(), "bool", True), ({"a": 1}, "bool", True), ([0], "bool", True), (b"", "bool", True),
    (Regex("a"), "bool", True), (Code("x"), "bool", True), (Symbol("x"), "bool", True),
    (b"\x00\x00\x00\x2a", "int", 704643072), (b"\x02", "int", 2), (b"\xa2\x02\x00\x00", "long", Int64(674)),
    (b"\xcd\xcc\xcc\xcc\xcc\xcc\x04\xc0", "double", -2.6),
]  # fmt: skip

SHORTHANDS = {
    "double": "$toDouble", "string": "$toString", "bool": "$toBool", "date": "$toDate", "int": "$toInt",
    "long": "$toLong", "decimal": "$toDecimal", "objectId": "$toObjectId",
}  # fmt: skip


@pytest.mark.parametrize(("value", "target", "expected"), CONVERSIONS)
def test_conversion(value: Any, target: str, expected: Any) -> None:
    document = {"v": value, "to": target}
    assert_value({"$convert": {"input": "$v", "to": "$to"}}, document, expected)
    assert_value({SHORTHANDS[target]: "$v"}, document, expected)


IMPOSSIBLE: list[tuple[Any, str]] = [
    (1.9, "objectId"), (5, "date"), (5, "objectId"), (True, "date"), (True, "objectId"), (OID, "int"),
    (OID, "double"), (T(1), "int"), (T(1), "objectId"), (1, "minKey"), (1, "missing"), (1, "object"),
    (1, "array"),
    (1, "null"), (1, "undefined"), (1, "regex"), (1, "dbPointer"), (1, "javascript"), (1, "symbol"),
    (1, "javascriptWithScope"), (1, "timestamp"), (1, "maxKey"), ([1], "string"), ({"a": 1}, "string"),
    (math.nan, "int"), (math.inf, "long"), (1e30, "long"), (2.0**31, "int"), (Int64(2**31), "int"),
    (D("1E+30"), "long"), (D("NaN"), "int"), (D("Infinity"), "date"), (D("1E+400"), "double"),
    ("", "int"), ("x", "int"), ("1.5", "int"), ("1e3", "int"), (" 1", "int"), ("1 ", "double"),
    ("0x10", "double"),
    ("0x10", "int"), ("2147483648", "int"), ("9223372036854775808", "long"), ("1e400", "double"),
    (D("9E+6144"), "int"), (D("9E+6144"), "long"), (D("9E+6144"), "date"),
    ("1E+7000", "decimal"), ("--1", "decimal"), ("zz", "objectId"), ("0123", "objectId"),
    ("nonsense", "date"),
    ("12:00", "date"), ("2017-02-30", "date"), (D("1.5"), "binData"), (OID, "binData"), (b"12345678", "int"),
    (b"12345", "double"), (b"", "long"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "target"), IMPOSSIBLE)
def test_impossible_conversion(value: Any, target: str) -> None:
    document = {"v": value}
    assert_code({"$convert": {"input": "$v", "to": target}}, document, 241)
    assert_value({"$convert": {"input": "$v", "to": target, "onError": "bad"}}, document, "bad")
    assert_value({"$convert": {"input": "$v", "to": target, "onError": "$$REMOVE"}}, document, MISSING)


@pytest.mark.parametrize("value", [None, MISSING, Undefined()])
def test_null_converts_to_null(value: Any) -> None:
    document = {} if value is MISSING else {"v": value}
    assert_value({"$convert": {"input": "$v", "to": "int"}}, document, None)
    assert_value({"$convert": {"input": "$v", "to": "int", "onNull": 0, "onError": 1}}, document, 0)
    assert_value({"$convert": {"input": "$v", "to": None, "onNull": 0}}, document, 0)
    assert_value({"$toString": "$v"}, document, None)
    assert_value({"$convert": {"input": 1, "to": "$v"}}, document, None)


@pytest.mark.parametrize(
    ("number", "target"), [(1, 1.0), (2, "1"), (8, True), (9.0, T(1)), (16, 1), (18, Int64(1)), (19, D("1"))]
)
def test_types_by_number(number: Any, target: Any) -> None:
    assert_value({"$convert": {"input": Int64(1), "to": number}}, {}, target)
    assert_value({"$convert": {"input": Int64(1), "to": {"type": number}}}, {}, target)


BINARY: list[tuple[Any, Any, str | None, Any]] = [
    (UUID_TEXT, {"type": "binData", "subtype": 4}, "uuid", UUID_BINARY),
    ("hn3uUsMxSE6S0cVkebjmfg==", "binData", "base64", UUID_BYTES),
    ("hn3uUsMxSE6S0cVkebjmfg", "binData", "base64url", UUID_BYTES),
    ("867DEE52C331484e92d1c56479b8e67e", "binData", "hex", UUID_BYTES),
    ("🙂", {"type": "binData", "subtype": 0}, "utf8", "🙂".encode()),
    ("aGk=", {"type": "binData", "subtype": 128}, "base64", Binary(b"hi", 128)),
    (UUID_BINARY, "string", "uuid", UUID_TEXT),
    (UUID_BINARY, "string", "auto", UUID_TEXT),
    (UUID_BYTES, "string", "auto", "hn3uUsMxSE6S0cVkebjmfg=="),
    (UUID_BINARY, "string", "base64", "hn3uUsMxSE6S0cVkebjmfg=="),
    (UUID_BYTES, "string", "base64url", "hn3uUsMxSE6S0cVkebjmfg"),
    (UUID_BYTES, "string", "hex", "867DEE52C331484E92D1C56479B8E67E"),
    ("🙂".encode(), "string", "utf8", "🙂"),
    (UUID_BINARY, {"type": "binData", "subtype": 4}, None, UUID_BINARY),
    (b"x", "binData", None, b"x"),
    (-375, "binData", None, b"\x89\xfe\xff\xff"),
    (Int64(200), {"type": "binData", "subtype": 5}, None, Binary(b"\xc8" + bytes(7), 5)),
    (-2.5, "binData", None, b"\0\0\0\0\0\0\x04\xc0"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "to", "chosen", "expected"), BINARY)
def test_binary_data(value: Any, to: Any, chosen: str | None, expected: Any) -> None:
    assert_value({"$convert": {"input": "$v", "to": to, "format": chosen}}, {"v": value}, expected)


@pytest.mark.parametrize(
    ("value", "to", "chosen"),
    [
        (UUID_TEXT, "binData", "uuid"),
        ("hn3u", {"type": "binData", "subtype": 4}, "base64"),
        ("hn3u", "binData", "auto"),
        ("867dee--52", {"type": "binData", "subtype": 4}, "uuid"),
        ("8!", "binData", "base64"),
        ("8!", "binData", "base64url"),
        ("abc", "binData", "hex"),
        ("ab cd", "binData", "hex"),
        (b"\xff\xfe", "string", "utf8"),
        (b"x", "string", "uuid"),
        (UUID_BINARY, "binData", None),
        (b"x", {"type": "binData", "subtype": 4}, None),
    ],
)
def test_binary_data_that_does_not_convert(value: Any, to: Any, chosen: str | None) -> None:
    assert_code({"$convert": {"input": "$v", "to": to, "format": chosen}}, {"v": value}, 241)


def test_byte_order() -> None:
    big = {"input": "$v", "to": "int", "byteOrder": "big"}
    assert_value({"$convert": big}, {"v": b"\xfe\x89"}, -375)
    assert_value({"$convert": {**big, "to": "double"}}, {"v": bytes.fromhex("41533333")}, 13.199999809265137)
    assert_value({"$convert": {**big, "to": "binData"}}, {"v": -375}, b"\xff\xff\xfe\x89")


def test_uuids() -> None:
    assert_value({"$toUUID": UUID_TEXT}, {}, Binary(UUID(UUID_TEXT).bytes, 4))
    assert_value({"$toString": "$u"}, {"u": UUID_BINARY}, UUID_TEXT)
    assert_code({"$toUUID": "nonsense"}, {}, 241)


BASES: list[tuple[Any, str, int, Any]] = [
    (10, "string", 2, "1010"), (Int64(10), "string", 8, "12"), (10.0, "string", 10, "10"),
    (D("10"), "string", 16, "A"),
    (-10, "string", 16, "-A"), (0, "string", 2, "0"), ("1010", "int", 2, 10), ("12", "double", 8, 10.0),
    ("-10", "long", 10, Int64(-10)), ("a", "decimal", 16, D("10")), (1.9, "double", 2, 1.9),
]  # fmt: skip


@pytest.mark.parametrize(("value", "to", "base", "expected"), BASES)
def test_base(value: Any, to: str, base: int, expected: Any) -> None:
    assert_value({"$convert": {"input": value, "to": to, "base": base}}, {}, expected)


@pytest.mark.parametrize(
    ("value", "to", "base"),
    [("zzz", "int", 2), ("8", "int", 8), (10.1, "string", 2), ("0xa", "long", 16), ("80000000", "int", 16),
     ("8000000000000000", "double", 16)],
)  # fmt: skip
def test_text_that_is_no_number_in_its_base(value: Any, to: str, base: int) -> None:
    assert_code({"$convert": {"input": value, "to": to, "base": base}}, {}, 241)


ERRORS: list[tuple[Any, int]] = [
    ({"$convert": 1}, 9),
    ({"$convert": {"input": 1}}, 9),
    ({"$convert": {"to": "int"}}, 9),
    ({"$convert": {"input": 1, "to": "int", "x": 1}}, 9),
    ({"$convert": {"input": 1, "to": "nothing"}}, 2),
    ({"$convert": {"input": 1, "to": -2}}, 9),
    ({"$convert": {"input": 1, "to": True}}, 9),
    ({"$convert": {"input": 1, "to": {"type": -2}}}, 9),
    ({"$convert": {"input": 1, "to": {"x": 1}}}, 9),
    ({"$convert": {"input": "a", "to": {"type": "binData", "subtype": 1000}, "format": "hex"}}, 4341107),
    ({"$convert": {"input": "a", "to": {"type": "binData", "subtype": 1.5}, "format": "hex"}}, 4341106),
    ({"$convert": {"input": "a", "to": "binData"}}, 4341115),
    ({"$convert": {"input": "a", "to": "binData", "format": 1}}, 4341114),
    ({"$convert": {"input": "a", "to": "binData", "format": "x"}}, 4341125),
    ({"$convert": {"input": "a", "to": {"type": "binData", "subtype": "x"}, "format": "hex"}}, 4341108),
    ({"$convert": {"input": 1, "to": "string", "base": 2.1}}, 3501300),
    ({"$convert": {"input": 1, "to": "string", "base": 3}}, 3501301),
    ({"$convert": {"input": True, "to": "bool", "base": 3}}, 3501301),
    ({"$convert": {"input": 1, "to": "binData", "byteOrder": 1}}, 9130001),
    ({"$convert": {"input": 1, "to": "binData", "byteOrder": "silly"}}, 9130002),
    ({"$convert": {"input": {"$divide": [1, 0]}, "to": "int", "onError": 1}}, 2),
    ({"$toInt": [1, 2]}, 50723),
    ({"$toInt": []}, 50723),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "code"), ERRORS)
def test_error(spec: Any, code: int) -> None:
    assert_code(spec, {}, code)


TYPES: list[tuple[Any, str]] = [
    (1, "int"), (2**40, "long"), (Int64(1), "long"), (1.0, "double"), (D("1"), "decimal"), ("a", "string"),
    ({}, "object"), ([], "array"), (b"", "binData"), (Undefined(), "undefined"), (OID, "objectId"),
    (True, "bool"),
    (T(0), "date"), (None, "null"), (Regex("a"), "regex"), (DBPointer("a", OID), "dbPointer"),
    (Code("x"), "javascript"), (Symbol("x"), "symbol"), (Code("x", {}), "javascriptWithScope"),
    (Timestamp(1, 1), "timestamp"), (MinKey(), "minKey"), (MaxKey(), "maxKey"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "name"), TYPES)
def test_type_names(value: Any, name: str) -> None:
    assert evaluate({"$type": "$v"}, {"v": value}) == name
    assert evaluate({"$isNumber": "$v"}, {"v": value}) is (name in ("int", "long", "double", "decimal"))


def test_a_missing_field_has_the_type_missing() -> None:
    assert evaluate({"$type": "$v"}) == "missing"
    assert evaluate({"$isNumber": "$v"}) is False


def test_hashed_index_keys() -> None:
    assert_value({"$toHashedIndexKey": "string to hash"}, {}, Int64(763543691661428748))
    assert_value({"$toHashedIndexKey": 1}, {}, Int64(5902408780260971510))
    for same in (Int64(1), 1.0, 1.9, D("1.2")):
        assert_value({"$toHashedIndexKey": "$v"}, {"v": same}, Int64(5902408780260971510))
    different = [{"a": 1}, {"b": 1}, [1], None, "1", True, T(1)]
    assert len({evaluate({"$toHashedIndexKey": "$v"}, {"v": value}) for value in different}) == len(different)


LAWS = settings(derandomize=False, print_blob=True, max_examples=80)


@LAWS
@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from([2, 8, 10, 16]))
def test_integers_convert_to_text_and_back_in_every_base(number: int, base: int) -> None:
    text = {"$convert": {"input": "$v", "to": "string", "base": base}}
    assert_value(
        {"$convert": {"input": text, "to": "long", "base": base}}, {"v": Int64(number)}, Int64(number)
    )


@LAWS
@given(st.binary(max_size=12), st.sampled_from(["hex", "base64", "base64url"]))
def test_bytes_convert_to_text_and_back(data: bytes, chosen: str) -> None:
    text = {"$convert": {"input": "$v", "to": "string", "format": chosen}}
    assert_value({"$convert": {"input": text, "to": "binData", "format": chosen}}, {"v": data}, data)


@LAWS
@given(st.integers(-62135596800000, 253402300799999))
def test_dates_convert_to_text_and_back(millis: int) -> None:
    assert_value({"$toDate": {"$toString": "$v"}}, {"v": T(millis)}, T(millis))


@pytest.mark.parametrize("digits", ["9" * 5000, "-" + "9" * 5000, "+" + "1" * 65])
@pytest.mark.parametrize("target", ["int", "long"])
def test_more_digits_than_an_integer_has(digits: str, target: str) -> None:
    """Python refuses to read more than 4,300 digits."""
    assert_code({"$convert": {"input": digits, "to": target}}, {}, 241)
    assert_value({"$convert": {"input": digits, "to": target, "onError": "too many"}}, {}, "too many")


def test_leading_zeros_are_no_digits() -> None:
    assert_value({"$toLong": "0" * 5000 + "7"}, {}, Int64(7))
