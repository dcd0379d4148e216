"""`$dateAdd`, `$dateSubtract`, `$dateDiff` and `$dateTrunc`.

Days and larger units are the calendar's in the given time zone: a day may have 23 hours. Smaller units are
plain durations.
"""

from collections.abc import Mapping
from typing import Any, Final

from bson import DatetimeMS, Int64

from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.query.expressions.arguments import named_specs
from tailrace.query.expressions.dates import civil
from tailrace.query.expressions.dates.date_arguments import (
    Unit,
    checked_date,
    checked_unit,
    date_millis,
    is_date,
    parse_zone,
    zone_or_none,
)
from tailrace.query.expressions.dates.timezones import TimeZone, checked_zone
from tailrace.query.expressions.numbers.number_types import fits_int64, integral_value
from tailrace.query.expressions.operands import is_nullish, type_name
from tailrace.query.expressions.scope import Environment, Expression, ExpressionScope, OperatorParser

_MAX_BIN_SIZE: Final = 100_000_000_000
DURATIONS: Final = {
    Unit.HOUR: civil.HOUR,
    Unit.MINUTE: civil.MINUTE,
    Unit.SECOND: civil.SECOND,
    Unit.MILLISECOND: 1,
}
"""Units of constant length, in milliseconds."""
_MONTHS: Final = {Unit.YEAR: 12, Unit.QUARTER: 3, Unit.MONTH: 1}
_DAYS: Final = {Unit.WEEK: 7, Unit.DAY: 1}
# No two dates are farther apart than this number of units.
_MOST_UNITS: Final = {
    **{unit: 2**64 // duration for unit, duration in DURATIONS.items()},
    **{unit: 2**64 // (civil.DAY * days) for unit, days in _DAYS.items()},
    **{unit: 2**64 // (civil.DAY * 30 * months) for unit, months in _MONTHS.items()},
}
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_REFERENCE_YEAR: Final = 2000
_REFERENCE_DAYS: Final = civil.days_since_epoch(_REFERENCE_YEAR, 1, 1)


def _shift(sign: int) -> OperatorParser:
    def parse(name: str, spec: Any, scope: ExpressionScope) -> Expression:
        specs = named_specs(
            name,
            spec,
            required={"startDate": 5166402, "unit": 5166402, "amount": 5166402},
            optional=("timezone",),
            not_object=5166400,
            unknown=5166401,
        )
        start, unit, amount = (scope.parse(specs[key]) for key in ("startDate", "unit", "amount"))
        zone_argument = parse_zone(specs, scope)

        def apply(env: Environment) -> DatetimeMS | None:
            values = start(env), unit(env), amount(env)
            if any(is_nullish(value) for value in values):
                return None
            date, unit_name, count = values
            if not is_date(date):
                raise CommandError(5166403, f"{name} requires startDate to be convertible to a date")
            checked = checked_unit(name, unit_name, not_string=5166404, unknown=ErrorCode.FailedToParse)
            number = integral_value(count)
            if number is None or not fits_int64(number):
                raise CommandError(5166405, f"{name} expects integer amount of time units")
            zone = zone_or_none(zone_argument(env))
            if zone is None:
                return None
            if abs(number) > _MOST_UNITS[checked]:
                raise CommandError(5976500, f"invalid 'amount' parameter of {name}: {number} {checked.value}")
            return checked_date(name, shifted(date_millis(date), checked, sign * number, zone), 5166406)

        return apply

    return parse


def shifted(millis: int, unit: Unit, amount: int, zone: TimeZone) -> int:
    """A time moved by an amount of units; a day that the month does not have becomes its last day."""
    if unit in DURATIONS:
        return millis + amount * DURATIONS[unit]
    local = millis + zone.offset(millis)
    days, time_of_day = divmod(local, civil.DAY)
    if unit in _DAYS:
        days += amount * _DAYS[unit]
    else:
        year, month, day = civil.civil_date(days)
        years, month_index = divmod(month - 1 + amount * _MONTHS[unit], 12)
        last = civil.month_length(year + years, month_index + 1)
        days = civil.days_since_epoch(year + years, month_index + 1, min(day, last))
    return zone.to_utc(days * civil.DAY + time_of_day)


def _parse_date_diff(name: str, spec: Any, scope: ExpressionScope) -> Expression:
    specs = named_specs(
        name,
        spec,
        required={"startDate": 5166303, "endDate": 5166304, "unit": 5166305},
        optional=("timezone", "startOfWeek"),
        not_object=5166301,
        unknown=5166302,
    )
    dates = [scope.parse(specs[key]) for key in ("startDate", "endDate")]
    calendar = _CalendarArguments(name, specs, scope)

    def apply(env: Environment) -> int | None:
        values = [date(env) for date in dates]
        arguments = calendar.evaluate(env, missing=any(is_nullish(value) for value in values))
        if arguments is None:
            return None
        for value in values:
            if not is_date(value):
                raise CommandError(5166307, f"{name} requires dates, but got {type_name(value)}")
        unit, zone, first_weekday = arguments
        start, end = (_unit_number(date_millis(value), unit, zone, first_weekday) for value in values)
        return Int64(end - start)

    return apply


class _CalendarArguments:
    """``unit``, ``timezone`` and ``startOfWeek`` of `$dateDiff` and `$dateTrunc`."""

    def __init__(self, name: str, specs: Mapping[str, Any], scope: ExpressionScope) -> None:
        self._name = name
        self._unit = scope.parse(specs["unit"])
        self._zone = parse_zone(specs, scope)
        self._start_of_week = scope.parse(specs.get("startOfWeek", "sunday"))

    def evaluate(self, env: Environment, *, missing: bool) -> tuple[Unit, TimeZone, int] | None:
        """Unit, zone and first weekday; None if any is null, even if another is invalid."""
        unit_name, zone_name, week_name = self._unit(env), self._zone(env), self._start_of_week(env)
        is_week = unit_name == Unit.WEEK.value
        if missing or is_nullish(unit_name) or is_nullish(zone_name) or (is_week and is_nullish(week_name)):
            return None
        unit = checked_unit(self._name, unit_name, not_string=5439013, unknown=5439014)
        return unit, checked_zone(zone_name), self._weekday(week_name) if is_week else 0

    def _weekday(self, value: Any) -> int:
        if not is_string(value):
            raise CommandError(5439015, f"{self._name} requires 'startOfWeek' to be a string")
        for number, weekday in enumerate(_WEEKDAYS):
            if value.lower() in (weekday, weekday[:3]):
                return number
        raise CommandError(5439016, f"{self._name} found an unknown day of a week: {value}")


def _unit_number(millis: int, unit: Unit, zone: TimeZone, first_weekday: int) -> int:
    """The number of the unit (year, week, hour...) that contains a time; differences count boundaries."""
    offset = zone.offset(millis)
    if unit in DURATIONS:
        # With the whole units of the offset, an hour that a clock change adds would be counted twice.
        duration = DURATIONS[unit]
        return (millis + offset % duration) // duration
    days = (millis + offset) // civil.DAY
    if unit is Unit.DAY:
        return days
    if unit is Unit.WEEK:
        return (days - _first_week(first_weekday)) // 7
    year, month, _ = civil.civil_date(days)
    return (year * 12 + month - 1) // _MONTHS[unit]


def _first_week(first_weekday: int) -> int:
    """The first day of the reference year's first whole week."""
    return _REFERENCE_DAYS + (first_weekday + 1 - civil.iso_weekday(_REFERENCE_DAYS)) % 7


def _parse_date_trunc(name: str, spec: Any, scope: ExpressionScope) -> Expression:
    specs = named_specs(
        name,
        spec,
        required={"date": 5439009, "unit": 5439010},
        optional=("binSize", "timezone", "startOfWeek"),
        not_object=5439007,
        unknown=5439008,
    )
    source, bin_size = scope.parse(specs["date"]), scope.parse(specs.get("binSize", 1))
    calendar = _CalendarArguments(name, specs, scope)

    def apply(env: Environment) -> DatetimeMS | None:
        value, size = source(env), bin_size(env)
        arguments = calendar.evaluate(env, missing=is_nullish(value) or is_nullish(size))
        if arguments is None:
            return None
        if not is_date(value):
            raise CommandError(5439012, f"{name} requires 'date' to be a date, but got {type_name(value)}")
        start = _truncated(date_millis(value), _checked_bin_size(name, size), *arguments)
        return checked_date(name, start, 5439000)

    return apply


def _checked_bin_size(name: str, size: Any) -> int:
    number = integral_value(size)
    if number is None or not fits_int64(number):
        raise CommandError(5439017, f"{name} requires 'binSize' to be a 64-bit integer, but got {size}")
    if number <= 0:
        raise CommandError(5439018, f"{name} requires 'binSize' to be greater than 0, but got {number}")
    return number


def _truncated(millis: int, size: int, unit: Unit, zone: TimeZone, first_weekday: int) -> int:
    """The start of a bin of ``size`` units; bins are counted from the start of the year 2000, local time."""
    if unit in DURATIONS:
        if not fits_int64(size * DURATIONS[unit]):
            raise CommandError(5439002, "dateTrunc overflowed")
        reference = zone.to_utc(_REFERENCE_DAYS * civil.DAY)
        return millis - (millis - reference) % (size * DURATIONS[unit])
    if size > _MAX_BIN_SIZE:
        raise CommandError(5439006, "dateTrunc unsupported binSize value")
    number = _unit_number(millis, unit, zone, first_weekday)
    if unit is Unit.WEEK:
        start = _first_week(first_weekday) + (number - number % size) * 7
    elif unit is Unit.DAY:
        start = number - (number - _REFERENCE_DAYS) % size
    else:
        months = _MONTHS[unit]
        reference_number = _REFERENCE_YEAR * 12 // months
        first = number - (number - reference_number) % size
        start = civil.days_since_epoch(0, first * months + 1, 1)
    return zone.to_utc(start * civil.DAY)


OPERATORS: Final[dict[str, OperatorParser]] = {
    "$dateAdd": _shift(1),
    "$dateDiff": _parse_date_diff,
    "$dateSubtract": _shift(-1),
    "$dateTrunc": _parse_date_trunc,
}
