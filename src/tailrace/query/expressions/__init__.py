"""MongoDB's aggregation expressions, compiled to functions of an environment.

>>> evaluate = parse_expression({"$cond": [{"$gt": ["$qty", 10]}, "many", "few"]})
>>> evaluate(environment({"qty": 12}, {}))
'many'

`scope` contains the grammar, `operators` the table of all operators; every other file is a family of them.
"""

from collections.abc import Mapping
from typing import Any

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.query.dialect import CURRENT_DIALECT, Dialect
from tailrace.query.expressions.operators import OPERATORS
from tailrace.query.expressions.scope import Collating, Environment, Expression, ExpressionScope

__all__ = ["Environment", "Expression", "environment", "parse_expression"]


def parse_expression(
    spec: Any,
    *,
    variables: frozenset[str] = frozenset(),
    collation: Collating | None = None,
    dialect: Dialect = CURRENT_DIALECT,
) -> Expression:
    """Compile a specification; an unknown operator or variable or a bad argument raises `CommandError`."""
    string_key = None if collation is None else collation.string_key
    try:
        return ExpressionScope(OPERATORS, variables, string_key, dialect).parse_all(spec)
    except RecursionError:
        raise CommandError(ErrorCode.Overflow, "the expression is nested too deeply") from None


def environment(root: dict[str, Any], variables: Mapping[str, Any]) -> Environment:
    """The environment of expressions on the document `root`."""
    return {"CURRENT": root, **variables, "ROOT": root}
