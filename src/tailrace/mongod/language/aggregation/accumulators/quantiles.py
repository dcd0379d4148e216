"""``$median`` and ``$percentile``: exact, although the only allowed method is called approximate."""

import math
from typing import Any, Final

from tailrace.mongod.language.aggregation.accumulators.accumulator import Accumulator, AccumulatorParser
from tailrace.mongod.language.aggregation.memory.budget import size_of
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.pacing import ticking
from tailrace.query.expressions.arrays.accumulators import checked_fractions, quantile, quantile_specs
from tailrace.query.expressions.arrays.ordered import in_order
from tailrace.query.expressions.numbers.number_types import to_double
from tailrace.query.expressions.operands import is_number


class Quantiles:
    """``$percentile``: a value for each fraction; null without numbers."""

    __slots__ = ("_fractions", "_numbers")

    def __init__(self, fractions: list[float]) -> None:
        self._fractions = fractions
        self._numbers: list[float] = []

    def add(self, value: Any) -> int:
        if is_number(value):
            number = to_double(value)
            if not math.isnan(number):
                self._numbers.append(number)
                return size_of(number)
        return 0

    def result(self) -> Any:
        ordered = in_order((number, number) for number in ticking(self._numbers))
        return [quantile(ordered, fraction) for fraction in self._fractions]

    def partial(self) -> list[float]:
        return self._numbers

    def merge(self, partial: list[float]) -> int:
        return sum(map(self.add, partial))


class Median(Quantiles):
    """``$median``."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__([0.5])

    def result(self) -> float | None:
        (median,) = super().result()
        return median if median is None else float(median)


def _parse_median(name: str, spec: Any, scope: StageScope) -> Accumulator:
    specs = quantile_specs(name, spec, not_object=7436100)
    return Accumulator(scope.parse(specs["input"]), lambda _env: Median())


def _parse_percentile(name: str, spec: Any, scope: StageScope) -> Accumulator:
    specs = quantile_specs(name, spec, "p", not_object=7429703)
    # The fractions are the same for all groups, so they are evaluated without a document.
    fractions = checked_fractions(name, scope.parse(specs["p"])(scope.environment({})))
    return Accumulator(scope.parse(specs["input"]), lambda _env: Quantiles(fractions))


ACCUMULATORS: Final[dict[str, AccumulatorParser]] = {
    "$median": _parse_median,
    "$percentile": _parse_percentile,
}
