"""The parts of Decimal128 values, and the order and names of types at their limits."""

from decimal import Decimal
from typing import Any

import pytest
from bson import Code, Decimal128, Int64

from tailrace.bson.compare import compare, equal, type_name
from tailrace.bson.decimal128 import exact, infinity, join, split


@pytest.mark.parametrize(
    ("text", "negative", "coefficient", "exponent"),
    [
        ("0", False, 0, 0),
        ("-0", True, 0, 0),
        ("1.20", False, 120, -2),
        ("-1.20", True, 120, -2),
        ("9999999999999999999999999999999999E6111", False, 10**34 - 1, 6111),
        ("1E-6176", False, 1, -6176),
    ],
)
def test_finite_numbers(text: str, negative: bool, coefficient: int, exponent: int) -> None:
    pattern = Decimal128(text).bid
    parts = split(pattern)
    assert (parts.negative, parts.coefficient, parts.exponent) == (negative, coefficient, exponent)
    assert (parts.is_nan, parts.is_infinite) == (False, False)
    assert join(negative, coefficient, exponent) == pattern
    assert exact(pattern) == Decimal128(text).to_decimal()


def test_numbers_that_are_not_finite() -> None:
    assert split(Decimal128("NaN").bid).is_nan
    assert exact(Decimal128("NaN").bid) is None
    for negative, text in ((False, "Infinity"), (True, "-Infinity")):
        assert infinity(negative) == Decimal128(text).bid
        parts = split(infinity(negative))
        assert (parts.is_infinite, parts.is_nan, parts.negative) == (True, False, negative)
        assert exact(infinity(negative)) == Decimal(text)


@pytest.mark.parametrize("exponent", [0, -3, 7])
def test_coefficients_that_are_too_large_count_as_zero(exponent: int) -> None:
    biased = exponent + 6176
    second_format = (3 << 125 | biased << 111 | 5).to_bytes(16, "little")
    too_large = (biased << 113 | 10**34).to_bytes(16, "little")
    for pattern in (second_format, too_large):
        parts = split(pattern)
        assert (parts.coefficient, parts.exponent, parts.is_nan, parts.is_infinite) == (
            0,
            exponent,
            False,
            False,
        )
        assert exact(pattern) == 0
    assert split((3 << 125 | biased << 111 | 1 << 127).to_bytes(16, "little")).negative
    assert split((biased << 113 | 10**34 - 1).to_bytes(16, "little")).coefficient == 10**34 - 1


@pytest.mark.parametrize(
    ("a", "b", "order"),
    [
        (1, 2, -1),
        (2.5, 2, 1),
        (1, 1.0, 0),
        (float("nan"), float("nan"), 0),
        (float("nan"), -1, -1),
        (1, float("nan"), 1),
        (Decimal128("1.0"), 1, 0),
        (Decimal128("NaN"), float("nan"), 0),
        ("a", "b", -1),
        ("b", "a", 1),
        ("a", "a", 0),
        (1, "a", -1),
        ("a", 1, 1),
        (Code("a"), Code("a", {}), -1),
        ([1, 2], [1], 1),
        ({"a": 1}, {"a": 1, "b": 1}, -1),
    ],
)
def test_the_order_of_values(a: Any, b: Any, order: int) -> None:
    assert compare(a, b) == order
    assert equal(a, b) == (order == 0)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (2**31 - 1, "int"),
        (2**31, "long"),
        (-(2**31), "int"),
        (-(2**31) - 1, "long"),
        (Int64(1), "long"),
        (True, "bool"),
        (Code("f"), "javascript"),
        (Code("f", {}), "javascriptWithScope"),
    ],
)
def test_names_of_types(value: Any, name: str) -> None:
    assert type_name(value) == name


def test_strings_are_compared_by_a_key() -> None:
    def lower(text: str) -> bytes:
        return text.lower().encode()

    assert (compare("a", "A", lower), compare("a", "B", lower), compare("B", "a", lower)) == (0, -1, 1)
    assert compare(["a"], ["A"], lower) == 0
    assert equal({"x": "a"}, {"x": "A"}, lower)
    assert not equal("a", "A")


def test_other_classes_have_no_place() -> None:
    with pytest.raises(TypeError, match="a set has no place"):
        compare({1}, {2})
