"""``$top $bottom $topN $bottomN``: outputs of the first or last documents in an order."""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.accumulators.accumulator import (
    Accumulator,
    AccumulatorParser,
    State,
)
from tailrace.mongod.language.aggregation.memory.budget import exceeded, size_of
from tailrace.mongod.language.aggregation.rows import Document
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.query.expressions import Environment
from tailrace.query.expressions.arguments import named_specs
from tailrace.query.expressions.arrays.selection import checked_count
from tailrace.query.expressions.operands import type_name
from tailrace.query.expressions.scope import Constant
from tailrace.query.missing import MISSING
from tailrace.query.sorting import Ordering, TopSelector, compile_sort

_NO_ORDER, _NO_OUTPUT, _NO_COUNT = 5788005, 5788004, 5788003


class Ranked:
    """The first or last ``n`` of an order, in that order."""

    __slots__ = ("_limit", "_name", "_selector", "_size")

    def __init__(self, name: str, ordering: Ordering, count: int, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._size = 0
        self._selector: TopSelector[_Output] = TopSelector(
            ordering, count, from_end=name.startswith("$bottom")
        )

    def add(self, value: "_Output") -> int:
        """Add the fields of a document that it is sorted by, and its output."""
        dropped = self._selector.add(value[0], value)
        if dropped and dropped[0] is value:
            return 0
        before = self._size
        self._size += _size_of(value) - sum(map(_size_of, dropped))
        if self._size > self._limit:
            self._size -= sum(map(_size_of, self._selector.cut()))
        if self._size > self._limit:
            how = "spilling to disk cannot reduce memory consumption any further"
            raise exceeded(self._name, self._limit, how)
        return self._size - before

    def result(self) -> list[Any]:
        return [output for _, output in self._selector.items()]

    def partial(self) -> list[Any]:
        return [list(value) for value in self._selector.items()]

    def merge(self, partial: list[Any]) -> int:
        return sum(self.add((document, output)) for document, output in partial)


_Output: TypeAlias = tuple[Document, Any]
"""The fields of a document that it is sorted by, and its output"""


def _size_of(value: _Output) -> int:
    return size_of(value[0]) + size_of(value[1])


class _Single:
    """The element of a state with ``n`` = 1, without the array."""

    __slots__ = ("_state",)

    def __init__(self, state: State) -> None:
        self._state = state

    def add(self, value: _Output) -> int:
        return self._state.add(value)

    def result(self) -> Any:
        """The element; null if there is none."""
        return next(iter(self._state.result()), None)

    def partial(self) -> Any:
        return self._state.partial()

    def merge(self, partial: Any) -> int:
        return self._state.merge(partial)


def _parse(name: str, spec: Any, scope: StageScope) -> Accumulator:
    has_count = name.endswith("N")
    required = {**({"n": _NO_COUNT} if has_count else {}), "output": _NO_OUTPUT, "sortBy": _NO_ORDER}
    specs = named_specs(name, spec, required=required, not_object=5788001, unknown=5788002)
    if not isinstance(specs["sortBy"], Mapping):
        raise CommandError(
            10065, f"'sortBy' of {name} must be an object, but is of type {type_name(specs['sortBy'])}"
        )
    if not specs["sortBy"]:
        raise CommandError(9657900, f"'sortBy' of {name} must be a non-empty object")
    ordering = compile_sort(specs["sortBy"], scope.context.collation)
    output = scope.parse(specs["output"])
    count = scope.parse(specs["n"]) if has_count else Constant(1)

    names = tuple(dict.fromkeys(path.components[0] for path in ordering.paths))
    limit = scope.memory.limits.top

    def argument(env: Environment) -> _Output:
        value = output(env)
        document = env["ROOT"]
        sorted_by = {name: document[name] for name in names if name in document}
        return sorted_by, None if value is MISSING else value

    def start(env: Environment) -> State:
        state = Ranked(name, ordering, checked_count(name, count(env)), limit)
        return state if has_count else _Single(state)

    return Accumulator(argument, start)


ACCUMULATORS: Final[dict[str, AccumulatorParser]] = {
    "$bottom": _parse,
    "$bottomN": _parse,
    "$top": _parse,
    "$topN": _parse,
}
