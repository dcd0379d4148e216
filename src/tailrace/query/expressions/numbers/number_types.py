"""The four numeric types and how results widen: int32, int64, double, decimal128.

A Python `int` is an int32 unless it is an `Int64` or too large for one; operators that compute integers pass
their result to `int32_or_int64` or `Int64`, so that it has the type that MongoDB returns. Decimals are
computed with 34 digits, as IEEE 754 decimal128 requires.
"""

from decimal import Decimal
from enum import IntEnum
from typing import Any, Final

from bson import Decimal128, Int64
from bson.decimal128 import create_decimal128_context

from tailrace.bson.decimal128 import exact
from tailrace.query.expressions.operands import (
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    Number,
    is_int64,
)

DECIMAL: Final = create_decimal128_context()
"""Rounds to decimal128; traps nothing, so that errors become NaN or infinity."""

_NAN: Final = Decimal("NaN")


class Kind(IntEnum):
    """Numeric types from narrow to wide; the result of most operators has the widest type of its operands."""

    INT32 = 0
    INT64 = 1
    DOUBLE = 2
    DECIMAL = 3


def kind_of(value: Number) -> Kind:
    if isinstance(value, float):
        return Kind.DOUBLE
    if isinstance(value, Decimal128):
        return Kind.DECIMAL
    return Kind.INT64 if is_int64(value) else Kind.INT32


def to_double(value: Number) -> float:
    """The nearest double."""
    return float(decimal_of(value)) if isinstance(value, Decimal128) else float(value)


def to_decimal(value: Number) -> Decimal:
    """The number as a decimal; a double is rounded to 15 digits, with trailing zeros.

    >>> to_decimal(2.5), to_decimal(7), to_decimal(0.0)
    (Decimal('2.50000000000000'), Decimal('7'), Decimal('0'))
    """
    if isinstance(value, Decimal128):
        return decimal_of(value)
    if isinstance(value, float) and value and value - value == 0:
        return Decimal(f"{value:.14e}")
    return Decimal(value)


def decimal_of(value: Decimal128) -> Decimal:
    """The exact value of a decimal128."""
    number = exact(value.bid)
    return _NAN if number is None else number


def real(value: Number) -> int | float | Decimal:
    """The number as a Python number; Python compares these exactly."""
    return decimal_of(value) if isinstance(value, Decimal128) else value


def decimal128(value: Decimal) -> Decimal128:
    """Round to a decimal128; a zero keeps its sign."""
    return Decimal128(DECIMAL.create_decimal(value))


def fits_int32(value: int) -> bool:
    """Whether an integer is in the range of an int32."""
    return INT32_MIN <= value <= INT32_MAX


def fits_int64(value: int) -> bool:
    """Whether an integer is in the range of an int64."""
    return INT64_MIN <= value <= INT64_MAX


def int32_or_int64(value: int) -> int:
    """An int32 if the value is in its range, else an int64."""
    return int(value) if fits_int32(value) else Int64(value)


def integral_value(value: Any) -> int | None:
    """A number without a fraction as an int, else None."""
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if isinstance(value, Decimal128):
        number = decimal_of(value)
        return int(number) if number.is_finite() and number == number.to_integral_value() else None
    return None


def int32_value(value: Any) -> int | None:
    """A number without a fraction in the range of an int32 as an int, else None."""
    number = integral_value(value)
    return number if number is not None and fits_int32(number) else None
