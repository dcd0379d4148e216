"""`$sortByCount`: the number of documents for each value of an expression, in descending order."""

from collections.abc import Mapping
from typing import Any

from tailrace.bson.values import is_string
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.accumulators import parse_accumulator
from tailrace.mongod.language.aggregation.rows import Rows
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.mongod.language.aggregation.stage import Stage
from tailrace.mongod.language.aggregation.stages.group import group_stage
from tailrace.mongod.language.aggregation.stages.sort import sort_stage
from tailrace.query.expressions.operands import type_name
from tailrace.query.sorting import compile_sort


def compile_sort_by_count(_name: str, spec: Any, scope: StageScope) -> Stage:
    """A `$group` by the expression and a `$sort` by its count."""
    _check(spec)
    group = group_stage(scope.parse(spec), {"count": parse_accumulator("$sum", 1, scope)}, scope)
    sort = sort_stage(compile_sort({"count": -1}), scope.memory, scope.wanted)

    def run(rows: Rows) -> Rows:
        return sort(group(rows))

    return run


def _check(spec: Any) -> None:
    if isinstance(spec, Mapping):
        if not next(iter(spec), "").startswith("$"):
            raise CommandError(
                40147,
                "the sortByCount field must be defined as a $-prefixed path or an expression in an object",
            )
    elif is_string(spec):
        if not spec.startswith("$"):
            raise CommandError(40148, "the sortByCount field must be defined as a $-prefixed path")
    else:
        raise CommandError(
            40149,
            f"the sortByCount field must be specified as a string or as an object, not {type_name(spec)}",
        )
