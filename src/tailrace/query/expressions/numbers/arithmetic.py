"""Arithmetic on numbers, and on dates as milliseconds.

Integers that overflow widen: int32 to int64, int64 to double. A null operand makes the result null, but
operands are checked from left to right: a wrong operand before the null raises an error.
"""

import math
import operator
import random
from collections.abc import Callable, Iterable, Mapping
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from typing import Any, Final, NamedTuple

from bson import DatetimeMS, Int64

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.query.expressions.arguments import Law, binary, unary, variadic
from tailrace.query.expressions.numbers.number_types import (
    DECIMAL,
    Kind,
    decimal128,
    fits_int64,
    int32_or_int64,
    int32_value,
    kind_of,
    real,
    to_decimal,
    to_double,
)
from tailrace.query.expressions.operands import INT64_MIN, Number, is_nullish, is_number, type_name
from tailrace.query.expressions.scope import Environment, Expression, ExpressionScope, OperatorParser

# A quotient of two decimals can have this many digits, and a remainder needs all of them.
_REMAINDER: Final = Context(prec=12_400, traps=[])


class _Operation(NamedTuple):
    """One operation, on two ints or floats and on two decimals."""

    machine: Callable[[Any, Any], Any]
    decimal: Callable[[Decimal, Decimal], Decimal]


_ADDITION: Final = _Operation(operator.add, DECIMAL.add)
_SUBTRACTION: Final = _Operation(operator.sub, DECIMAL.subtract)
_MULTIPLICATION: Final = _Operation(operator.mul, DECIMAL.multiply)


def _combine(left: Number, right: Number, operation: _Operation) -> Number:
    kind = max(kind_of(left), kind_of(right))
    if kind is Kind.DECIMAL:
        return decimal128(operation.decimal(to_decimal(left), to_decimal(right)))
    if kind is Kind.DOUBLE:
        return float(operation.machine(to_double(left), to_double(right)))
    result = operation.machine(left, right)
    if not fits_int64(result):
        return float(operation.machine(to_double(left), to_double(right)))
    return int32_or_int64(result) if kind is Kind.INT32 else Int64(result)


def add(values: Iterable[Any]) -> Any:
    """Sum of numbers, and of at most one date."""
    total: Number = 0
    all_int32 = True
    date: DatetimeMS | None = None
    for value in values:
        if isinstance(value, DatetimeMS):
            if date is not None:
                raise CommandError(16612, "only one date allowed in an $add expression")
            date = value
        elif is_number(value):
            all_int32 = all_int32 and kind_of(value) is Kind.INT32
            total = _combine(total, value, _ADDITION)
        elif is_nullish(value):
            return None
        else:
            raise CommandError(
                ErrorCode.TypeMismatch, f"$add only supports numeric or date types, not {type_name(value)}"
            )
    if date is not None:
        return _date("$add", int(date) + int(_date("$add", total)))
    return _narrowed(total, all_int32)


def multiply(values: Iterable[Any]) -> Any:
    total: Number = 1
    all_int32 = True
    for value in values:
        if is_number(value):
            all_int32 = all_int32 and kind_of(value) is Kind.INT32
            total = _combine(total, value, _MULTIPLICATION)
        elif is_nullish(value):
            return None
        else:
            raise CommandError(
                ErrorCode.TypeMismatch, f"$multiply only supports numeric types, not {type_name(value)}"
            )
    return _narrowed(total, all_int32)


def _narrowed(total: Number, all_int32: bool) -> Number:
    # A total of int32 values is an int32 if the final result fits, even if an intermediate one did not.
    return int32_or_int64(total) if all_int32 and isinstance(total, int) else total


def subtract(left: Any, right: Any) -> Any:
    """Difference of two numbers, of two dates in milliseconds, or a date some milliseconds earlier."""
    if is_nullish(left) or is_nullish(right):
        return None
    if is_number(left) and is_number(right):
        return _combine(left, right, _SUBTRACTION)
    if isinstance(left, DatetimeMS):
        if isinstance(right, DatetimeMS):
            return _combine(Int64(int(left)), Int64(int(right)), _SUBTRACTION)
        if is_number(right):
            return _date("$subtract", int(left) - int(_date("$subtract", right)))
    raise CommandError(ErrorCode.TypeMismatch, f"can't $subtract {type_name(right)} from {type_name(left)}")


def _date(name: str, millis: Number) -> DatetimeMS:
    """The date of a number of milliseconds, which is rounded: a half of a decimal to even, of a double up."""
    exact = Decimal(millis) if isinstance(millis, float) else to_decimal(millis)
    rounding = ROUND_HALF_UP if isinstance(millis, float) else ROUND_HALF_EVEN
    if not (exact.is_finite() and fits_int64(rounded := int(exact.to_integral_value(rounding)))):
        raise CommandError(ErrorCode.Overflow, f"date overflow in {name}")
    return DatetimeMS(rounded)


def divide(left: Any, right: Any) -> Any:
    """Quotient; never an integer."""
    if is_nullish(left) or is_nullish(right):
        return None
    if not (is_number(left) and is_number(right)):
        raise CommandError(
            ErrorCode.TypeMismatch,
            f"$divide only supports numeric types, not {type_name(left)} and {type_name(right)}",
        )
    if real(right) == 0:
        raise CommandError(ErrorCode.BadValue, "can't $divide by zero")
    if max(kind_of(left), kind_of(right)) is Kind.DECIMAL:
        return decimal128(DECIMAL.divide(to_decimal(left), to_decimal(right)))
    return to_double(left) / to_double(right)


def modulo(left: Any, right: Any) -> Any:
    """Remainder with the sign of the dividend."""
    if is_nullish(left) or is_nullish(right):
        return None
    if not (is_number(left) and is_number(right)):
        raise CommandError(
            16611, f"$mod only supports numeric types, not {type_name(left)} and {type_name(right)}"
        )
    is_decimal = max(kind_of(left), kind_of(right)) is Kind.DECIMAL
    if real(right) == 0:
        raise CommandError(5733415 if is_decimal else 16610, "can't $mod by zero")
    if is_decimal:
        return decimal128(_REMAINDER.remainder(to_decimal(left), to_decimal(right)))
    # An integer modulo a double that is a small integer stays an integer.
    divisor = int32_value(right) if isinstance(right, float) else right
    if not (isinstance(left, int) and isinstance(divisor, int)):
        return _fmod(to_double(left), to_double(right))
    remainder = abs(left) % abs(divisor) * (-1 if left < 0 else 1)
    return Int64(remainder) if Kind.INT64 in (kind_of(left), kind_of(right)) else remainder


def _fmod(left: float, right: float) -> float:
    if math.isinf(left):
        return math.nan
    return math.fmod(left, right)


def absolute(value: Any) -> Any:
    """The absolute value, of the same type if it fits."""
    if is_nullish(value):
        return None
    if not is_number(value):
        raise not_numeric("$abs", value)
    if isinstance(value, float):
        return abs(value)
    if isinstance(value, int):
        if value == INT64_MIN:
            raise CommandError(28680, "can't take $abs of long long min")
        return Int64(abs(value)) if kind_of(value) is Kind.INT64 else int32_or_int64(abs(value))
    return decimal128(to_decimal(value).copy_abs())


def not_numeric(name: str, value: Any) -> CommandError:
    """The error for a value that is not a number, in operators on one number."""
    return CommandError(28765, f"{name} only supports numeric types, not {type_name(value)}")


def _parse_rand(name: str, spec: Any, scope: ExpressionScope) -> Expression:
    if not isinstance(spec, Mapping | list):
        raise CommandError(10065, f"invalid parameter: expected an object ({name})")
    if spec:
        raise CommandError(3040501, f"{name} does not currently accept arguments")
    scope.note_dependency()

    def draw(_: Environment) -> float:
        return random.random()

    return draw


OPERATORS: Final[dict[str, OperatorParser]] = {
    "$abs": unary(absolute),
    "$add": variadic(add, Law.COMMUTATIVE),
    "$divide": binary(divide),
    "$mod": binary(modulo),
    "$multiply": variadic(multiply, Law.COMMUTATIVE),
    "$rand": _parse_rand,
    "$subtract": binary(subtract),
}
