"""Operators for the parts of a date or Timestamp, and for a date from its parts."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from bson import DatetimeMS, Int64, Timestamp

from tailrace.bson.values import is_string
from tailrace.errors import CommandError
from tailrace.query.expressions.arguments import named_specs, unary
from tailrace.query.expressions.dates import civil
from tailrace.query.expressions.dates.civil import LocalTime
from tailrace.query.expressions.dates.date_arguments import (
    checked_date,
    date_millis,
    parse_zone,
    zone_or_none,
)
from tailrace.query.expressions.numbers.number_types import fits_int64, integral_value
from tailrace.query.expressions.operands import is_nullish, type_name
from tailrace.query.expressions.scope import Environment, Expression, ExpressionScope, OperatorParser

_DURATION_OVERFLOW: Final = 159
_CLOCK: Final = ("hour", "minute", "second", "millisecond")
_CALENDAR: Final = ("year", "month", "day")
_ISO_CALENDAR: Final = ("isoWeekYear", "isoWeek", "isoDayOfWeek")
_SHORT_MIN, _SHORT_MAX = -(2**15), 2**15 - 1
_MAX_MILLIS: Final = (2**63 - 1) // 1000  # MongoDB counts microseconds here
_MAX_YEAR: Final = 9999


def _part(read: Callable[[LocalTime], int]) -> OperatorParser:
    def parse(name: str, spec: Any, scope: ExpressionScope) -> Expression:
        source, zone_argument = _parse_date_argument(name, spec, scope)

        def apply(env: Environment) -> int | None:
            value = source(env)
            if is_nullish(value):
                return None
            millis = date_millis(value)
            zone_name = zone_argument(env)
            if not is_nullish(zone_name) and not is_string(zone_name):
                kind = type_name(zone_name)
                raise CommandError(
                    40533, f"{name} requires a string for the timezone argument, found: {kind}"
                )
            zone = zone_or_none(zone_name)
            return None if zone is None else read(civil.local_time(millis + zone.offset(millis)))

        return apply

    return parse


def _parse_date_argument(name: str, spec: Any, scope: ExpressionScope) -> tuple[Expression, Expression]:
    """``<date>``, ``[<date>]`` or ``{date: <date>, timezone: <zone>}``."""
    if isinstance(spec, Mapping) and not next(iter(spec), "").startswith("$"):
        specs = named_specs(
            name, spec, required={"date": 40539}, optional=("timezone",), not_object=40539, unknown=40535
        )
        return scope.parse(specs["date"]), parse_zone(specs, scope)
    if isinstance(spec, list):
        if len(spec) != 1:
            raise CommandError(
                40536, f"{name} accepts exactly one argument if given an array, but was given {len(spec)}"
            )
        spec = spec[0]
    return scope.parse(spec), parse_zone({}, scope)


def _parse_date_to_parts(name: str, spec: Any, scope: ExpressionScope) -> Expression:
    specs = named_specs(
        name,
        spec,
        required={"date": 40522},
        optional=("timezone", "iso8601"),
        not_object=40524,
        unknown=40520,
    )
    source, zone_argument = scope.parse(specs["date"]), parse_zone(specs, scope)
    iso8601 = scope.parse(specs.get("iso8601", False))

    def apply(env: Environment) -> dict[str, int] | None:
        value = source(env)
        if is_nullish(value):
            return None
        zone, iso = zone_or_none(zone_argument(env)), iso8601(env)
        if zone is None or is_nullish(iso):
            return None
        if not isinstance(iso, bool):
            raise CommandError(40521, f"{name}: iso8601 must evaluate to a bool, found {type_name(iso)}")
        millis = date_millis(value)
        local = civil.local_time(millis + zone.offset(millis))
        year, week = civil.iso_week(local.days)
        calendar = (
            {"isoWeekYear": year, "isoWeek": week, "isoDayOfWeek": civil.iso_weekday(local.days)}
            if iso
            else {name: getattr(local, name) for name in _CALENDAR}
        )
        return calendar | {name: getattr(local, name) for name in _CLOCK}

    return apply


def _parse_date_from_parts(name: str, spec: Any, scope: ExpressionScope) -> Expression:
    specs = named_specs(
        name,
        spec,
        required={},
        optional=(*_CALENDAR, *_ISO_CALENDAR, *_CLOCK, "timezone"),
        not_object=40519,
        unknown=40518,
    )
    if "year" not in specs and "isoWeekYear" not in specs:
        raise CommandError(40516, f"{name} requires either 'year' or 'isoWeekYear' to be present")
    if "year" in specs and any(key in specs for key in _ISO_CALENDAR):
        raise CommandError(40489, f"{name} does not allow mixing natural dates with ISO dates")
    if "isoWeekYear" in specs and ("month" in specs or "day" in specs):
        raise CommandError(40525, f"{name} does not allow mixing ISO dates with natural dates")
    calendar = _CALENDAR if "year" in specs else _ISO_CALENDAR
    defaults = dict.fromkeys(calendar, 1) | dict.fromkeys(_CLOCK, 0)
    parts = {key: scope.parse(specs.get(key, default)) for key, default in defaults.items()}
    zone_argument = parse_zone(specs, scope)

    def apply(env: Environment) -> DatetimeMS | None:
        values = {key: part(env) for key, part in parts.items()}
        if any(is_nullish(value) for value in values.values()):
            return None
        zone = zone_or_none(zone_argument(env))
        if zone is None:
            return None
        first, second, third, *clock = (_checked_part(name, key, value) for key, value in values.items())
        to_days = civil.days_since_epoch if calendar is _CALENDAR else civil.days_of_iso_week
        hour, minute, second_of_minute, millis = clock
        local = to_days(first, second, third) * civil.DAY + hour * civil.HOUR + minute * civil.MINUTE
        moment = zone.to_utc(local + second_of_minute * civil.SECOND + millis)
        return checked_date(name, moment, _DURATION_OVERFLOW)

    return apply


def _checked_part(name: str, key: str, value: Any) -> int:
    number = integral_value(value)
    if number is None or not fits_int64(number):
        raise CommandError(
            40515, f"'{key}' must evaluate to an integer, found {type_name(value)} with {value}"
        )
    if key in ("year", "isoWeekYear"):
        if not 1 <= number <= _MAX_YEAR:
            code = 40523 if key == "year" else 31095
            raise CommandError(code, f"'{key}' must evaluate to an integer in the range 1 to {_MAX_YEAR}")
    elif key in ("second", "millisecond"):
        if abs(number) > _MAX_MILLIS:
            raise CommandError(_DURATION_OVERFLOW, f"{name}: '{key}' is out of range")
    elif not _SHORT_MIN <= number <= _SHORT_MAX:
        raise CommandError(
            31034, f"'{key}' must evaluate to a value in the range [{_SHORT_MIN}, {_SHORT_MAX}]"
        )
    return number


def _timestamp_part(name: str, code: int, read: Callable[[Timestamp], int]) -> OperatorParser:
    def apply(value: Any) -> int | None:
        if is_nullish(value):
            return None
        if not isinstance(value, Timestamp):
            raise CommandError(code, f"Argument to {name} must be a timestamp, but is {type_name(value)}")
        return Int64(read(value))

    return unary(apply)


OPERATORS: Final[dict[str, OperatorParser]] = {
    "$dateFromParts": _parse_date_from_parts,
    "$dateToParts": _parse_date_to_parts,
    "$dayOfMonth": _part(lambda local: local.day),
    "$dayOfWeek": _part(lambda local: civil.iso_weekday(local.days) % 7 + 1),
    "$dayOfYear": _part(lambda local: civil.day_of_year(local.days)),
    "$hour": _part(lambda local: local.hour),
    "$isoDayOfWeek": _part(lambda local: civil.iso_weekday(local.days)),
    "$isoWeek": _part(lambda local: civil.iso_week(local.days)[1]),
    "$isoWeekYear": _part(lambda local: Int64(civil.iso_week(local.days)[0])),
    "$millisecond": _part(lambda local: local.millisecond),
    "$minute": _part(lambda local: local.minute),
    "$month": _part(lambda local: local.month),
    "$second": _part(lambda local: local.second),
    "$tsIncrement": _timestamp_part("$tsIncrement", 5687302, lambda value: value.inc),
    "$tsSecond": _timestamp_part("$tsSecond", 5687301, lambda value: value.time),
    "$week": _part(lambda local: civil.week_of_year(local.days)),
    "$year": _part(lambda local: local.year),
}
