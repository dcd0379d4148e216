"""Comparison operators: values of all types compare in BSON order, strings by the collation."""

from collections.abc import Callable
from typing import Any, Final

from tailrace.query.expressions.arguments import parse_exactly
from tailrace.query.expressions.operands import compare
from tailrace.query.expressions.scope import Expression, ExpressionScope, OperatorParser


def _comparison(outcome: Callable[[int], Any]) -> OperatorParser:
    def parse(name: str, spec: Any, scope: ExpressionScope) -> Expression:
        left, right = parse_exactly(2, name, spec, scope)
        string_key = scope.string_key
        return lambda env: outcome(compare(left(env), right(env), string_key))

    return parse


OPERATORS: Final[dict[str, OperatorParser]] = {
    "$cmp": _comparison(lambda order: (order > 0) - (order < 0)),
    "$eq": _comparison(lambda order: order == 0),
    "$ne": _comparison(lambda order: order != 0),
    "$gt": _comparison(lambda order: order > 0),
    "$gte": _comparison(lambda order: order >= 0),
    "$lt": _comparison(lambda order: order < 0),
    "$lte": _comparison(lambda order: order <= 0),
}
