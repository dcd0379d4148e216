"""`$group`: one document for each value of an expression, with accumulators over its documents.

Groups are in the order of their first documents (MongoDB does not define an order), or in that of their ids
if they did not fit into memory. The ``_id`` is the first of equal values: ``1`` and ``1.0`` are one group.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Final, TypeAlias

from bson import Decimal128

from tailrace.bson.documents import decode, encode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.accumulators import Accumulator, State, parse_accumulated_field
from tailrace.mongod.language.aggregation.accumulators.accumulator import value_key
from tailrace.mongod.language.aggregation.accumulators.choosing import First
from tailrace.mongod.language.aggregation.memory.budget import size_of
from tailrace.mongod.language.aggregation.memory.runs import Runs
from tailrace.mongod.language.aggregation.rows import PAUSE, Document, Row, Rows, paced
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.mongod.language.aggregation.stage import Stage
from tailrace.pacing import tick
from tailrace.query.expressions import Environment, Expression
from tailrace.query.expressions.arrays.ordered import in_order
from tailrace.query.missing import MISSING
from tailrace.unused import LARGE, freed_in_pieces

Accumulators: TypeAlias = Mapping[str, Accumulator]

_GROUP_OVERHEAD: Final = 192
_STATE_OVERHEAD: Final = 80
"""What groups and their states count in memory besides their values."""


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
        groups = _Groups(accumulators, scope)
        try:
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
                states = groups.states(key, value)
                grown = 0
                for argument, state in zip(arguments, states, strict=True):
                    # After its first document, `$first` is not evaluated.
                    if state.__class__ is not First or not state.has_value:
                        grown += state.add(argument(env))
                if groups.is_over(grown):
                    groups.spill()
                    yield PAUSE
            yield from paced(groups.results())
        finally:
            groups.close()

    return run


class _Groups:
    """The groups of a stage: in memory, or as runs in the order of their ids."""

    def __init__(self, accumulators: Accumulators, scope: StageScope) -> None:
        self._accumulators = accumulators
        self._fields = tuple(accumulators)
        self._scope = scope
        self._groups: dict[Any, tuple[Any, list[State]]] = {}
        self._group_size = _GROUP_OVERHEAD + _STATE_OVERHEAD * len(accumulators)
        self._new = 0
        self._may_use_disk = scope.memory.may_use_disk
        self._runs: Runs[Document] = Runs(scope.memory, _unpacker(value_key(scope)))
        self._holding = scope.memory.hold(scope.memory.limits.group)

    def states(self, key: Any, value: Any) -> list[State]:
        """The states of a group, which is created if necessary."""
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = value, start_states(self._accumulators, value, self._scope)
            self._new += self._group_size + size_of(value)
            if len(self._groups) == LARGE:
                freed_in_pieces(self._groups)
        return group[1]

    def is_over(self, grown: int) -> bool:
        """Count what the last document has added; returns whether `spill` has to be called."""
        size, self._new = grown + self._new, 0
        return bool(size) and self._holding.add(size) and (len(self._groups) > 1 or grown > 0)

    def spill(self) -> None:
        """Store all groups; raises if the disk may not be used."""
        if not self._may_use_disk:
            raise CommandError(
                ErrorCode.QueryExceededMemoryLimitNoDiskUseAllowed,
                "Exceeded memory limit for $group, but didn't allow external sort. "
                "Pass allowDiskUse:true to opt in.",
            )
        groups, self._groups = self._groups, {}
        self._runs.add(_pack(*group) for group in in_order(groups.items()))
        self._holding.clear()

    def results(self) -> Iterator[Row]:
        if self._runs or (self._holding.is_too_much_at_rest and self._may_use_disk):
            self.spill()
            return self._merged()
        return self._held()

    def _held(self) -> Iterator[Row]:
        for value, states in self._groups.values():
            yield self._result(value, states)

    def _merged(self) -> Iterator[Row]:
        for _, parts in groupby(self._runs.merged(), key=itemgetter(0)):
            first = next(parts)[1]
            value = first["_id"]
            states = start_states(self._accumulators, value, self._scope)
            for part in chain([first], (part for _, part in parts)):
                for state, partial in zip(states, part["states"], strict=True):
                    state.merge(partial)
            yield self._result(value, states)

    def _result(self, value: Any, states: list[State]) -> Row:
        return Row({"_id": value, **accumulated(self._fields, states)})

    def close(self) -> None:
        self._groups = {}
        self._holding.close()
        self._runs.close()


def _unpacker(key_of: Callable[[Any], Any]) -> Callable[[bytes], tuple[Any, Document]]:
    def unpack(record: bytes) -> tuple[Any, Document]:
        group = decode(record)
        return key_of(group["_id"]), group

    return unpack


def _pack(value: Any, states: list[State]) -> bytes:
    return encode({"_id": value, "states": [state.partial() for state in states]})


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
