"""Accumulators as expressions: over the elements of one array, or over several arguments.

A single argument that is an array provides the values; otherwise the arguments are the values, and an array
among them is not a number. Accumulators skip values that they cannot use.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from bson import Decimal128, Int64

from tailrace.bson.compare import StringKey
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.pacing import ticking
from tailrace.query.expressions.arguments import named_specs, parse_list
from tailrace.query.expressions.arrays.ordered import in_order
from tailrace.query.expressions.numbers.number_types import (
    DECIMAL,
    Kind,
    decimal128,
    fits_int64,
    int32_or_int64,
    kind_of,
    to_decimal,
    to_double,
)
from tailrace.query.expressions.operands import Number, compare, is_nullish, is_number, type_name
from tailrace.query.expressions.scope import (
    Constant,
    Environment,
    Expression,
    ExpressionScope,
    OperatorParser,
)

_QUANTILE_ARGUMENTS: Final = ("input", "method")


def _accumulator(accumulate: Callable[[list[Any], StringKey], Any]) -> OperatorParser:
    def parse(_: str, spec: Any, scope: ExpressionScope) -> Expression:
        expressions = parse_list(spec, scope)
        string_key = scope.string_key

        def apply(env: Environment) -> Any:
            values = [expression(env) for expression in expressions]
            if len(values) == 1 and isinstance(values[0], list):
                values = values[0]
            return accumulate(values, string_key)

        return apply

    return parse


def _numbers(values: list[Any]) -> list[Number]:
    return [value for value in ticking(values) if is_number(value)]


def _sum(values: list[Any], _: StringKey = None) -> Any:
    numbers = _numbers(values)
    kind = max((kind_of(number) for number in ticking(numbers)), default=Kind.INT32)
    if kind is Kind.DECIMAL:
        return decimal128(_decimal_total(numbers))
    if kind is Kind.DOUBLE:
        return _double_total(numbers)
    total = sum(int(number) for number in ticking(numbers) if isinstance(number, int))
    if not fits_int64(total):
        return float(total)
    return int32_or_int64(total) if kind is Kind.INT32 else Int64(total)


def _double_total(numbers: Sequence[Number]) -> float:
    """The sum, rounded once; MongoDB adds with two doubles, which has the same result."""
    parts: list[float] = []
    for number in ticking(numbers):
        high = to_double(number)
        parts.append(high)
        if isinstance(number, int):
            parts.append(float(number - int(high)))
    try:
        return math.fsum(parts)
    except (OverflowError, ValueError):
        # Infinities, or a sum out of range: the result of plain addition.
        return sum(parts)


def _decimal_total(numbers: Sequence[Number]) -> Decimal:
    """The sum of the decimals in their order, plus the exact sum of all other numbers."""
    total = Decimal(0)
    others: list[Number] = []
    for number in ticking(numbers):
        if isinstance(number, Decimal128):
            total = DECIMAL.add(total, to_decimal(number))
        else:
            others.append(number)
    if all(isinstance(number, int) for number in others):
        rest = Decimal(sum(int(number) for number in others if isinstance(number, int)))
    else:
        double = _double_total(others)
        rest = to_decimal(double) if math.isnan(double) else DECIMAL.create_decimal(Decimal(double))
    return DECIMAL.add(total, rest)


def _average(values: list[Any], _: StringKey) -> Any:
    numbers = _numbers(values)
    if not numbers:
        return None
    if any(isinstance(number, Decimal128) for number in ticking(numbers)):
        return decimal128(DECIMAL.divide(_decimal_total(numbers), Decimal(len(numbers))))
    return _double_total(numbers) / len(numbers)


def _extreme(sign: int) -> Callable[[list[Any], StringKey], Any]:
    def apply(values: list[Any], string_key: StringKey) -> Any:
        best = None
        for value in ticking(values):
            if not is_nullish(value) and (best is None or compare(value, best, string_key) * sign > 0):
                best = value
        return best

    return apply


class StandardDeviation:
    """Computed by Welford's method, as MongoDB does: the last digits depend on the method.

    ``fewer`` is the difference between the number of values and the divisor.
    """

    __slots__ = ("_count", "_fewer", "_mean", "_squares")

    def __init__(self, fewer: int) -> None:
        self._fewer = fewer
        self._mean = self._squares = 0.0
        self._count = 0

    def add(self, value: Any) -> int:
        """Add a value; ignored unless it is a number. Returns how many bytes more it holds."""
        if not is_number(value):
            return 0
        number = to_double(value)
        self._count += 1
        delta = number - self._mean
        self._mean += delta / self._count
        self._squares += delta * (number - self._mean)
        return 0

    def partial(self) -> list[Any]:
        """The state as a BSON value."""
        return [Int64(self._count), self._mean, self._squares]

    def merge(self, partial: list[Any]) -> int:
        """Add what another state has as its `partial`."""
        count, mean, squares = partial
        if not count:
            return 0
        total = self._count + count
        delta = mean - self._mean
        self._squares += squares + delta * delta * self._count * count / total
        self._mean += delta * count / total
        self._count = total
        return 0

    def result(self) -> float | None:
        """The deviation; null with too few numbers."""
        divisor = self._count - self._fewer
        return math.sqrt(self._squares / divisor) if divisor > 0 else None


def _standard_deviation(fewer: int) -> Callable[[list[Any], StringKey], Any]:
    def apply(values: list[Any], _: StringKey) -> float | None:
        deviation = StandardDeviation(fewer)
        for value in ticking(values):
            deviation.add(value)
        return deviation.result()

    return apply


def _parse_median(name: str, spec: Any, scope: ExpressionScope) -> Expression:
    samples = _parse_samples(name, spec, scope, not_object=7436201)

    def apply(env: Environment) -> float | None:
        return quantile(samples(env), 0.5)

    return apply


def _parse_percentile(name: str, spec: Any, scope: ExpressionScope) -> Expression:
    samples = _parse_samples(name, spec, scope, "p", not_object=7436200)
    fractions = scope.parse(spec["p"])
    if isinstance(fractions, Constant):
        checked_fractions(name, fractions.value)

    def apply(env: Environment) -> list[float | None]:
        wanted = checked_fractions(name, fractions(env))
        found = samples(env)
        return [quantile(found, fraction) for fraction in wanted]

    return apply


def _parse_samples(
    name: str, spec: Any, scope: ExpressionScope, *more: str, not_object: int
) -> Callable[[Environment], list[float]]:
    source = scope.parse(quantile_specs(name, spec, *more, not_object=not_object)["input"])

    def samples(env: Environment) -> list[float]:
        value = source(env)
        numbers = (to_double(number) for number in _numbers(value if isinstance(value, list) else [value]))
        return in_order((number, number) for number in numbers if not math.isnan(number))

    return samples


def quantile_specs(name: str, spec: Any, *more: str, not_object: int) -> Mapping[str, Any]:
    """The arguments of an operator on quantiles: ``input``, ``method`` and those in ``more``."""
    specs = named_specs(
        name,
        spec,
        required=dict.fromkeys((*_QUANTILE_ARGUMENTS, *more), int(ErrorCode.IDLFailedToParse)),
        not_object=not_object,
        unknown=int(ErrorCode.IDLUnknownField),
    )
    if specs["method"] != "approximate":
        raise CommandError(
            ErrorCode.BadValue, f"Currently only 'approximate' can be used as 'method' of {name}"
        )
    return specs


def checked_fractions(name: str, value: Any) -> list[float]:
    """The ``p`` of a `$percentile`."""
    if not isinstance(value, list) or not value:
        raise CommandError(7750301, f"The 'p' field of {name} must be an array of at least one number")
    for item in value:
        if not is_number(item):
            raise CommandError(
                7750302, f"The 'p' field of {name} must be of numbers, found {type_name(item)}"
            )
        if not 0 <= to_double(item) <= 1:
            raise CommandError(
                7750303, f"The 'p' field of {name} must be of numbers from 0 to 1, found {item}"
            )
    return [to_double(item) for item in value]


def quantile(ordered: list[float], fraction: float) -> float | None:
    """The smallest sample that at least this fraction of all samples does not exceed."""
    if not ordered:
        return None
    return ordered[max(math.ceil(fraction * len(ordered)) - 1, 0)]


OPERATORS: Final[dict[str, OperatorParser]] = {
    "$avg": _accumulator(_average),
    "$max": _accumulator(_extreme(1)),
    "$median": _parse_median,
    "$min": _accumulator(_extreme(-1)),
    "$percentile": _parse_percentile,
    "$stdDevPop": _accumulator(_standard_deviation(0)),
    "$stdDevSamp": _accumulator(_standard_deviation(1)),
    "$sum": _accumulator(_sum),
}
