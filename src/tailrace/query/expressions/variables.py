"""`$let`, which binds variables, and `$literal`, whose argument is not parsed."""

from collections.abc import Mapping
from typing import Any, Final

from tailrace.errors import CommandError
from tailrace.query.expressions.arguments import named_specs
from tailrace.query.expressions.scope import (
    Constant,
    Environment,
    Expression,
    ExpressionScope,
    OperatorParser,
    check_variable_write,
)


def _parse_let(name: str, spec: Any, scope: ExpressionScope) -> Expression:
    specs = named_specs(name, spec, required={"vars": 16876, "in": 16877}, not_object=16874, unknown=16875)
    if not isinstance(specs["vars"], Mapping):
        raise CommandError(10065, f"invalid parameter: expected an object (vars) for {name}")
    for variable in specs["vars"]:
        check_variable_write(variable)
    # The variables are bound at the same time: none can use another.
    bindings = [(variable, scope.parse(value)) for variable, value in specs["vars"].items()]
    body = scope.define(*specs["vars"]).parse(specs["in"])

    def bind_and_evaluate(env: Environment) -> Any:
        return body({**env, **{variable: value(env) for variable, value in bindings}})

    return bind_and_evaluate


OPERATORS: Final[dict[str, OperatorParser]] = {
    "$let": _parse_let,
    "$literal": lambda _name, spec, _scope: Constant(spec),
    "$const": lambda _name, spec, _scope: Constant(spec),
}
