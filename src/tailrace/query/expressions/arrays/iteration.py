"""Operators on the elements of arrays: `$map`, `$filter`, `$reduce`, `$zip`."""

from itertools import zip_longest
from typing import Any, Final

from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.pacing import ticking
from tailrace.query.expressions.arguments import named_specs
from tailrace.query.expressions.numbers.number_types import int32_value
from tailrace.query.expressions.operands import is_nullish, is_truthy, type_name
from tailrace.query.expressions.scope import (
    Environment,
    Expression,
    ExpressionScope,
    OperatorParser,
    build_array,
    check_variable_write,
)
from tailrace.query.missing import MISSING
from tailrace.unused import freed_in_pieces

_ELEMENT: Final = "this"


def _element_name(name: str, spec: Any) -> str:
    if not is_string(spec):
        raise CommandError(
            ErrorCode.TypeMismatch, f"{name} expects a string for 'as', found: {type_name(spec)}"
        )
    check_variable_write(spec)
    return spec


def _parse_map(name: str, spec: Any, scope: ExpressionScope) -> Expression:
    specs = named_specs(
        name, spec, required={"input": 16880, "in": 16882}, optional=("as",), not_object=16878, unknown=16879
    )
    source = scope.parse(specs["input"])
    variable = _element_name(name, specs.get("as", _ELEMENT))
    body = scope.define(variable).parse(specs["in"])

    def apply(env: Environment) -> list[Any] | None:
        array = source(env)
        if is_nullish(array):
            return None
        if not isinstance(array, list):
            raise CommandError(16883, f"input to {name} must be an array not {type_name(array)}")
        inner = env.copy()
        result: list[Any] = freed_in_pieces([], len(array))
        for item in ticking(array):
            inner[variable] = item
            value = body(inner)
            result.append(None if value is MISSING else value)
        return result

    return apply


def _parse_filter(name: str, spec: Any, scope: ExpressionScope) -> Expression:
    specs = named_specs(
        name,
        spec,
        required={"input": 28648, "cond": 28650},
        optional=("as", "limit"),
        not_object=28646,
        unknown=28647,
    )
    source = scope.parse(specs["input"])
    limit = scope.parse(specs.get("limit"))
    variable = _element_name(name, specs.get("as", _ELEMENT))
    condition = scope.define(variable).parse(specs["cond"])

    def apply(env: Environment) -> list[Any] | None:
        array = source(env)
        if is_nullish(array):
            return None
        if not isinstance(array, list):
            raise CommandError(28651, f"input to {name} must be an array not {type_name(array)}")
        remaining = _checked_limit(name, limit(env))
        inner = env.copy()
        result: list[Any] = freed_in_pieces([], len(array))
        for item in ticking(array):
            if len(result) == remaining:
                break
            inner[variable] = item
            if is_truthy(condition(inner)):
                result.append(item)
        return result

    return apply


def _checked_limit(name: str, limit: Any) -> int | None:
    if is_nullish(limit):
        return None
    number = int32_value(limit)
    if number is None:
        raise CommandError(327391, f"{name}: limit must be represented as a 32-bit integral value: {limit}")
    if number < 1:
        raise CommandError(327392, f"{name}: limit must be greater than 0: {number}")
    return number


def _parse_reduce(name: str, spec: Any, scope: ExpressionScope) -> Expression:
    specs = named_specs(
        name,
        spec,
        required={"input": 40077, "initialValue": 40078, "in": 40079},
        not_object=40075,
        unknown=40076,
    )
    source = scope.parse(specs["input"])
    initial = scope.parse(specs["initialValue"])
    body = scope.define(_ELEMENT, "value").parse(specs["in"])

    def apply(env: Environment) -> Any:
        array = source(env)
        if is_nullish(array):
            return None
        if not isinstance(array, list):
            raise CommandError(40080, f"{name} requires that 'input' be an array, found: {type_name(array)}")
        inner = env.copy()
        total = initial(env)
        for item in ticking(array):
            inner[_ELEMENT] = item
            inner["value"] = total
            total = body(inner)
        return total

    return apply


def _parse_zip(name: str, spec: Any, scope: ExpressionScope) -> Expression:
    specs = named_specs(
        name,
        spec,
        required={"inputs": 34465},
        optional=("defaults", "useLongestLength"),
        not_object=34460,
        unknown=34464,
    )
    inputs, defaults = specs["inputs"], specs.get("defaults")
    longest = specs.get("useLongestLength", False)
    if not isinstance(inputs, list):
        raise CommandError(34461, f"inputs must be an array of expressions, found {type_name(inputs)}")
    if defaults is not None and not isinstance(defaults, list):
        raise CommandError(34462, f"defaults must be an array of expressions, found {type_name(defaults)}")
    if not isinstance(longest, bool):
        raise CommandError(34463, f"useLongestLength must be a bool, found {type_name(longest)}")
    if not inputs:
        raise CommandError(34465, f"{name} requires at least one input array")
    if defaults and not longest:
        raise CommandError(34466, "cannot specify defaults unless useLongestLength is true")
    if defaults and len(defaults) != len(inputs):
        raise CommandError(34467, "defaults and inputs must have the same length")
    sources = [scope.parse(item) for item in inputs]
    fillers: list[Expression] = [scope.parse(item) for item in defaults or [None] * len(inputs)]

    def apply(env: Environment) -> list[list[Any]] | None:
        arrays = []
        for source in sources:
            array = source(env)
            if is_nullish(array):
                return None
            if not isinstance(array, list):
                raise CommandError(34468, f"{name} found a non-array expression in input: {type_name(array)}")
            arrays.append(array)
        result: list[list[Any]] = freed_in_pieces([], max(map(len, arrays), default=0))
        if not longest:
            result.extend(list(row) for row in zip(ticking(arrays[0]), *arrays[1:], strict=False))
            return result
        filling = build_array(fillers, env)
        result.extend(
            [default if item is MISSING else item for item, default in zip(row, filling, strict=True)]
            for row in zip_longest(ticking(arrays[0]), *arrays[1:], fillvalue=MISSING)
        )
        return result

    return apply


OPERATORS: Final[dict[str, OperatorParser]] = {
    "$filter": _parse_filter,
    "$map": _parse_map,
    "$reduce": _parse_reduce,
    "$zip": _parse_zip,
}
