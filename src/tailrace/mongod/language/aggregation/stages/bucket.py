"""`$bucket`: group documents by ranges of an expression's value.

A bucket includes its lower boundary, which is its ``_id``, but not its upper one. Values outside all ranges
go to the default bucket; without one they are an error.
"""

from bisect import bisect_right
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from tailrace.bson.compare import sort_key, type_bracket
from tailrace.bson.values import is_string
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.accumulators import parse_accumulator
from tailrace.mongod.language.aggregation.accumulators.accumulator import value_key
from tailrace.mongod.language.aggregation.rows import Rows
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.mongod.language.aggregation.stage import Stage
from tailrace.mongod.language.aggregation.stages.group import Accumulators, group_stage, parse_accumulators
from tailrace.mongod.language.aggregation.stages.sort import sort_stage
from tailrace.query.expressions import Environment
from tailrace.query.expressions.operands import type_name
from tailrace.query.expressions.scope import Constant
from tailrace.query.missing import MISSING
from tailrace.query.sorting import compile_sort

_OPTIONS = ("groupBy", "boundaries", "default", "output")


def compile_bucket(name: str, spec: Any, scope: StageScope) -> Stage:
    """A `$group` by the lower boundary, and a `$sort` by it."""
    if not isinstance(spec, Mapping):
        raise CommandError(40201, f"Argument to {name} stage must be an object, but found {type_name(spec)}")
    for option in spec:
        if option not in _OPTIONS:
            raise CommandError(40197, f"Unrecognized option to {name}: {option}")
    if "groupBy" not in spec or "boundaries" not in spec:
        raise CommandError(40198, f"{name} requires 'groupBy' and 'boundaries' to be specified")
    check_group_by(name, spec["groupBy"], 40202)
    group_by = scope.parse(spec["groupBy"])
    boundaries = _checked_boundaries(name, spec["boundaries"], scope)
    has_default = "default" in spec
    default = _checked_default(name, spec["default"], boundaries, scope) if has_default else None
    key_of = value_key(scope)
    keys = [key_of(boundary) for boundary in boundaries]

    def bucket(env: Environment) -> Any:
        value = group_by(env)
        if value is not MISSING:
            position = bisect_right(keys, key_of(value))
            if 0 < position < len(keys):
                return boundaries[position - 1]
        if not has_default:
            raise CommandError(
                40066, f"{name} found a value outside of all its boundaries, and no default was specified"
            )
        return default

    accumulators = output_accumulators(name, spec.get("output"), scope, 40196)
    group = group_stage(bucket, accumulators, scope)
    sort = sort_stage(compile_sort({"_id": 1}, scope.context.collation), scope.memory)

    def run(rows: Rows) -> Rows:
        return sort(group(rows))

    return run


def check_group_by(name: str, spec: Any, code: int) -> None:
    """Refuse a ``groupBy`` that is neither a path nor an expression."""
    if isinstance(spec, Mapping) and next(iter(spec), "").startswith("$"):
        return
    if not is_string(spec) or not spec.startswith("$"):
        raise CommandError(
            code,
            f"The {name} 'groupBy' field must be defined as a $-prefixed path or an expression object",
        )


def output_accumulators(name: str, spec: Any, scope: StageScope, not_object: int) -> Accumulators:
    """The fields of each bucket; by default the number of documents."""
    if spec is None:
        return {"count": parse_accumulator("$sum", 1, scope)}
    if not isinstance(spec, Mapping):
        raise CommandError(
            not_object, f"The {name} 'output' field must be an object, but found type: {type_name(spec)}"
        )
    return parse_accumulators(spec, scope)


def _constant(spec: Any, scope: StageScope, code: int, message: str) -> Any:
    expression = scope.parse(spec)
    if not isinstance(expression, Constant):
        raise CommandError(code, message)
    return expression.value


def _checked_boundaries(name: str, spec: Any, scope: StageScope) -> list[Any]:
    if not isinstance(spec, list):
        raise CommandError(
            40200, f"The {name} 'boundaries' field must be an array, but found type: {type_name(spec)}"
        )
    boundaries = [
        _constant(item, scope, 40191, f"The {name} 'boundaries' field must be an array of constant values")
        for item in spec
    ]
    if len(boundaries) < 2:
        raise CommandError(40192, f"The {name} 'boundaries' field must have at least 2 values")
    for lower, upper in pairwise(boundaries):
        if type_bracket(lower) != type_bracket(upper):
            raise CommandError(
                40193,
                f"All values in the 'boundaries' option to {name} must have the same type. Found conflicting "
                f"types {type_name(lower)} and {type_name(upper)}",
            )
        if sort_key(lower, scope.string_key) >= sort_key(upper, scope.string_key):
            raise CommandError(
                40194, f"The 'boundaries' option to {name} must be sorted, and no two may be the same"
            )
    return boundaries


def _checked_default(name: str, spec: Any, boundaries: list[Any], scope: StageScope) -> Any:
    default = _constant(spec, scope, 40195, f"The {name} 'default' field must be a constant value")
    key = sort_key(default, scope.string_key)
    inside = type_bracket(default) == type_bracket(boundaries[0])
    if inside and not (
        key < sort_key(boundaries[0], scope.string_key) or key >= sort_key(boundaries[-1], scope.string_key)
    ):
        raise CommandError(
            40199,
            f"The {name} 'default' field must be less than the lowest boundary or greater than or equal to "
            "the highest boundary",
        )
    return default
