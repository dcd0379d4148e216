"""The four numeric types and how results widen: int32, int64, double, decimal128.

A Python `int` is an int32 unless it is an `Int64` or too large for one; operators that compute integers pass
their result to `int32_or_int64` or `Int64`, so that it has the type that MongoDB returns. Decimals are
computed with 34 digits, as IEEE 754 decimal128 requires.

A NaN has a sign and a payload, which results take over: a `Decimal` has them as well.
"""

import struct
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

_BID: Final = struct.Struct("<QQ")
_SIGN: Final = 1 << 63
_DECIMAL_NAN: Final = 0x7C << 56
_DECIMAL_PAYLOAD_BITS: Final = 110
_LARGEST_DECIMAL_PAYLOAD: Final = 10**33 - 1
_DOUBLE_NAN: Final = 0x7FF8 << 48
_DOUBLE_PAYLOAD_BITS: Final = 51
_PAYLOAD_SHIFT: Final = _DECIMAL_PAYLOAD_BITS - _DOUBLE_PAYLOAD_BITS
"""Payloads of doubles are the first bits of those of decimals."""


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
    if not isinstance(value, Decimal128):
        return float(value)
    number = decimal_of(value)
    return _double_nan(number) if number.is_nan() else float(number)


def to_decimal(value: Number) -> Decimal:
    """The number as a decimal; a double is rounded to 15 digits, with trailing zeros.

    >>> to_decimal(2.5), to_decimal(7), to_decimal(0.0)
    (Decimal('2.50000000000000'), Decimal('7'), Decimal('0'))
    """
    if isinstance(value, Decimal128):
        return decimal_of(value)
    if isinstance(value, float) and value and value - value == 0:
        return Decimal(f"{value:.14e}")
    if value != value:
        (bits,) = struct.unpack("<Q", struct.pack("<d", value))
        return _nan(
            negative=bool(bits & _SIGN), payload=(bits % (1 << _DOUBLE_PAYLOAD_BITS)) << _PAYLOAD_SHIFT
        )
    return Decimal(value)


def decimal_of(value: Decimal128) -> Decimal:
    """The exact value of a decimal128; a signalling NaN becomes a quiet one."""
    number = exact(value.bid)
    if number is not None:
        return number
    low, high = _BID.unpack(value.bid)
    payload = (high % (1 << (_DECIMAL_PAYLOAD_BITS - 64))) << 64 | low
    return _nan(negative=bool(high & _SIGN), payload=payload)


def _nan(*, negative: bool, payload: int) -> Decimal:
    digits = payload if payload <= _LARGEST_DECIMAL_PAYLOAD else 0
    return Decimal(f"{'-' if negative else ''}NaN{digits or ''}")


def _payload(nan: Decimal) -> int:
    return int("".join(map(str, nan.as_tuple().digits)) or 0)


def _double_nan(nan: Decimal) -> float:
    bits = _DOUBLE_NAN | _payload(nan) >> _PAYLOAD_SHIFT | (_SIGN if nan.is_signed() else 0)
    (number,) = struct.unpack("<d", struct.pack("<Q", bits))
    return float(number)


def real(value: Number) -> int | float | Decimal:
    """The number as a Python number; Python compares these exactly."""
    return decimal_of(value) if isinstance(value, Decimal128) else value


def decimal128(value: Decimal) -> Decimal128:
    """Round to a decimal128; a zero keeps its sign, a NaN its sign and payload."""
    if not value.is_nan():
        return Decimal128(DECIMAL.create_decimal(value))
    payload = _payload(value)
    high = _DECIMAL_NAN | payload >> 64 | (_SIGN if value.is_signed() else 0)
    return Decimal128.from_bid(_BID.pack(payload % (1 << 64), high))


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
