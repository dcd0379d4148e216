"""Fields that a document has twice, and values as a shell shows them."""

from typing import Any

import pytest
from bson import Binary, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import decode, encode
from tailrace.bson.repeated import repeated_field, with_repeated_fields
from tailrace.bson.shell_notation import shell


def fields(*pairs: tuple[str, Any]) -> bytes:
    """A document with these fields, which may repeat names."""
    return rawbson.document(*(rawbson.body(encode({name: value})) for name, value in pairs))


def nested(name: str, inner: bytes, kind: int = rawbson.DOCUMENT) -> bytes:
    return rawbson.document(rawbson.element(kind, name.encode(), inner))


def test_a_document_without_repeated_fields_is_returned_as_it_is() -> None:
    decoded = decode(encode({"a": 1, "b": {"c": [1, {"d": 2}]}}))
    assert with_repeated_fields(encode(decoded), decoded) is decoded
    assert repeated_field(decoded) is None


def test_the_last_value_counts() -> None:
    raw = fields(("a", 1), ("b", 2), ("a", 3), ("b", 4), ("c", 5))
    found = with_repeated_fields(raw, decode(raw))
    assert found == {"a": 3, "b": 4, "c": 5}
    assert repeated_field(found) == "b"


def test_documents_within_documents_and_arrays() -> None:
    inner = fields(("x", 1), ("y", "z"), ("x", 2))
    raw = nested("a", inner)
    found = with_repeated_fields(raw, decode(raw))
    assert found == {"a": {"x": 2, "y": "z"}}
    assert (repeated_field(found), repeated_field(found["a"])) == (None, "x")
    array = nested("0", inner)
    raw = rawbson.document(
        rawbson.body(encode({"first": DatetimeMS(5)})), rawbson.element(rawbson.ARRAY, b"a", array)
    )
    found = with_repeated_fields(raw, decode(raw))
    assert found == {"first": DatetimeMS(5), "a": [{"x": 2, "y": "z"}]}
    assert repeated_field(found["a"][0]) == "x"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, "{}"),
        ({"a": 1, "b": "x"}, '{ a: 1, b: "x" }'),
        ([], "[]"),
        ([1, None], "[ 1, null ]"),
        (1, "1"),
        (1.5, "1.5"),
        (Int64(5), "5"),
        (True, "true"),
        (False, "false"),
        (ObjectId(bytes(range(12))), "ObjectId('000102030405060708090a0b')"),
        (DatetimeMS(5), "new Date(5)"),
        (Timestamp(1, 2), "Timestamp(1, 2)"),
        (Decimal128("1.5"), "1.5"),
        (Regex("a"), "/a/"),
        (MinKey(), "MinKey"),
        (MaxKey(), "MaxKey"),
        (b"\x01\xff", "BinData(0, 01FF)"),
        (Binary(b"\x01\xff", 5), "BinData(5, 01FF)"),
        (Binary(bytes(range(16)), 4), 'UUID("00010203-0405-0607-0809-0a0b0c0d0e0f")'),
        (Binary(bytes(15), 4), "BinData(4, " + "00" * 15 + ")"),
        (Binary(bytes(16), 3), "BinData(3, " + "00" * 16 + ")"),
    ],
)
def test_values_as_a_shell_shows_them(value: Any, text: str) -> None:
    assert shell(value) == text
