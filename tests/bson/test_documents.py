"""Decoding and encoding preserve the bytes of documents, also of those that PyMongo changes or refuses."""

from typing import Any

import bson
import pytest
from bson import Binary, Code, DatetimeMS, Int64, ObjectId, Regex
from hypothesis import given, settings

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import DBPointer, Symbol, Undefined, decode, encode
from tailrace.errors import BsonError
from tests.bson.bson_strategies import documents as any_documents


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"b": 1, "_id": 2},
        {"a": Symbol("x"), "b": [Undefined(), {"c": DBPointer("db.c", ObjectId(bytes(12)))}]},
        {"x": {"$id": 1, "$ref": "c", "other": 2}},
        {"a": Code("f", {"s": Symbol("x")})},
        {"a": Binary(b"short", 4), "b": Binary(b"", 3), "c": Binary(b"x", 255)},
        {"a": DatetimeMS(-(2**62)), "b": Int64(1), "c": 1, "d": 1.0, "e": Regex("x", "im")},
    ],
)
def test_round_trip(document: dict[str, Any]) -> None:
    raw = encode(document)
    assert encode(decode(raw)) == raw
    assert list(decode(raw)) == list(document)


@settings(max_examples=200, print_blob=True)
@given(any_documents)
def test_any_document_has_the_same_bytes_after_a_round_trip(document: dict[str, Any]) -> None:
    raw = encode(document)
    assert encode(decode(raw)).hex() == raw.hex()


@pytest.mark.parametrize(
    "damaged",
    [b"", b"\x05", b"\x06\0\0\0\0", b"\x0c\0\0\0\x10a\0\x01\0\0\0\x01", b"\x08\0\0\0\x99a\0\0"],
)
def test_invalid_bson_is_refused(damaged: bytes) -> None:
    with pytest.raises(BsonError):
        decode(damaged)


def test_splicing_does_not_change_values() -> None:
    raw = bson.encode({"a": 1, "b": {"c": [1, 2]}, "d": "x"})
    assert rawbson.without(raw, (b"b",)) == bson.encode({"a": 1, "d": "x"})
    assert rawbson.without(raw, (b"a", b"d")) == bson.encode({"b": {"c": [1, 2]}})
    assert rawbson.without(raw, ()) is raw
    assert rawbson.subdocument(raw, b"b") == bson.encode({"c": [1, 2]})
    assert rawbson.subdocument(raw, b"a") is None
    assert rawbson.first_name(raw) == b"a"
    assert rawbson.first_name(bson.encode({})) is None
