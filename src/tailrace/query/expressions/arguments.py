"""Arguments of operators: a list of expressions, or a document of named ones.

A list of one may be written without its brackets: ``{$abs: "$x"}`` is ``{$abs: ["$x"]}``.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import groupby
from typing import Any

from tailrace.errors import CommandError
from tailrace.query.expressions.scope import Constant, Expression, ExpressionScope, OperatorParser

Function = Callable[..., Any]


def parse_list(spec: Any, scope: ExpressionScope) -> list[Expression]:
    """The expressions of a list, or the one expression that is not in a list."""
    return [scope.parse(item) for item in spec] if isinstance(spec, list) else [scope.parse(spec)]


def parse_exactly(count: int, name: str, spec: Any, scope: ExpressionScope) -> list[Expression]:
    """The arguments of an operator that takes this number of them."""
    expressions = parse_list(spec, scope)
    if len(expressions) != count:
        raise CommandError(
            16020, f"Expression {name} takes exactly {count} arguments. {len(expressions)} were passed in."
        )
    return expressions


def parse_between(low: int, high: int, name: str, spec: Any, scope: ExpressionScope) -> list[Expression]:
    """The arguments of an operator that takes between ``low`` and ``high`` of them."""
    expressions = parse_list(spec, scope)
    if not low <= len(expressions) <= high:
        raise CommandError(
            28667,
            f"Expression {name} takes at least {low} arguments, and at most {high}, "
            f"but {len(expressions)} were passed in.",
        )
    return expressions


def call(function: Function, expressions: Sequence[Expression]) -> Expression:
    """The expression that applies a function to the values of the given expressions."""
    if len(expressions) == 1:
        (only,) = expressions
        return lambda env: function(only(env))
    if len(expressions) == 2:
        first, second = expressions
        return lambda env: function(first(env), second(env))
    return lambda env: function(*[expression(env) for expression in expressions])


def unary(function: Function) -> OperatorParser:
    """An operator on one value."""
    return lambda name, spec, scope: call(function, parse_exactly(1, name, spec, scope))


def binary(function: Function) -> OperatorParser:
    """An operator on two values."""
    return lambda name, spec, scope: call(function, parse_exactly(2, name, spec, scope))


def exactly(count: int, function: Function) -> OperatorParser:
    """An operator on ``count`` values."""
    return lambda name, spec, scope: call(function, parse_exactly(count, name, spec, scope))


def between(low: int, high: int, function: Function) -> OperatorParser:
    """An operator whose last arguments may be left out; the function has defaults for them."""
    return lambda name, spec, scope: call(function, parse_between(low, high, name, spec, scope))


class Law(Enum):
    """What MongoDB may do with the constant operands of an operator, before it reads a document.

    It shows in errors: an operand after a null is not looked at, but a combination of constants is computed.
    """

    NONE = 0
    ASSOCIATIVE = 1
    """Constants beside each other are combined."""
    COMMUTATIVE = 2
    """All constants are combined, and come after the other operands."""


def variadic(function: Callable[[Iterable[Any]], Any], law: Law = Law.NONE) -> OperatorParser:
    """An operator on any number of values, which the function iterates."""

    def parse(_: str, spec: Any, scope: ExpressionScope) -> Expression:
        expressions = list(with_combined_constants(parse_list(spec, scope), function, law))
        # An operand is not evaluated if the function needs none after the one before it.
        return lambda env: function(expression(env) for expression in expressions)

    return parse


def with_combined_constants(
    expressions: list[Expression], function: Callable[[Iterable[Any]], Any], law: Law
) -> Iterator[Expression]:
    """The operands, with constants combined and moved as the law permits."""
    if law is Law.NONE or all(isinstance(expression, Constant) for expression in expressions):
        yield from expressions
        return
    if law is Law.COMMUTATIVE:
        expressions = sorted(expressions, key=lambda expression: isinstance(expression, Constant))
    for are_constant, run in groupby(expressions, lambda expression: isinstance(expression, Constant)):
        operands = list(run)
        if are_constant and len(operands) > 1:
            yield Constant(function([operand({}) for operand in operands]))
        else:
            yield from operands


def named_specs(
    name: str,
    spec: Any,
    *,
    required: Mapping[str, int],
    optional: Collection[str] = (),
    not_object: int,
    unknown: int,
) -> Mapping[str, Any]:
    """The document of named arguments, checked but not parsed.

    `required` has the error code for each required name that is missing; `not_object` and `unknown` are the
    codes for an argument that is not a document and for an unknown name.
    """
    if not isinstance(spec, Mapping):
        raise CommandError(not_object, f"{name} only supports an object as its argument")
    for key in spec:
        if key not in required and key not in optional:
            raise CommandError(unknown, f"{name} found an unknown argument: {key}")
    for key, code in required.items():
        if key not in spec:
            raise CommandError(code, f"Missing '{key}' parameter to {name}")
    return spec


def named_expressions(
    name: str,
    spec: Any,
    scope: ExpressionScope,
    *,
    required: Mapping[str, int],
    optional: Collection[str] = (),
    not_object: int,
    unknown: int,
) -> dict[str, Expression]:
    """The document of named arguments, each an expression."""
    specs = named_specs(
        name, spec, required=required, optional=optional, not_object=not_object, unknown=unknown
    )
    return {key: scope.parse(value) for key, value in specs.items()}
