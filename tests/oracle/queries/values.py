"""Values of every BSON type, with the extreme ones."""

from typing import Any, Final

from bson import Binary, Code, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

from tailrace.bson.values import DBPointer, Symbol, Undefined

NUMBERS: Final[tuple[Any, ...]] = (
    0, 1, -1, 2, 3, 10, 2**31 - 1, -(2**31), Int64(0), Int64(5), Int64(2**53 + 1), Int64(2**63 - 1),
    Int64(-(2**63)), 0.0, -0.0, 0.5, 1.5, 2.5, -2.5, 1e300, 5e-324, float("nan"), float("inf"), float("-inf"),
    Decimal128("0"), Decimal128("-0"), Decimal128("1.10"), Decimal128("-2.5"), Decimal128("3E+2"),
    Decimal128("12345678901234567890.5"), Decimal128("NaN"), Decimal128("Infinity"), Decimal128("-Infinity"),
)  # fmt: skip
TEXTS: Final[tuple[Any, ...]] = (
    "", "a", "abc", "ABC", "aß", "日本", "é", "  x\t", "5", "-1.5", "0x1F", "1e3", "true", "2020-02-29",
    "2020-02-29T01:02:03.456Z", "507f1f77bcf86cd799439011", "a,b,,c", "a\0b",
)  # fmt: skip
DATES: Final[tuple[Any, ...]] = (
    DatetimeMS(0), DatetimeMS(-1), DatetimeMS(1582934523456), DatetimeMS(1_700_000_000_000),
    DatetimeMS(-62135596800000), DatetimeMS(253402300799999), DatetimeMS(2**62), DatetimeMS(-(2**62)),
)  # fmt: skip
ARRAYS: Final[tuple[Any, ...]] = (
    [], [1], [1, 2, 3], [3, 1, 2, 2], [None], [[1, 2], [3]], [[]], ["a", "b"], ["a", 1, None, 2.5],
    [{"a": 1}, {"a": 2}], [{"k": "x", "v": 1}], [["x", 1], ["y", 2]], [True, False, 0], [1, 1.0, Int64(1)],
    [Undefined(), None],
)  # fmt: skip
DOCUMENTS: Final[tuple[Any, ...]] = ({}, {"a": 1}, {"a": {"b": [1, {"c": 2}]}, "b": None}, {"0": 1, "x.y": 2})
OTHERS: Final[tuple[Any, ...]] = (
    None, True, False, Undefined(), ObjectId("507f1f77bcf86cd799439011"), Binary(b"", 0), Binary(b"abc", 0),
    Binary(bytes(16), 4), Binary(b"ab", 128), Regex("^a", "i"), Regex("b", ""), Timestamp(5, 1),
    Timestamp(2**32 - 1, 2**32 - 1), Code("f()"), Code("g()", {"x": 1}), Symbol("a"), DBPointer("a.b",
    ObjectId("507f1f77bcf86cd799439011")), MinKey(), MaxKey(),
)  # fmt: skip
VALUES: Final = (*OTHERS, *NUMBERS, *TEXTS, *DATES, *ARRAYS, *DOCUMENTS)

ONE_OF_EACH: Final[tuple[Any, ...]] = (
    None, True, Undefined(), ObjectId("507f1f77bcf86cd799439011"), Binary(b"abc", 0), Regex("^a", "i"),
    Timestamp(5, 1), Code("f()"), Code("g()", {"x": 1}), Symbol("a"), MinKey(), MaxKey(),
    1, -3, Int64(2**40), 2.5, float("nan"), Decimal128("1.10"), "abc", "", DatetimeMS(1582934523456),
    [], [1, 2], [[1]], {}, {"a": 1},
)  # fmt: skip
"""Fewer values, for pairs of them."""


def each(*values: Any) -> tuple[Any, ...]:
    """Values of different types, for a loop over cases."""
    return values
