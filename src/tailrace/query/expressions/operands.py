"""What operators ask of a value: is it there, is it true, which number is it, how do two compare."""

from typing import Any, TypeGuard

from bson import Code, Decimal128, Int64

from tailrace.bson import compare as bson_compare
from tailrace.bson.values import Undefined
from tailrace.query.expressions.scope import StringKey
from tailrace.query.missing import MISSING

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

Number = int | float | Decimal128  # int stands for int32 and, as Int64 or by its size, for int64

_UNDEFINED = Undefined()


def is_nullish(value: Any) -> bool:
    """Null, undefined and missing: what most operators pass on as null."""
    return value is None or value is MISSING or isinstance(value, Undefined)


def is_truthy(value: Any) -> bool:
    """A value as a condition: false are null, undefined, missing, false and numeric zero.

    >>> [is_truthy(value) for value in (0, 0.0, Decimal128("0E+3"), None, "", float("nan"))]
    [False, False, False, False, True, True]
    """
    if isinstance(value, bool | int | float):
        return value != 0
    if isinstance(value, Decimal128):
        return not value.to_decimal().is_zero()  # a signalling NaN cannot be compared
    return not is_nullish(value)


def is_number(value: Any) -> TypeGuard[Number]:
    """Any of the four numeric types; a bool is none of them."""
    return isinstance(value, int | float | Decimal128) and not isinstance(value, bool)


def is_string(value: Any) -> TypeGuard[str]:
    """A string; code is another type, though its Python class derives from `str`."""
    return isinstance(value, str) and not isinstance(value, Code)


def is_integer(value: Any) -> TypeGuard[int]:
    """int32 or int64."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_int64(value: int) -> bool:
    """Whether an integer is of the 64-bit type: by its class, or because nothing smaller holds it."""
    return isinstance(value, Int64) or not INT32_MIN <= value <= INT32_MAX


def type_name(value: Any) -> str:
    """The name of a value's type as `$type` tells it, with "missing" for no value."""
    return "missing" if value is MISSING else bson_compare.type_name(value)


def compare(left: Any, right: Any, string_key: StringKey | None = None) -> int:
    """BSON order; a missing value takes the place of undefined, above MinKey and below null."""
    return bson_compare.compare(
        _UNDEFINED if left is MISSING else left, _UNDEFINED if right is MISSING else right, string_key
    )
