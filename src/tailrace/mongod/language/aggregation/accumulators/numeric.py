"""``$sum $avg $stdDevPop $stdDevSamp $count``: accumulators of numbers; other values are ignored."""

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from bson import Decimal128, Int64

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.accumulators.accumulator import (
    Accumulator,
    AccumulatorParser,
    of_one_expression,
)
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.query.expressions.arrays.accumulators import StandardDeviation
from tailrace.query.expressions.numbers.number_types import (
    DECIMAL,
    Kind,
    decimal128,
    fits_int64,
    int32_or_int64,
    kind_of,
    to_decimal,
)
from tailrace.query.expressions.operands import Number, is_number
from tailrace.query.expressions.scope import Constant


class Total:
    """A running sum without rounding errors: exact integers, compensated doubles, separate decimals."""

    __slots__ = ("_decimal", "_high", "_integer", "_kind", "_low", "_special")

    def __init__(self) -> None:
        self._kind = Kind.INT32
        self._integer = 0
        self._high = self._low = 0.0
        self._special = 0.0
        self._decimal = Decimal(0)

    def add(self, number: Number) -> None:
        kind = kind_of(number)
        if kind > self._kind:
            self._kind = kind
        if isinstance(number, int):
            self._integer += number
        elif isinstance(number, float):
            self._add_double(number)
        else:
            self._decimal = DECIMAL.add(self._decimal, to_decimal(number))

    def _add_double(self, number: float) -> None:
        if not math.isfinite(number):
            self._special += number
            return
        # The rounding error is added to the second part.
        high = self._high + number
        virtual = high - self._high
        self._low += (self._high - (high - virtual)) + (number - virtual)
        self._high = high

    def partial(self) -> list[Any]:
        """All parts; those that BSON numbers cannot have exactly are texts."""
        return [int(self._kind), str(self._integer), self._high, self._low, self._special, str(self._decimal)]

    def merge(self, partial: list[Any]) -> None:
        """Add the `partial` of another sum."""
        kind, integer, high, low, special, decimal = partial
        self._kind = max(self._kind, Kind(kind))
        self._integer += int(integer)
        self._add_double(high)
        self._add_double(low)
        self._special += special
        self._decimal = DECIMAL.add(self._decimal, Decimal(decimal))

    def _double(self) -> float:
        if self._special:  # an infinity or NaN, which is truthy
            return self._special
        if not math.isfinite(self._high):
            return self._high
        try:
            whole = float(self._integer)
        except OverflowError:
            whole = math.copysign(math.inf, self._integer)
        if math.isinf(whole):
            return whole
        try:
            return math.fsum((self._high, self._low, whole, float(self._integer - int(whole))))
        except OverflowError:
            return self._high + whole

    def _in_decimal(self) -> Decimal:
        if math.isnan(self._special):
            return DECIMAL.add(self._decimal, to_decimal(self._special))
        has_doubles = self._special or self._high or self._low
        rest = Decimal(self._double()) if has_doubles else Decimal(self._integer)
        return DECIMAL.add(self._decimal, DECIMAL.create_decimal(rest))

    def value(self) -> Any:
        """The sum, in the widest type of its parts; integers that overflow become a double."""
        if self._kind is Kind.DECIMAL:
            return decimal128(self._in_decimal())
        if self._kind is Kind.DOUBLE:
            return self._double()
        if not fits_int64(self._integer):
            return float(self._integer)
        return int32_or_int64(self._integer) if self._kind is Kind.INT32 else Int64(self._integer)

    def divided_by(self, count: int) -> float | Decimal128:
        """The sum divided by a number; never an integer."""
        if self._kind is Kind.DECIMAL:
            return decimal128(DECIMAL.divide(self._in_decimal(), Decimal(count)))
        return self._double() / count


class Sum:
    """``$sum``."""

    __slots__ = ("_total",)

    def __init__(self) -> None:
        self._total = Total()

    def add(self, value: Any) -> int:
        if is_number(value):
            self._total.add(value)
        return 0

    def result(self) -> Any:
        """The sum; zero without numbers."""
        return self._total.value()

    def partial(self) -> list[Any]:
        return self._total.partial()

    def merge(self, partial: list[Any]) -> int:
        self._total.merge(partial)
        return 0


class Average:
    """``$avg``."""

    __slots__ = ("_count", "_total")

    def __init__(self) -> None:
        self._total = Total()
        self._count = 0

    def add(self, value: Any) -> int:
        if is_number(value):
            self._total.add(value)
            self._count += 1
        return 0

    def result(self) -> float | Decimal128 | None:
        """The average; null without numbers."""
        return self._total.divided_by(self._count) if self._count else None

    def partial(self) -> list[Any]:
        return [Int64(self._count), self._total.partial()]

    def merge(self, partial: list[Any]) -> int:
        count, total = partial
        self._count += count
        self._total.merge(total)
        return 0


def _parse_count(name: str, spec: Any, _scope: StageScope) -> Accumulator:
    """``{$count: {}}`` is a sum of ones."""
    if not isinstance(spec, Mapping) or spec:
        raise CommandError(ErrorCode.TypeMismatch, f"{name} takes no arguments, i.e. {name}:{{}}")
    return Accumulator(Constant(1), lambda _env: Sum())


ACCUMULATORS: Final[dict[str, AccumulatorParser]] = {
    "$avg": of_one_expression(Average),
    "$count": _parse_count,
    "$stdDevPop": of_one_expression(lambda: StandardDeviation(0)),
    "$stdDevSamp": of_one_expression(lambda: StandardDeviation(1)),
    "$sum": of_one_expression(Sum),
}
