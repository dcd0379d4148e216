"""`$round`, `$trunc`, `$ceil`, `$floor`; the result has the type of the number if it fits.

`$round` rounds half to even, by the exact value of a double, not by its printed digits.
"""

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Any, Final

from bson import Int64

from tailrace.errors import CommandError
from tailrace.query.expressions.arguments import between, unary
from tailrace.query.expressions.numbers.arithmetic import not_numeric
from tailrace.query.expressions.numbers.number_types import (
    DECIMAL,
    Kind,
    decimal128,
    fits_int64,
    int32_or_int64,
    int32_value,
    kind_of,
    to_decimal,
)
from tailrace.query.expressions.operands import INT64_MAX, INT64_MIN, is_nullish, is_number, type_name
from tailrace.query.expressions.scope import OperatorParser

_DIGITS: Final = 34
_NAN: Final = Decimal("NaN")
_MIN_PLACE, _MAX_PLACE = -20, 100


def _to_place(name: str, rounding: str) -> Callable[..., Any]:
    def apply(value: Any, place: Any = 0) -> Any:
        if is_nullish(value):
            return None
        if not is_number(value):
            raise CommandError(51081, f"{name} only supports numeric types, not {type_name(value)}")
        if is_nullish(place):
            return None
        return _rounded(name, value, _checked_place(name, place), rounding)

    return apply


def _checked_place(name: str, place: Any) -> int:
    if not is_number(place):
        raise CommandError(16004, f"can't convert from BSON type {type_name(place)} to long")
    if isinstance(place, float) and not INT64_MIN <= place <= INT64_MAX:
        raise CommandError(31109, f"Can't coerce out of range value {place} to long")
    number = int32_value(place)
    if number is None:
        raise CommandError(51082, f"the place argument to {name} must be an integral value")
    if not _MIN_PLACE <= number <= _MAX_PLACE:
        raise CommandError(
            51083, f"cannot apply {name} with place {number}, must be in [{_MIN_PLACE}, {_MAX_PLACE}]"
        )
    return number


def _rounded(name: str, value: Any, place: int, rounding: str) -> Any:
    kind = kind_of(value)
    if kind is Kind.DECIMAL:
        return decimal128(_quantized(to_decimal(value), place, rounding))
    if kind is Kind.DOUBLE:
        if not math.isfinite(value):
            return value
        return float(_quantized(DECIMAL.create_decimal(Decimal(value)), place, rounding))
    if place >= 0:
        return value
    result = int(_quantized(Decimal(value), place, rounding))
    if not fits_int64(result):
        raise CommandError(51080, f"the result of {name} of {value} does not fit a long")
    return int32_or_int64(result) if kind is Kind.INT32 else Int64(result)


def _quantized(value: Decimal, place: int, rounding: str) -> Decimal:
    """The value with its last digit at a place, or as near to the place as 34 digits allow."""
    if not value.is_finite():
        return value
    finest = value.adjusted() - _DIGITS + 1 if value else -place
    return value.quantize(Decimal((0, (1,), max(-place, finest))), rounding, DECIMAL)


def _to_integer(name: str, on_double: Callable[[float], int], rounding: str) -> Callable[[Any], Any]:
    def apply(value: Any) -> Any:
        if is_nullish(value):
            return None
        if not is_number(value):
            raise not_numeric(name, value)
        if isinstance(value, float):
            return math.copysign(on_double(value), value) if math.isfinite(value) else value
        if isinstance(value, int):
            return value
        number = to_decimal(value)
        # MongoDB has no integer for an infinite decimal, although it has one for an infinite double.
        return decimal128(_NAN if number.is_infinite() else _quantized(number, 0, rounding))

    return apply


OPERATORS: Final[dict[str, OperatorParser]] = {
    "$ceil": unary(_to_integer("$ceil", math.ceil, ROUND_CEILING)),
    "$floor": unary(_to_integer("$floor", math.floor, ROUND_FLOOR)),
    "$round": between(1, 2, _to_place("$round", ROUND_HALF_EVEN)),
    "$trunc": between(1, 2, _to_place("$trunc", ROUND_DOWN)),
}
