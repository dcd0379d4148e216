"""BSON order: the brackets, exact numbers, containers, and the laws of a total order."""

import random
from fractions import Fraction
from functools import cmp_to_key
from itertools import combinations, pairwise
from typing import Any

import pytest
from bson import Binary, Code, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.bson.compare import compare, equal, sort_key, type_bracket, type_name
from tailrace.bson.decimal128 import join, split
from tailrace.bson.values import DBPointer, Symbol, Undefined
from tests.bson.bson_strategies import finite_numbers, values

NAN = float("nan")
INFINITY = float("inf")
LOW, HIGH = ObjectId(b"\0" * 12), ObjectId(b"\xff" * 12)

# Strictly ascending: every value sorts before all that follow it.
ASCENDING: list[Any] = [
    MinKey(),
    Undefined(),
    None,
    NAN,
    -INFINITY,
    Decimal128("-1E+6000"),
    -1.7976931348623157e308,
    Int64(-(2**63)),
    -(2**53) - 1,
    -(2.0**53),
    -1,
    Decimal128("-1E-6176"),
    0,
    Decimal128("1E-6176"),
    5e-324,
    Decimal128("0.1"),
    0.1,
    Decimal128("0.1000000000000000055511151231257828"),
    1,
    Decimal128("1.000000000000000000000000000000001"),
    2.0**53,
    Int64(2**53 + 1),
    Decimal128("9007199254740993.5"),
    Int64(2**63 - 1),
    2.0**63,
    Decimal128("9223372036854775808.5"),
    1.7976931348623157e308,
    Decimal128("1E+6000"),
    INFINITY,
    "",
    "\0",
    "a",
    Symbol("a\0"),
    "aa",
    Symbol("b"),
    "\uffff",
    "\U00010000",
    {},
    {"b": 1},
    {"a": "x"},
    {"a": "x", "b": None},
    {"a": {}},
    [],
    [1],
    [1, None],
    [2],
    [[]],
    b"",
    b"a",
    b"b",
    Binary(b"a", 4),
    b"12345",
    Binary(b"ab", 2),  # six bytes in BSON, which counts the inner length
    b"123456789",
    LOW,
    HIGH,
    False,
    True,
    DatetimeMS(-(2**63)),
    DatetimeMS(-1),
    DatetimeMS(0),
    DatetimeMS(2**63 - 1),
    Timestamp(0, 0),
    Timestamp(0, 2**32 - 1),
    Timestamp(1, 0),
    Regex("a", ""),
    Regex("a", "i"),
    Regex("a", "is"),
    Regex("a", "x"),
    Regex("b", ""),
    DBPointer("b", LOW),
    DBPointer("b", HIGH),
    DBPointer("aa", LOW),
    Code("a"),
    Code("b"),
    Code("a", {}),
    Code("a", {"x": 1}),
    Code("b", {}),
    MaxKey(),
]


def test_every_pair_of_ascending_values() -> None:
    for low, high in combinations(ASCENDING, 2):
        assert compare(low, high) == -1, (low, high)
        assert compare(high, low) == 1, (low, high)
        assert sort_key(low) < sort_key(high), (low, high)
        assert not equal(low, high), (low, high)
    for value in ASCENDING:
        assert compare(value, value) == 0
        assert equal(value, value)


def test_sort_key_sorts_shuffled_values() -> None:
    shuffled = ASCENDING.copy()
    random.Random(1).shuffle(shuffled)
    assert [repr(value) for value in sorted(shuffled, key=sort_key)] == [repr(value) for value in ASCENDING]


@pytest.mark.parametrize(
    "values",
    [
        (1, Int64(1), 1.0, Decimal128("1"), Decimal128("1.000"), Decimal128("10E-1")),
        (0, Int64(0), 0.0, -0.0, Decimal128("0"), Decimal128("-0E+3")),
        (NAN, Decimal128("NaN"), Decimal128("-NaN"), Decimal128("sNaN")),
        (INFINITY, Decimal128("Infinity")),
        (0.5, Decimal128("0.5")),
        ("x", Symbol("x")),
        ({"a": [1]}, {"a": [1.0]}),
        (b"x", Binary(b"x", 0)),
    ],
)
def test_values_that_compare_equal(values: tuple[Any, ...]) -> None:
    for a, b in combinations(values, 2):
        assert compare(a, b) == compare(b, a) == 0, (a, b)
        assert sort_key(a) == sort_key(b)


def test_a_decimal_with_too_many_digits_counts_as_zero() -> None:
    too_large = Decimal128.from_bid(join(False, 10**34, 0))
    second_format = Decimal128.from_bid((0x6C << 120).to_bytes(16, "little"))
    assert equal(too_large, 0)
    assert equal(second_format, 0)


def test_field_names_matter_only_after_types() -> None:
    assert compare({"z": 1}, {"a": "text"}) == -1
    assert compare({"z": 1}, {"a": 2}) == 1


def test_a_collation_applies_to_strings_at_any_depth_but_not_to_names() -> None:
    def lower(text: str) -> str:
        return text.lower()

    assert equal("A", "a", lower)
    assert equal({"k": ["A", {"n": Symbol("B")}]}, {"k": ["a", {"n": "b"}]}, lower)
    assert not equal({"K": "A"}, {"k": "A"}, lower)
    assert not equal(Code("A"), Code("a"), lower)


TYPE_NAMES: list[tuple[Any, str]] = [
    (1.0, "double"), ("", "string"), ({}, "object"), ([], "array"), (b"", "binData"),
    (Undefined(), "undefined"), (Int64(1), "long"), (Decimal128("1"), "decimal"), (MinKey(), "minKey"),
    (LOW, "objectId"), (True, "bool"), (DatetimeMS(0), "date"), (None, "null"), (Regex("a"), "regex"),
    (DBPointer("a", LOW), "dbPointer"), (Code(""), "javascript"), (Symbol(""), "symbol"),
    (Code("", {}), "javascriptWithScope"), (1, "int"), (2**31, "long"), (-(2**31), "int"),
    (Timestamp(0, 0), "timestamp"), (MaxKey(), "maxKey"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "name"), TYPE_NAMES)
def test_type_names(value: Any, name: str) -> None:
    assert type_name(value) == name


def test_numbers_share_a_bracket_and_so_do_strings_and_symbols() -> None:
    assert len({type_bracket(value) for value in (1, Int64(1), 1.0, Decimal128("1"))}) == 1
    assert type_bracket("") == type_bracket(Symbol(""))
    assert type_bracket(Code("")) != type_bracket(Code("", {}))


def test_a_value_that_is_not_bson_is_refused() -> None:
    with pytest.raises(TypeError, match="complex"):
        compare(1j, 1)


def exact_fraction(value: Any) -> Fraction:
    if isinstance(value, Decimal128):
        parts = split(value.bid)
        return (
            Fraction(-parts.coefficient if parts.negative else parts.coefficient)
            * Fraction(10) ** parts.exponent
        )
    return Fraction(value)


@settings(derandomize=False, print_blob=True)
@given(finite_numbers, finite_numbers)
def test_numbers_compare_by_exact_value(a: Any, b: Any) -> None:
    exact_a, exact_b = exact_fraction(a), exact_fraction(b)
    assert compare(a, b) == (exact_a > exact_b) - (exact_a < exact_b)


@settings(derandomize=False, print_blob=True)
@given(st.lists(values | st.sampled_from(ASCENDING), max_size=6))
def test_the_order_is_total(items: list[Any]) -> None:
    ordered = sorted(items, key=cmp_to_key(compare))
    for a, b in pairwise(ordered):
        assert compare(a, b) <= 0
        assert compare(a, b) == -compare(b, a)
    for a, b in combinations(ordered, 2):
        assert compare(a, b) <= 0
        assert (compare(a, b) == 0) == (sort_key(a) == sort_key(b))


@pytest.mark.parametrize("kind", ["array", "document"])
def test_values_with_many_elements_are_ordered_like_short_ones(kind: str) -> None:
    def of(zeros: int, last: int) -> Any:
        items = [*[0] * zeros, last]
        return items if kind == "array" else {str(place): item for place, item in enumerate(items)}

    ascending = [of(*each) for each in ((1000, 0), (2400, 0), (2400, 1), (1000, 5), (2, 9))]
    keys = [sort_key(value) for value in ascending]
    for place, key in enumerate(keys):
        for other_place, other in enumerate([sort_key(value) for value in ascending]):
            assert (key < other, key <= other) == (place < other_place, place <= other_place)
            assert (key > other, key >= other) == (place > other_place, place >= other_place)
            assert (key == other, hash(key) == hash(other)) == (place == other_place, place == other_place)
