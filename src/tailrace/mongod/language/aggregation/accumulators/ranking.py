"""``$top $bottom $topN $bottomN``: outputs of the first or last documents in an order."""

from collections.abc import Mapping
from typing import Any, Final

from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.accumulators.accumulator import (
    Accumulator,
    AccumulatorParser,
    State,
)
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

    __slots__ = ("_selector",)

    def __init__(self, ordering: Ordering, count: int, *, from_end: bool) -> None:
        self._selector: TopSelector[Any] = TopSelector(ordering, count, from_end=from_end)

    def add(self, value: tuple[Document, Any]) -> None:
        """Add a document and its output."""
        self._selector.add(*value)

    def result(self) -> list[Any]:
        return list(self._selector.items())


class _Single:
    """The element of a state with ``n`` = 1, without the array."""

    __slots__ = ("_state",)

    def __init__(self, state: State) -> None:
        self._state = state

    def add(self, value: tuple[Document, Any]) -> None:
        self._state.add(value)

    def result(self) -> Any:
        """The element; null if there is none."""
        return next(iter(self._state.result()), None)


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

    def argument(env: Environment) -> tuple[Document, Any]:
        value = output(env)
        return env["ROOT"], None if value is MISSING else value

    def start(env: Environment) -> State:
        state = Ranked(ordering, checked_count(name, count(env)), from_end=name.startswith("$bottom"))
        return state if has_count else _Single(state)

    return Accumulator(argument, start)


ACCUMULATORS: Final[dict[str, AccumulatorParser]] = {
    "$bottom": _parse,
    "$bottomN": _parse,
    "$top": _parse,
    "$topN": _parse,
}
