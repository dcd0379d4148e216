"""Tests of operands: null or missing, true or false, type, order."""

from typing import Any, TypeGuard

from bson import Decimal128, Int64

from tailrace.bson import compare as bson_compare
from tailrace.bson.compare import StringKey
from tailrace.bson.values import Undefined
from tailrace.query.missing import MISSING

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

Number = int | float | Decimal128  # an int is an int64 if it is an Int64 or too large for an int32

_UNDEFINED = Undefined()


def is_nullish(value: Any) -> bool:
    """Whether a value is null, undefined or missing: most operators then return null."""
    return value is None or value is MISSING or isinstance(value, Undefined)


def is_truthy(value: Any) -> bool:
    """Whether a value is true as a condition: all are, except null, undefined, missing, false and zero.

    >>> [is_truthy(value) for value in (0, 0.0, Decimal128("0E+3"), None, "", float("nan"))]
    [False, False, False, False, True, True]
    """
    if isinstance(value, bool | int | float):
        return value != 0
    if isinstance(value, Decimal128):
        return not value.to_decimal().is_zero()  # a signalling NaN cannot be compared
    return not is_nullish(value)


def is_number(value: Any) -> TypeGuard[Number]:
    """Whether a value has one of the four numeric types; a bool has not."""
    return isinstance(value, int | float | Decimal128) and not isinstance(value, bool)


def is_integer(value: Any) -> TypeGuard[int]:
    """Whether a value is an int32 or int64."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_int64(value: int) -> bool:
    """Whether an integer is an int64: by its class, or because it is too large for an int32."""
    return isinstance(value, Int64) or not INT32_MIN <= value <= INT32_MAX


def type_name(value: Any) -> str:
    """The name of a value's type as `$type` returns it; "missing" for `MISSING`."""
    return "missing" if value is MISSING else bson_compare.type_name(value)


def compare(left: Any, right: Any, string_key: StringKey = None) -> int:
    """Return -1, 0 or 1 for BSON order; a missing value sorts as undefined, above MinKey and below null."""
    return bson_compare.compare(
        _UNDEFINED if left is MISSING else left, _UNDEFINED if right is MISSING else right, string_key
    )
