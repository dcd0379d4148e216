"""``$derivative`` and ``$integral`` of an input over the sort field, a number or a date."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

from bson import DatetimeMS

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.accumulators.numeric import Total
from tailrace.mongod.language.aggregation.windows.bounds import parse_bounds
from tailrace.mongod.language.aggregation.windows.function import (
    FunctionParser,
    WindowCall,
    WindowFunction,
    failed,
)
from tailrace.mongod.language.aggregation.windows.partition import Partition
from tailrace.query.expressions.dates import civil
from tailrace.query.expressions.dates.date_arguments import Unit, checked_unit
from tailrace.query.expressions.dates.date_arithmetic import DURATIONS
from tailrace.query.expressions.numbers.arithmetic import add, divide, multiply, subtract
from tailrace.query.expressions.numbers.number_types import real
from tailrace.query.expressions.operands import is_number, type_name

_UNIT_MILLIS: Final = {**DURATIONS, Unit.DAY: civil.DAY, Unit.WEEK: 7 * civil.DAY}


def _unit_millis(call: WindowCall, options: Mapping[str, Any]) -> int | None:
    if "unit" not in options:
        return None
    unit = checked_unit(
        call.name, options["unit"], not_string=ErrorCode.FailedToParse, unknown=ErrorCode.FailedToParse
    )
    if unit not in _UNIT_MILLIS:
        raise CommandError(5490710, f"unit must be 'week' or smaller for {call.name}, found {unit.value}")
    return _UNIT_MILLIS[unit]


def _parse_derivative(call: WindowCall) -> WindowFunction:
    """The rate of change from the first to the last document of the window; null for fewer than two."""
    options = call.options(required=("input",), optional=("unit",))
    call.require_single_path()
    if call.window is None:
        raise failed(f"{call.name} requires explicit window bounds")
    bounds = parse_bounds(call)
    unit = _unit_millis(call, options)
    source = call.scope.parse(options["input"])

    def values(partition: Partition) -> list[Any]:
        places, inputs = partition.sort_values, partition.evaluate(source)
        results: list[Any] = []
        for first, end in bounds.spans(partition):
            if first == end:
                results.append(None)
                continue
            _check_place(call.name, places[first], unit)
            _check_place(call.name, places[end - 1], unit)
            run = subtract(places[end - 1], places[first])
            rise = subtract(inputs[end - 1], inputs[first])
            if rise is None or real(run) == 0:
                results.append(None)
                continue
            slope = divide(rise, run)
            results.append(slope if unit is None else multiply([slope, unit]))
        return results

    return values


def _check_place(name: str, place: Any, unit: int | None) -> None:
    if unit is not None:
        if not isinstance(place, DatetimeMS):
            raise CommandError(5624900, f"{name} with 'unit' expects the sortBy field to be a Date")
    elif isinstance(place, DatetimeMS):
        raise CommandError(5624901, f"{name} where the sortBy is a Date requires a 'unit'")
    elif not is_number(place):
        raise CommandError(5624902, f"{name} without 'unit' expects the sortBy field to be numeric")


def _parse_integral(call: WindowCall) -> WindowFunction:
    """The area below the window's points, by the trapezoidal rule; null without points."""
    options = call.options(required=("input",), optional=("unit",))
    call.require_single_path()
    bounds = parse_bounds(call)
    unit = _unit_millis(call, options)
    source = call.scope.parse(options["input"])

    def values(partition: Partition) -> list[Any]:
        places, inputs = partition.sort_values, partition.evaluate(source)
        spans = list(bounds.spans(partition))
        for place, value in zip(places, inputs, strict=True):
            _check_point(call.name, place, value, unit)
        points = list(zip(places, inputs, strict=True))
        areas = [_trapezoid(*left, *right) for left, right in pairwise(points)]
        results: list[Any] = []
        for first, end in spans:
            area = _sum(areas[first : end - 1]) if first < end else None
            results.append(area if unit is None else divide(area, unit))
        return results

    return values


def _check_point(name: str, place: Any, value: Any, unit: int | None) -> None:
    if not is_number(value) or not (is_number(place) or isinstance(place, DatetimeMS)):
        raise CommandError(
            5423900,
            f"{name} expects numbers over a sortBy field of numbers or dates, found {type_name(value)} over "
            f"{type_name(place)}",
        )
    if unit is not None:
        if not isinstance(place, DatetimeMS):
            raise CommandError(5423901, f"{name} with 'unit' expects the sortBy field to be a Date")
    elif not is_number(place):
        raise CommandError(5423902, f"{name} without 'unit' expects the sortBy field to be numeric")


def _trapezoid(x: Any, y: Any, next_x: Any, next_y: Any) -> Any:
    return divide(multiply([add([y, next_y]), subtract(next_x, x)]), 2)


def _sum(areas: list[Any]) -> Any:
    total = Total()
    for area in areas:
        total.add(area)
    return total.value()


FUNCTIONS: Final[Mapping[str, FunctionParser]] = {
    "$derivative": _parse_derivative,
    "$integral": _parse_integral,
}
