"""Boolean operators: any value is a condition, and evaluation stops when the result is certain.

A constant that decides is found before any document is read.
"""

from typing import Any, Final

from tailrace.query.expressions.arguments import parse_list, unary
from tailrace.query.expressions.operands import is_truthy
from tailrace.query.expressions.scope import Constant, Expression, ExpressionScope, OperatorParser


def _parse_and(_: str, spec: Any, scope: ExpressionScope) -> Expression:
    conditions = parse_list(spec, scope)
    if any(isinstance(condition, Constant) and not is_truthy(condition.value) for condition in conditions):
        return Constant(False)
    return lambda env: all(is_truthy(condition(env)) for condition in conditions)


def _parse_or(_: str, spec: Any, scope: ExpressionScope) -> Expression:
    conditions = parse_list(spec, scope)
    if any(isinstance(condition, Constant) and is_truthy(condition.value) for condition in conditions):
        return Constant(True)
    return lambda env: any(is_truthy(condition(env)) for condition in conditions)


OPERATORS: Final[dict[str, OperatorParser]] = {
    "$and": _parse_and,
    "$or": _parse_or,
    "$not": unary(lambda value: not is_truthy(value)),
}
