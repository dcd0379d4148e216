"""``$locf`` and ``$linearFill``: fill missing values from neighbours."""

from collections.abc import Mapping
from typing import Any, Final

from bson import DatetimeMS

from tailrace.bson.compare import sort_key, type_bracket
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.windows.function import FunctionParser, WindowCall, WindowFunction
from tailrace.mongod.language.aggregation.windows.partition import Partition
from tailrace.query.expressions.numbers.arithmetic import add, divide, multiply, subtract
from tailrace.query.expressions.operands import is_nullish, is_number, type_name


def _parse_locf(call: WindowCall) -> WindowFunction:
    """The last value that was not null: last observation carried forward."""
    call.refuse_window()
    source = call.scope.parse(call.argument)

    def values(partition: Partition) -> list[Any]:
        last = None
        results = []
        for value in partition.evaluate(source):
            last = last if is_nullish(value) else value
            results.append(last)
        return results

    return values


def _parse_linear_fill(call: WindowCall) -> WindowFunction:
    """Linear interpolation between the known values before and after; null outside of them."""
    call.refuse_window()
    call.require_single_path(605001)
    source = call.scope.parse(call.argument)

    def values(partition: Partition) -> list[Any]:
        places = partition.sort_values
        _check_places(places)
        found = [None if is_nullish(value) else value for value in partition.evaluate(source)]
        left: int | None = None
        for position, value in enumerate(found):
            if value is None:
                continue
            if not is_number(value):
                raise CommandError(
                    ErrorCode.TypeMismatch,
                    f"Value to be filled must be numeric or nullish, but found {type_name(value)}",
                )
            if left is not None:
                for between in range(left + 1, position):
                    found[between] = _on_line(places, found, left, position, between)
            left = position
        return found

    return values


def _on_line(places: list[Any], found: list[Any], left: int, right: int, at: int) -> Any:
    run = subtract(places[right], places[left])
    rise = subtract(found[right], found[left])
    slope = divide(rise, run)
    return add([found[left], multiply([slope, subtract(places[at], places[left])])])


def _check_places(places: list[Any]) -> None:
    for position, place in enumerate(places):
        if not (is_number(place) or isinstance(place, DatetimeMS)):
            raise CommandError(
                ErrorCode.TypeMismatch,
                f"Value of the sortBy field must be numeric or a date, but found {type_name(place)}",
            )
        if not position:
            continue
        before = places[position - 1]
        if type_bracket(before) != type_bracket(place):
            raise CommandError(
                ErrorCode.TypeMismatch,
                f"Conflicting sort value types, {type_name(before)} and {type_name(place)}",
            )
        if sort_key(before) == sort_key(place):
            raise CommandError(
                6050106, "There can be no repeated values in the sort field in the same partition"
            )


FUNCTIONS: Final[Mapping[str, FunctionParser]] = {
    "$linearFill": _parse_linear_fill,
    "$locf": _parse_locf,
}
