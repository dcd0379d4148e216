"""Accumulators over windows, and the two covariances, which exist only for windows."""

from collections.abc import Mapping
from typing import Any, Final

from tailrace.mongod.language.aggregation.accumulators import (
    ACCUMULATORS,
    Accumulator,
    State,
    parse_accumulator,
)
from tailrace.mongod.language.aggregation.windows.bounds import parse_bounds
from tailrace.mongod.language.aggregation.windows.function import (
    FunctionParser,
    WindowCall,
    WindowFunction,
    failed,
)
from tailrace.mongod.language.aggregation.windows.partition import Partition
from tailrace.query.expressions import Environment
from tailrace.query.expressions.numbers.number_types import to_double
from tailrace.query.expressions.operands import is_number
from tailrace.query.missing import MISSING


def parse_accumulated(call: WindowCall) -> WindowFunction:
    """An accumulator of `$group`."""
    return over_windows(call, parse_accumulator(call.name, call.argument, call.scope))


def over_windows(call: WindowCall, accumulator: Accumulator) -> WindowFunction:
    """An accumulator over each document's window.

    While windows only grow at their end, the state is continued from one to the next; otherwise it starts
    again.
    """
    bounds = parse_bounds(call)
    env = call.scope.environment({})

    def values(partition: Partition) -> list[Any]:
        arguments = partition.evaluate(accumulator.argument)
        results: list[Any] = []
        state: State = accumulator.start(env)
        first = end = 0
        result: Any = MISSING
        for span in bounds.spans(partition):
            if result is MISSING or span != (first, end):
                if span[0] != first or span[1] < end:
                    state = accumulator.start(env)
                    first = end = span[0]
                for argument in arguments[end : span[1]]:
                    state.add(argument)
                end = span[1]
                result = state.result()
                if result is MISSING:
                    result = None
            results.append(result)
        return results

    return values


class _Covariance:
    """The covariance of pairs of numbers, updated pair by pair."""

    __slots__ = ("_count", "_fewer", "_mean_x", "_mean_y", "_moment")

    def __init__(self, fewer: int) -> None:
        self._fewer = fewer
        self._count = 0
        self._mean_x = self._mean_y = self._moment = 0.0

    def add(self, value: tuple[Any, Any]) -> None:
        """Add a pair; ignored unless both values are numbers."""
        if not (is_number(value[0]) and is_number(value[1])):
            return
        x, y = (to_double(number) for number in value)
        self._count += 1
        delta = x - self._mean_x
        self._mean_x += delta / self._count
        self._mean_y += (y - self._mean_y) / self._count
        self._moment += delta * (y - self._mean_y)

    def result(self) -> float | None:
        """The covariance; null with too few pairs."""
        divisor = self._count - self._fewer
        return self._moment / divisor if divisor > 0 else None


def _covariance(fewer: int) -> FunctionParser:
    def parse(call: WindowCall) -> WindowFunction:
        if not isinstance(call.argument, list) or len(call.argument) != 2:
            raise failed(f"{call.name} expects an array of two expressions as its argument")
        x, y = (call.scope.parse(item) for item in call.argument)

        def pair(env: Environment) -> tuple[Any, Any]:
            return x(env), y(env)

        return over_windows(call, Accumulator(pair, lambda _env: _Covariance(fewer)))

    return parse


FUNCTIONS: Final[Mapping[str, FunctionParser]] = {
    **dict.fromkeys(ACCUMULATORS, parse_accumulated),
    "$covariancePop": _covariance(0),
    "$covarianceSamp": _covariance(1),
}
