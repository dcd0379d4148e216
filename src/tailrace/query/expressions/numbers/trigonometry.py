"""Trigonometry on doubles, and on decimals with 34 digits. Angles are in radians."""

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from tailrace.errors import CommandError
from tailrace.query.expressions.arguments import binary
from tailrace.query.expressions.numbers import decimal_trigonometry as decimals
from tailrace.query.expressions.numbers.number_function import DomainCheck, number_function
from tailrace.query.expressions.numbers.number_types import (
    DECIMAL,
    Kind,
    decimal128,
    kind_of,
    to_decimal,
    to_double,
)
from tailrace.query.expressions.operands import is_nullish, is_number, type_name
from tailrace.query.expressions.scope import OperatorParser

_RADIANS_PER_DEGREE: Final = DECIMAL.divide(decimals.pi(), 180)
_DEGREES_PER_RADIAN: Final = DECIMAL.divide(180, decimals.pi())


def _bounds(name: str, accepts: Callable[[float | Decimal], bool]) -> DomainCheck:
    def check(number: float | Decimal) -> None:
        if not accepts(number):
            raise CommandError(50989, f"cannot apply {name} to {number}, it is out of bounds")

    return check


def _finite(name: str) -> DomainCheck:
    return _bounds(name, lambda number: number not in (math.inf, -math.inf))


def _unit_interval(name: str) -> DomainCheck:
    return _bounds(name, lambda number: -1 <= number <= 1)


def _at_infinity(
    function: Callable[[Decimal], Decimal], limit: Callable[[Decimal], Decimal]
) -> Callable[[Decimal], Decimal]:
    return lambda x: limit(x) if x.is_infinite() else function(x)


def _overflowing(function: Callable[[float], float]) -> Callable[[float], float]:
    def apply(x: float) -> float:
        try:
            return function(x)
        except OverflowError:
            # sinh has the sign of its argument, cosh is always positive.
            return math.copysign(math.inf, function(math.copysign(1, x)))

    return apply


def _atanh(x: float) -> float:
    return math.copysign(math.inf, x) if abs(x) == 1 else math.atanh(x)


def _atan2(y: Any, x: Any) -> Any:
    for operand, code in ((y, 51044), (x, 51045)):
        if is_nullish(operand):
            return None
        if not is_number(operand):
            raise CommandError(code, f"$atan2 only supports numeric types, not {type_name(operand)}")
    if max(kind_of(y), kind_of(x)) is not Kind.DECIMAL:
        return math.atan2(to_double(y), to_double(x))
    first, second = to_decimal(y), to_decimal(x)
    if first.is_nan() or second.is_nan():
        return decimal128(Decimal("NaN"))
    return decimal128(decimals.atan2(first, second))


_unchanged: Final = DECIMAL.plus

OPERATORS: Final[dict[str, OperatorParser]] = {
    "$acos": number_function("$acos", math.acos, decimals.acos, _unit_interval("$acos")),
    "$acosh": number_function(
        "$acosh", math.acosh, _at_infinity(decimals.acosh, _unchanged), _bounds("$acosh", lambda x: x >= 1)
    ),
    "$asin": number_function("$asin", math.asin, decimals.asin, _unit_interval("$asin")),
    "$asinh": number_function("$asinh", math.asinh, _at_infinity(decimals.asinh, _unchanged)),
    "$atan": number_function(
        "$atan", math.atan, _at_infinity(decimals.atan, lambda x: decimals.atan2(x, Decimal(1)))
    ),
    "$atan2": binary(_atan2),
    "$atanh": number_function("$atanh", _atanh, decimals.atanh, _unit_interval("$atanh")),
    "$cos": number_function("$cos", math.cos, decimals.cos, _finite("$cos")),
    "$cosh": number_function("$cosh", _overflowing(math.cosh), _at_infinity(decimals.cosh, abs)),
    "$degreesToRadians": number_function(
        "$degreesToRadians",
        lambda x: x * (math.pi / 180),
        lambda x: DECIMAL.multiply(x, _RADIANS_PER_DEGREE),
    ),
    "$radiansToDegrees": number_function(
        "$radiansToDegrees",
        lambda x: x * (180 / math.pi),
        lambda x: DECIMAL.multiply(x, _DEGREES_PER_RADIAN),
    ),
    "$sin": number_function("$sin", math.sin, decimals.sin, _finite("$sin")),
    "$sinh": number_function("$sinh", _overflowing(math.sinh), _at_infinity(decimals.sinh, _unchanged)),
    "$tan": number_function("$tan", math.tan, decimals.tan, _finite("$tan")),
    "$tanh": number_function(
        "$tanh", math.tanh, _at_infinity(decimals.tanh, lambda x: Decimal(1).copy_sign(x))
    ),
}
