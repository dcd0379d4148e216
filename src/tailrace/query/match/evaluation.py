"""``$mod`` on a field; ``$expr $sampleRate $comment $alwaysTrue $alwaysFalse`` beside fields."""

import random
from math import isfinite
from typing import Any

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.query.expressions import environment, parse_expression
from tailrace.query.expressions.numbers.number_types import fits_int64, integral_value, real
from tailrace.query.expressions.operands import is_number, is_truthy
from tailrace.query.match.nodes import (
    ALWAYS,
    NEVER,
    Condition,
    DocumentPredicate,
    Node,
    ValueCondition,
)
from tailrace.query.match.scope import FilterScope, OperatorCall, bad_value


def parse_mod(call: OperatorCall, _scope: FilterScope) -> Condition:
    """``$mod: [divisor, remainder]``: fractions are truncated, and the remainder has the dividend's sign."""
    argument = call.argument
    if not isinstance(argument, list):
        raise bad_value("malformed mod, needs to be an array")
    if len(argument) < 2:
        raise bad_value("malformed mod, not enough elements")
    if len(argument) > 2:
        raise bad_value("malformed mod, too many elements")
    divisor = _mod_operand("divisor", argument[0])
    remainder = _mod_operand("remainder", argument[1])
    if divisor == 0:
        raise bad_value("divisor cannot be 0")

    def holds(value: Any) -> bool:
        if not is_number(value):
            return False
        dividend = _truncated(value)
        if dividend is None:
            return False
        found = abs(dividend) % abs(divisor)
        return (-found if dividend < 0 else found) == remainder

    return ValueCondition(holds)


def _mod_operand(what: str, value: Any) -> int:
    if not is_number(value):
        raise bad_value(f"malformed mod, {what} not a number")
    number = _truncated(value)
    if number is None:
        raise bad_value(f"malformed mod, {what} value is invalid: it is not in the range of 64-bit integers")
    return number


def _truncated(value: Any) -> int | None:
    """A number without its fraction; None if it does not fit in 64 bits."""
    number = real(value)
    if not isfinite(number):
        return None
    whole = int(number)
    return whole if fits_int64(whole) else None


def parse_expr(call: OperatorCall, scope: FilterScope) -> Node:
    """``$expr``: an aggregation expression that must evaluate to true."""
    refuse_in_element(call, scope)
    variables = scope.variables
    evaluate = parse_expression(
        call.argument, variables=frozenset(variables), collation=scope.collation, dialect=scope.dialect
    )
    return DocumentPredicate(lambda document: is_truthy(evaluate(environment(document, variables))))


def parse_sample_rate(call: OperatorCall, scope: FilterScope) -> Node:
    """``$sampleRate``: each document matches with this probability."""
    refuse_in_element(call, scope)
    if not is_number(call.argument):
        raise bad_value("argument to $sampleRate must be a numeric type")
    rate = float(real(call.argument))
    if not 0 <= rate <= 1:
        raise bad_value("numeric argument to $sampleRate must be in [0, 1]")
    if rate in (0, 1):
        return ALWAYS if rate == 1 else NEVER
    return DocumentPredicate(lambda _document: random.random() < rate)


def parse_constant(call: OperatorCall, _scope: FilterScope) -> Node:
    """``$alwaysTrue: 1`` and ``$alwaysFalse: 1``."""
    if integral_value(call.argument) != 1:
        raise CommandError(ErrorCode.FailedToParse, f"{call.name} must be an integer value of 1")
    return ALWAYS if call.name == "$alwaysTrue" else NEVER


def parse_comment(_operation: OperatorCall, _scope: FilterScope) -> None:
    """``$comment``: any value, without effect."""


def refuse_in_element(call: OperatorCall, scope: FilterScope) -> None:
    """Refuse an operator inside ``$elemMatch`` that applies only to the whole document."""
    if scope.in_element:
        raise bad_value(f"{call.name} can only be applied to the top-level document")
