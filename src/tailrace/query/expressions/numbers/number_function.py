"""Operators on one number that compute in doubles, or in decimals for a decimal."""

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from tailrace.query.expressions.arguments import unary
from tailrace.query.expressions.numbers.arithmetic import not_numeric
from tailrace.query.expressions.numbers.number_types import decimal128, real, to_double
from tailrace.query.expressions.operands import is_nullish, is_number
from tailrace.query.expressions.scope import OperatorParser

DomainCheck = Callable[[float | Decimal], None]
"""Raises if the operator is not defined for a number."""


def _anywhere(_: float | Decimal) -> None:
    return


def number_function(
    name: str,
    on_double: Callable[[float], float],
    on_decimal: Callable[[Decimal], Decimal],
    check: DomainCheck = _anywhere,
    *,
    double_nan: bool = False,
) -> OperatorParser:
    """An operator that returns null for null and NaN for NaN, of the same type or always as a double."""

    def apply(value: Any) -> Any:
        if is_nullish(value):
            return None
        if not is_number(value):
            raise not_numeric(name, value)
        number = real(value)
        if number != number:
            return math.nan if double_nan else value
        check(number)
        return decimal128(on_decimal(number)) if isinstance(number, Decimal) else on_double(to_double(value))

    return unary(apply)
