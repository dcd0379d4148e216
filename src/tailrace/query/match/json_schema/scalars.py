"""Keywords for numbers and strings; values of other types pass."""

from decimal import Decimal, InvalidOperation, localcontext
from typing import Any

from tailrace.query.expressions.numbers.number_types import to_decimal
from tailrace.query.expressions.operands import Number, is_number
from tailrace.query.match.json_schema.keyword import (
    Keyword,
    checked_bool,
    checked_string,
    failed_to_parse,
    only_for,
    size_limit,
    type_mismatch,
)
from tailrace.query.match.value_tests import pattern_test, range_test
from tailrace.query.paths import Test

_EXCLUSIVE = {"minimum": ("exclusiveMinimum", "$gte", "$gt"), "maximum": ("exclusiveMaximum", "$lte", "$lt")}


def parse_limit(keyword: Keyword) -> Test:
    """``minimum`` and ``maximum``, exclusive if ``exclusiveMinimum`` or ``exclusiveMaximum`` is true."""
    limit = _checked_number(keyword)
    exclusive_name, inclusive, exclusive = _EXCLUSIVE[keyword.name]
    operator = exclusive if keyword.schema.get(exclusive_name) is True else inclusive
    in_range = range_test(operator, limit)
    return lambda value: not is_number(value) or in_range(value)


def parse_exclusive(keyword: Keyword) -> None:
    """``exclusiveMinimum`` and ``exclusiveMaximum``: read by their limit, which must be beside them."""
    checked_bool(keyword)
    limit = next(name for name, (exclusive, *_) in _EXCLUSIVE.items() if exclusive == keyword.name)
    if limit not in keyword.schema:
        raise failed_to_parse(f"$jsonSchema keyword '{limit}' must be present if '{keyword.name}' is")


def parse_multiple_of(keyword: Keyword) -> Test:
    """``multipleOf``: computed in decimal, so that 0.3 is a multiple of 0.1."""
    divisor = to_decimal(_checked_number(keyword))
    if divisor.is_nan() or divisor <= 0:
        raise failed_to_parse("$jsonSchema keyword 'multipleOf' must be positive")
    return lambda value: not is_number(value) or _divides(divisor, to_decimal(value))


def _divides(divisor: Decimal, dividend: Decimal) -> bool:
    if not dividend.is_finite():
        return False
    if not divisor.is_finite():
        return dividend == 0
    with localcontext() as context:
        # Enough digits for an exact remainder with any exponents.
        context.prec = abs(dividend.adjusted() - divisor.adjusted()) + 80
        context.Emin, context.Emax = -99999, 99999
        try:
            return dividend % divisor == 0
        except InvalidOperation:
            return False


def parse_length(keyword: Keyword) -> Test:
    """``minLength`` and ``maxLength``, in code points."""
    return size_limit(keyword, str)


def parse_pattern(keyword: Keyword) -> Test:
    """``pattern``: found anywhere in the string."""
    return only_for(str, pattern_test(checked_string(keyword), ""))


def parse_annotation(keyword: Keyword) -> None:
    """``title`` and ``description``."""
    checked_string(keyword)


def _checked_number(keyword: Keyword) -> Number:
    argument: Any = keyword.argument
    if not is_number(argument):
        raise type_mismatch(f"$jsonSchema keyword '{keyword.name}' must be a number")
    return argument
