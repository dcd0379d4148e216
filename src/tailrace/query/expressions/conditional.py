"""Conditional operators: only the branch that is taken is evaluated."""

from collections.abc import Mapping
from typing import Any, Final

from tailrace.errors import CommandError
from tailrace.query.expressions.arguments import (
    named_expressions,
    named_specs,
    parse_exactly,
    parse_list,
)
from tailrace.query.expressions.operands import is_nullish, is_truthy, type_name
from tailrace.query.expressions.scope import (
    Constant,
    Environment,
    Expression,
    ExpressionScope,
    OperatorParser,
)

_COND_ARGUMENTS: Final = {"if": 17080, "then": 17081, "else": 17082}


def _parse_cond(name: str, spec: Any, scope: ExpressionScope) -> Expression:
    if isinstance(spec, Mapping):
        named = named_expressions(
            name, spec, scope, required=_COND_ARGUMENTS, not_object=16020, unknown=17083
        )
        condition, then, otherwise = (named[key] for key in _COND_ARGUMENTS)
    else:
        condition, then, otherwise = parse_exactly(3, name, spec, scope)
    return lambda env: then(env) if is_truthy(condition(env)) else otherwise(env)


def _parse_if_null(name: str, spec: Any, scope: ExpressionScope) -> Expression:
    *candidates, replacement = parse_list(spec, scope) or [scope.parse(None)]
    if not candidates:
        raise CommandError(1257300, f"{name} needs at least two arguments")

    def first_present(env: Environment) -> Any:
        for candidate in candidates:
            value = candidate(env)
            if not is_nullish(value):
                return value
        return replacement(env)

    return first_present


def _parse_switch(name: str, spec: Any, scope: ExpressionScope) -> Expression:
    specs = named_specs(
        name, spec, required={"branches": 40068}, optional=("default",), not_object=40060, unknown=40067
    )
    if not isinstance(specs["branches"], list):
        kind = type_name(specs["branches"])
        raise CommandError(40061, f"{name} expected an array for 'branches', found: {kind}")
    branches = [_parse_branch(name, branch, scope) for branch in specs["branches"]]
    if not branches:
        raise CommandError(40068, f"{name} requires at least one branch")
    default = scope.parse(specs["default"]) if "default" in specs else None
    if default is None and all(_never_holds(condition) for condition, _ in branches):
        scope.note_failure(40069, f"{name} needs a default if no case can be true")

    def first_match(env: Environment) -> Any:
        for condition, then in branches:
            if is_truthy(condition(env)):
                return then(env)
        if default is None:
            raise CommandError(40066, f"{name} could not find a matching branch, and has no default")
        return default(env)

    return first_match


def _never_holds(condition: Expression) -> bool:
    return isinstance(condition, Constant) and not is_truthy(condition.value)


def _parse_branch(name: str, branch: Any, scope: ExpressionScope) -> tuple[Expression, Expression]:
    named = named_expressions(
        name, branch, scope, required={"case": 40064, "then": 40065}, not_object=40062, unknown=40063
    )
    return named["case"], named["then"]


OPERATORS: Final[dict[str, OperatorParser]] = {
    "$cond": _parse_cond,
    "$ifNull": _parse_if_null,
    "$switch": _parse_switch,
}
