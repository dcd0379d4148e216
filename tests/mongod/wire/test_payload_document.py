"""Documents in messages: valid ones, refused ones, and those that only PyMongo refuses."""

from struct import pack
from typing import Any

import bson
import pytest
from bson import Binary, Code, DBRef, Regex
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.bson.documents import decode, encode
from tailrace.bson.values import DBPointer, Symbol
from tailrace.errors import CommandError
from tailrace.mongod.wire.payload_document import MAX_DEPTH, check_document
from tests.bson.bson_strategies import documents

ANY_ID = bson.ObjectId(bytes(12))
EVERYTHING = encode(
    {
        "s": "ä", "d": {"x": [1, 2.5, None, True, {"q": "z"}]}, "b": b"abc", "u": Binary(bytes(16), 4),
        "old": Binary(b"12", 2), "re": Regex("a", "i"), "c": Code("f"), "cs": Code("f", {"k": "v"}),
        "sy": Symbol("s"), "dp": DBPointer("a.b", ANY_ID), "ref": {"$ref": "c", "$id": 1},
    }
)  # fmt: skip


@settings(max_examples=60, derandomize=False, print_blob=True, deadline=None)
@given(documents)
def test_documents_of_every_type_are_accepted(document: dict[str, Any]) -> None:
    check_document(encode(document))


@settings(max_examples=350, derandomize=False, print_blob=True, deadline=None)
@given(st.lists(st.tuples(st.integers(4, len(EVERYTHING) - 2), st.integers(0, 255)), min_size=1, max_size=3))
def test_accepted_documents_can_be_decoded(changes: list[tuple[int, int]]) -> None:
    """A damaged document is refused with a code, or can be decoded."""
    damaged = bytearray(EVERYTHING)
    for position, byte in changes:
        damaged[position] = byte
    document = bytes(damaged)
    code = refusal_code(document)
    assert code in (None, 22)
    if code is None:
        decode(document)
    else:
        with pytest.raises(bson.errors.InvalidBSON):  # PyMongo refuses it, too
            bson.decode(document)


def refusal_code(document: bytes) -> int | None:
    try:
        check_document(document)
    except CommandError as refusal:
        return refusal.code
    return None


def element(kind: int, value: bytes) -> bytes:
    return pack("<i", len(value) + 8) + bytes([kind]) + b"x\0" + value + b"\0"


REFUSED = {
    "a string without its NUL": element(2, pack("<i", 2) + b"ab"),
    "a string that is no UTF-8": element(2, pack("<i", 2) + b"\xff\0"),
    "a string of no length": element(2, pack("<i", 0)),
    "a string that runs out": element(2, pack("<i", 3) + b"a\0"),
    "a name that is no UTF-8": b"\x08\0\0\0\x0a\xff\0\0",
    "a name without its end": b"\x08\0\0\0\x0aabc",
    "a boolean of 2": element(8, b"\2"),
    "an old binary with two lengths": element(5, pack("<iBi", 4, 2, 1)),
    "an old binary too short for one": element(5, pack("<iB", 2, 2) + b"ab"),
    "code whose scope is not its rest": element(15, pack("<ii", 15, 1) + b"\0" + b"\5\0\0\0\0" + b"\0\0"),
    "code that is its whole value": element(15, pack("<ii", 9, 1) + b"\0"),
    "an array that runs out": element(4, pack("<i", 50) + b"\0"),
    "a pattern that is no UTF-8": element(11, b"\xff\0\0"),
    "a pattern without options": element(11, b"a\0"),
    "a pointer whose text has no NUL": element(12, pack("<i", 1) + b"a" + bytes(12)),
    "a value that is missing": element(16, b""),
}


@pytest.mark.parametrize("document", REFUSED.values(), ids=REFUSED)
def test_invalid_bson_is_refused(document: bytes) -> None:
    assert refusal_code(document) == 22


@pytest.mark.parametrize(
    "document",
    [
        element(5, pack("<iB", 3, 4) + b"abc"),
        element(4, b"\x08\0\0\0\x0a\xff\0\0"),
        encode({"x": Symbol("s"), "y": DBPointer("a.b", ANY_ID), "short uuid": Binary(b"abc", 3)}),
    ],
    ids=["a short UUID", "an array with a name of its own", "old types"],
)
def test_documents_that_mongodb_stores_are_accepted(document: bytes) -> None:
    check_document(document)


def nested(depth: int, kind: str) -> bytes:
    value: Any = {}
    for _ in range(depth):
        value = {
            "document": {"a": value},
            "array": {"a": [value]},
            "code": {"a": Code("f", value)},
            "reference": {"a": DBRef("c", 1, None, {"b": value})},
            "pointer": {"a": value, "p": DBPointer("a.b", ANY_ID)},
            # PyMongo cannot decode a short UUID, so the bytes are checked one by one.
            "document, by bytes": {"a": value, "u": Binary(b"abc", 4)},
            "array, by bytes": {"a": [value], "u": Binary(b"abc", 4)},
            "code, by bytes": {"a": Code("f", value), "u": Binary(b"abc", 4)},
        }[kind]
    return encode(value)


@pytest.mark.parametrize(
    ("kind", "levels"),
    [
        ("document", 1),
        ("array", 2),
        ("code", 1),
        ("reference", 2),
        ("pointer", 1),
        ("document, by bytes", 1),
        ("array, by bytes", 2),
        ("code, by bytes", 1),
    ],
)
def test_depth_is_limited_through_every_container(kind: str, levels: int) -> None:
    assert refusal_code(nested(MAX_DEPTH // levels, kind)) is None
    assert refusal_code(nested(MAX_DEPTH // levels + 1, kind)) == 15


def test_width_is_not_depth() -> None:
    check_document(encode({"a": [{"b": [3, 4]}] * 5000}))
