"""`$group`: one document for each value of an expression, with accumulators over its documents.

Groups are in the order of their first documents (MongoDB does not define an order). The ``_id`` is the first
of equal values: ``1`` and ``1.0`` are one group.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from bson import Decimal128

from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.accumulators import Accumulator, State, parse_accumulated_field
from tailrace.mongod.language.aggregation.accumulators.accumulator import value_key
from tailrace.mongod.language.aggregation.accumulators.choosing import First
from tailrace.mongod.language.aggregation.rows import PAUSE, Document, Row, Rows, paced
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.mongod.language.aggregation.stage import Stage
from tailrace.query.expressions import Environment, Expression
from tailrace.query.missing import MISSING
from tailrace.query.pacing import tick

Accumulators: TypeAlias = Mapping[str, Accumulator]


def compile_group(_name: str, spec: Any, scope: StageScope) -> Stage:
    if not isinstance(spec, Mapping):
        raise CommandError(15947, "a group's fields must be specified in an object")
    group_id = parse_group_id(spec.get("_id"), scope)
    accumulators = parse_accumulators(spec, scope, besides=("_id",))
    if "_id" not in spec:
        raise CommandError(15955, "a group specification must include an _id")
    return group_stage(group_id, accumulators, scope)


def parse_group_id(spec: Any, scope: StageScope) -> Expression:
    """The expression of a group's ``_id``.

    In a document of exactly one field, null and a missing value are one group; with more fields they differ.
    """
    if not isinstance(spec, Mapping) or next(iter(spec), "$").startswith("$"):
        return scope.parse(spec)
    if any(isinstance(value, int | float | Decimal128) for value in spec.values()):
        raise CommandError(17390, "$group does not support inclusion-style expressions")
    group_id = scope.parse(spec)
    if len(spec) > 1:
        return group_id
    (field,) = spec

    def with_null(env: Environment) -> Any:
        return group_id(env) or {field: None}

    return with_null


def parse_accumulators(
    spec: Mapping[str, Any], scope: StageScope, *, besides: Iterable[str] = ()
) -> Accumulators:
    """The accumulated fields of a specification."""
    return {
        field: parse_accumulated_field(field, value, scope)
        for field, value in spec.items()
        if field not in besides
    }


def group_stage(group_id: Expression, accumulators: Accumulators, scope: StageScope) -> Stage:
    """A stage that groups; also part of other stages."""
    arguments = [accumulator.argument for accumulator in accumulators.values()]
    key_of = value_key(scope)

    def run(rows: Rows) -> Rows:
        groups: dict[Any, tuple[Any, list[State]]] = {}
        for row in rows:
            if row is PAUSE:
                yield row
                continue
            tick()
            env = scope.environment(row.document)
            value = group_id(env)
            if value is MISSING:
                value = None
            key = key_of(value)
            group = groups.get(key)
            if group is None:
                group = groups[key] = value, start_states(accumulators, value, scope)
            for argument, state in zip(arguments, group[1], strict=True):
                # After its first document, `$first` is not evaluated.
                if state.__class__ is not First or not state.has_value:
                    state.add(argument(env))
        yield from paced(_results(groups.values(), tuple(accumulators)))

    return run


def start_states(accumulators: Accumulators, group_id: Any, scope: StageScope) -> list[State]:
    """New states; expressions such as ``n`` are evaluated with the group's ``_id`` as their document."""
    env = scope.environment(group_id if isinstance(group_id, dict) else {})
    return [accumulator.start(env) for accumulator in accumulators.values()]


def accumulated(fields: Iterable[str], states: Iterable[State]) -> Document:
    """The results of accumulators by field; null where a value is missing."""
    results = {}
    for field, state in zip(fields, states, strict=True):
        value = state.result()
        results[field] = None if value is MISSING else value
    return results


def _results(groups: Iterable[tuple[Any, list[State]]], fields: tuple[str, ...]) -> Iterator[Row]:
    for value, states in groups:
        yield Row({"_id": value, **accumulated(fields, states)})
