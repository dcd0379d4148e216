"""Powers, roots, logarithms and `$sigmoid`.

Integers become doubles, except that a power of integers stays an integer as long as it fits.
"""

import math
from decimal import Context, Decimal
from typing import Any, Final

from bson import Int64

from tailrace.errors import CommandError
from tailrace.pacing import spend
from tailrace.query.expressions.arguments import binary, unary
from tailrace.query.expressions.numbers.arithmetic import add, divide, multiply
from tailrace.query.expressions.numbers.number_function import DomainCheck, number_function
from tailrace.query.expressions.numbers.number_types import (
    DECIMAL,
    Kind,
    decimal128,
    fits_int64,
    int32_or_int64,
    kind_of,
    real,
    to_decimal,
    to_double,
)
from tailrace.query.expressions.operands import Number, is_nullish, is_number, type_name
from tailrace.query.expressions.scope import OperatorParser

_DIGITS: Final = 34
_POWER_STEPS: Final = 20
# More digits than the result has, so that one rounding gives the nearest decimal128.
_WIDE: Final = Context(prec=_DIGITS + 16, Emin=DECIMAL.Emin * 2, Emax=DECIMAL.Emax * 2, traps=[])


def _positive(name: str, code: int) -> DomainCheck:
    def check(number: float | Decimal) -> None:
        if number <= 0:
            raise CommandError(code, f"{name}'s argument must be a positive number, but is {number}")

    return check


def _check_square(number: float | Decimal) -> None:
    if number < 0:
        raise CommandError(28714, f"$sqrt's argument must be greater than or equal to 0, but is {number}")


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def logarithm(value: Any, base: Any) -> Any:
    """Logarithm to any base."""
    if is_nullish(value) or is_nullish(base):
        return None
    for operand, code, role in ((value, 28756, "argument"), (base, 28757, "base")):
        if not is_number(operand):
            raise CommandError(code, f"$log's {role} must be numeric, not {type_name(operand)}")
    number, radix = real(value), real(base)
    if number == number and number <= 0:
        raise CommandError(28758, "$log's argument must be a positive number")
    if radix == radix and (radix <= 0 or radix == 1):
        raise CommandError(28759, "$log's base must be a positive number not equal to 1")
    if number != number or radix != radix:
        return math.nan
    if max(kind_of(value), kind_of(base)) is Kind.DECIMAL:
        return decimal128(DECIMAL.divide(to_decimal(value).ln(DECIMAL), to_decimal(base).ln(DECIMAL)))
    return _quotient(math.log(to_double(value)), math.log(to_double(base)))


def _quotient(left: float, right: float) -> float:
    return math.nan if math.isinf(left) and math.isinf(right) else left / right


def power(base: Any, exponent: Any) -> Any:
    if is_nullish(base) or is_nullish(exponent):
        return None
    for operand, code, role in ((base, 28762, "base"), (exponent, 28763, "exponent")):
        if not is_number(operand):
            raise CommandError(code, f"$pow's {role} must be numeric, not {type_name(operand)}")
    if real(base) == 0 and real(exponent) == real(exponent) and real(exponent) < 0:
        raise CommandError(28764, "$pow cannot take a base of 0 and a negative exponent")
    if max(kind_of(base), kind_of(exponent)) is Kind.DECIMAL:
        return decimal128(_decimal_power(to_decimal(base), to_decimal(exponent)))
    if isinstance(base, int) and isinstance(exponent, int):
        return _integer_power(base, exponent)
    return _double_power(to_double(base), to_double(exponent))


def _decimal_power(base: Decimal, exponent: Decimal) -> Decimal:
    if exponent == 0 or base == 1 or (base == -1 and exponent.is_infinite()):
        result = Decimal(1)
    else:
        spend(_POWER_STEPS)
        result = DECIMAL.plus(_WIDE.power(base, exponent))
    if not result:
        return Decimal(0, DECIMAL).scaleb(DECIMAL.Etiny(), DECIMAL)
    if not result.is_finite():
        return result
    # MongoDB's decimal library gives every computed power all of its 34 digits.
    return result.quantize(Decimal((0, (1,), result.adjusted() - _DIGITS + 1)), context=DECIMAL)


def _integer_power(base: int, exponent: int) -> Number:
    if abs(base) <= 1:
        result = base if exponent % 2 else base * base
        result = 1 if exponent == 0 else result
    elif exponent < 0 or exponent >= 64 or not fits_int64(result := int(base) ** exponent):
        return _double_power(float(base), float(exponent))
    if Kind.INT64 in (kind_of(base), kind_of(exponent)):
        return Int64(result)
    return int32_or_int64(result)


def _double_power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf
    except ValueError:
        return math.nan


def sigmoid(value: Any) -> Any:
    """``1 / (1 + e**-value)``, computed by the corresponding operators."""
    negated = multiply([-1, value])
    if negated is None:
        return None
    decayed = (
        decimal128(DECIMAL.exp(to_decimal(negated))) if kind_of(negated) is Kind.DECIMAL else _exp(negated)
    )
    return divide(1, add([1, decayed]))


OPERATORS: Final[dict[str, OperatorParser]] = {
    "$exp": number_function("$exp", _exp, DECIMAL.exp),
    "$ln": number_function("$ln", math.log, DECIMAL.ln, _positive("$ln", 28766), double_nan=True),
    "$log": binary(logarithm),
    "$log10": number_function(
        "$log10", math.log10, DECIMAL.log10, _positive("$log10", 28761), double_nan=True
    ),
    "$pow": binary(power),
    "$sigmoid": unary(sigmoid),
    "$sqrt": number_function("$sqrt", math.sqrt, DECIMAL.sqrt, _check_square),
}
