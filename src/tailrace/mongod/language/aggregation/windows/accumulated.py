"""Accumulators over windows, and the two covariances, which exist only for windows."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol

from tailrace.mongod.language.aggregation.accumulators import ACCUMULATORS, parse_accumulator
from tailrace.mongod.language.aggregation.windows.bounds import parse_bounds
from tailrace.mongod.language.aggregation.windows.function import (
    FunctionParser,
    WindowCall,
    WindowFunction,
)
from tailrace.mongod.language.aggregation.windows.partition import Partition
from tailrace.pacing import ticking
from tailrace.query.expressions import Environment, Expression
from tailrace.query.expressions.numbers.number_types import int32_or_int64, to_double
from tailrace.query.expressions.operands import is_number
from tailrace.query.missing import MISSING


def parse_accumulated(call: WindowCall) -> WindowFunction:
    """An accumulator of `$group`."""
    accumulator = parse_accumulator(call.name, call.argument, call.scope)
    return _over_windows(call, accumulator.argument, accumulator.start)


class _State(Protocol):
    """What windows need of an accumulator's state: it is never stored."""

    def add(self, value: Any) -> int: ...

    def result(self) -> Any: ...


def _over_windows(
    call: WindowCall, argument: Expression, start: Callable[[Environment], _State]
) -> WindowFunction:
    """An accumulator over each document's window.

    While windows only grow at their end, the state is continued from one to the next; otherwise it starts
    again.
    """
    bounds = parse_bounds(call)
    env = call.scope.environment({})

    def values(partition: Partition) -> Iterator[Any]:
        # One by one: the arrays of a `$push` may be much larger than the partition together.
        arguments = partition.evaluate(argument)
        state = start(env)
        first = end = 0
        result: Any = MISSING
        for span in bounds.spans(partition):
            if result is MISSING or span != (first, end):
                if span[0] != first or span[1] < end:
                    state = start(env)
                    first = end = span[0]
                for value in ticking(arguments[end : span[1]]):
                    state.add(value)
                end = span[1]
                result = state.result()
                if result is MISSING:
                    result = None
                elif bounds.moves:
                    result = _narrowed(call.name, result, arguments[first:end])
            yield result

    return values


def _narrowed(name: str, result: Any, arguments: list[Any]) -> Any:
    """The result as a mongod types it over a window that values leave: as narrow as possible."""
    if name in ("$sum", "$count") and isinstance(result, int):
        return int32_or_int64(result)
    if name == "$stdDevPop" and result == 0 and sum(map(is_number, arguments)) == 1:
        return 0
    return result


class _Covariance:
    """The covariance of pairs of numbers, updated pair by pair."""

    __slots__ = ("_count", "_fewer", "_mean_x", "_mean_y", "_moment")

    def __init__(self, fewer: int) -> None:
        self._fewer = fewer
        self._count = 0
        self._mean_x = self._mean_y = self._moment = 0.0

    def add(self, value: tuple[Any, Any]) -> int:
        """Add a pair; ignored unless both values are numbers."""
        if not (is_number(value[0]) and is_number(value[1])):
            return 0
        x, y = (to_double(number) for number in value)
        self._count += 1
        delta = x - self._mean_x
        self._mean_x += delta / self._count
        self._mean_y += (y - self._mean_y) / self._count
        self._moment += delta * (y - self._mean_y)
        return 0

    def result(self) -> float | None:
        """The covariance; null with too few pairs."""
        divisor = self._count - self._fewer
        return self._moment / divisor if divisor > 0 else None


def _covariance(fewer: int) -> FunctionParser:
    def parse(call: WindowCall) -> WindowFunction:
        argument = call.scope.parse(call.argument)

        def pair(env: Environment) -> tuple[Any, Any]:
            """The two values of the argument; anything else is no pair of numbers, and ignored."""
            found = argument(env)
            return (found[0], found[1]) if isinstance(found, list) and len(found) == 2 else (None, None)

        return _over_windows(call, pair, lambda _env: _Covariance(fewer))

    return parse


FUNCTIONS: Final[Mapping[str, FunctionParser]] = {
    **{name: parse_accumulated for name in ACCUMULATORS if name != "$mergeObjects"},
    "$covariancePop": _covariance(0),
    "$covarianceSamp": _covariance(1),
}
