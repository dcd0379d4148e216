"""Read the fields of a command."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from bson import Decimal128, Int64, Timestamp

from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.arguments import Arguments


def code_of(work: Callable[[], Any]) -> tuple[int, str]:
    with pytest.raises(CommandError) as failure:
        work()
    return failure.value.code, failure.value.message


def test_fields_are_read_by_type() -> None:
    arguments = Arguments("x", {
        "t": "text", "b": True, "i": 3, "l": Int64(2**40), "d": {"a": 1}, "a": [1], "s": Timestamp(1, 2),
        "n": 2.5, "v": None,
    })  # fmt: skip
    assert arguments.text("t") == "text"
    assert arguments.boolean("b") is True
    assert arguments.integer("i") == 3
    assert arguments.integer("l") == 2**40
    assert arguments.document("d") == {"a": 1}
    assert arguments.array("a") == [1]
    assert arguments.timestamp("s") == Timestamp(1, 2)
    assert arguments.number("n") == 2.5
    assert arguments.value("v", 7) == 7
    arguments.finish()


def test_missing_fields_have_defaults() -> None:
    arguments = Arguments("x", {})
    assert arguments.text("t", None) is None
    assert arguments.boolean("b", True) is True
    assert arguments.integer("i", 5) == 5
    assert arguments.nested("d") is None
    assert not arguments.has("t")


def test_required_fields() -> None:
    missing = (40414, "BSON field 'x.a' is missing but a required field")
    for document in ({}, {"a": None}):
        for name in ("text", "boolean", "integer", "number", "document", "array", "timestamp", "value"):
            assert code_of(partial(getattr(Arguments("x", document), name), "a")) == missing


@pytest.mark.parametrize(
    ("read", "value", "found", "expected"),
    [
        ("text", 1, "int", "type 'string'"),
        ("boolean", "yes", "string", "types '[bool, long, int, decimal, double]'"),
        ("integer", "1", "string", "types '[long, int, decimal, double]'"),
        ("integer", True, "bool", "types '[long, int, decimal, double]'"),
        ("number", [], "array", "types '[long, int, decimal, double]'"),
        ("document", [], "array", "type 'object'"),
        ("array", {}, "object", "type 'array'"),
        ("timestamp", 1, "int", "type 'timestamp'"),
    ],
)
def test_wrong_types(read: str, value: Any, found: str, expected: str) -> None:
    arguments = Arguments("x", {"a": value})
    code, message = code_of(lambda: getattr(arguments, read)("a"))
    assert code == 14
    assert message == f"BSON field 'x.a' is the wrong type '{found}', expected {expected}"


def test_strict_booleans() -> None:
    assert Arguments("x", {"a": 1}).boolean("a") is True
    assert code_of(lambda: Arguments("x", {"a": 1}).boolean("a", strict=True))[0] == 14


@pytest.mark.parametrize(
    ("value", "whole"),
    [
        (2.9, 2),
        (-2.9, -2),
        (Decimal128("7.5"), 8),
        (float("nan"), 0),
        (float("inf"), 2**63 - 1),
        (float("-inf"), -(2**63)),
        (Decimal128("1E+100"), 2**63 - 1),
        (Decimal128("NaN"), 0),
        (Decimal128("sNaN"), 0),
    ],
)
def test_numbers_are_truncated_to_integers(value: Any, whole: int) -> None:
    assert Arguments("x", {"a": value}).integer("a") == whole


def test_ranges() -> None:
    assert Arguments("x", {"a": 5}).integer("a", minimum=5, maximum=5) == 5
    below = code_of(lambda: Arguments("x", {"a": -1}).integer("a", minimum=0))
    assert below == (2, "BSON field 'a' value must be >= 0, actual value '-1'")
    above = code_of(lambda: Arguments("x", {"a": 11}).integer("a", maximum=10))
    assert above == (2, "BSON field 'a' value must be <= 10, actual value '11'")


def test_unknown_fields() -> None:
    arguments = Arguments("x", {"x": 1, "a": 1, "b": 1, "$db": "shop", "comment": 1})
    arguments.value("a")
    unknown = (40415, "BSON field 'x.b' is an unknown field.")
    assert code_of(arguments.finish) == unknown
    arguments.ignore("b")
    arguments.finish()


def test_embedded_documents() -> None:
    arguments = Arguments("x", {"cursor": {"batchSize": 1, "more": 1}})
    cursor = arguments.nested("cursor")
    assert cursor is not None
    assert cursor.integer("batchSize") == 1
    assert code_of(cursor.finish)[1] == "BSON field 'x.cursor.more' is an unknown field."
