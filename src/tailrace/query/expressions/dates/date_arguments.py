"""Arguments of date operators: dates of several types, time zones and units."""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from bson import DatetimeMS, ObjectId, Timestamp

from tailrace.bson.values import is_string
from tailrace.errors import CommandError
from tailrace.query.expressions.dates.timezones import TimeZone, checked_zone
from tailrace.query.expressions.numbers.number_types import fits_int64
from tailrace.query.expressions.operands import is_nullish, type_name
from tailrace.query.expressions.scope import Expression, ExpressionScope


class Unit(Enum):
    """Units of time, with their names in arguments."""

    YEAR = "year"
    QUARTER = "quarter"
    MONTH = "month"
    WEEK = "week"
    DAY = "day"
    HOUR = "hour"
    MINUTE = "minute"
    SECOND = "second"
    MILLISECOND = "millisecond"


def is_date(value: Any) -> bool:
    """Whether a value is a date or contains one, as a Timestamp and an ObjectId do."""
    return isinstance(value, DatetimeMS | Timestamp | ObjectId)


def date_millis(value: Any) -> int:
    """The time of a date, Timestamp or ObjectId in milliseconds."""
    if isinstance(value, DatetimeMS):
        return int(value)
    if isinstance(value, Timestamp):
        return value.time * 1000
    if isinstance(value, ObjectId):
        return int.from_bytes(value.binary[:4], "big", signed=True) * 1000
    raise CommandError(16006, f"can't convert from BSON type {type_name(value)} to Date")


def checked_date(name: str, millis: int, overflow: int) -> DatetimeMS:
    """A computed date; `overflow` is the error code if it is out of the range of a BSON date."""
    if not fits_int64(millis):
        raise CommandError(overflow, f"{name} overflowed: the date is out of range")
    return DatetimeMS(millis)


def parse_zone(specs: Mapping[str, Any], scope: ExpressionScope) -> Expression:
    """The optional ``timezone`` of an operator, as an expression."""
    return scope.parse(specs.get("timezone", "UTC"))


def zone_or_none(value: Any) -> TimeZone | None:
    """The zone of an evaluated ``timezone``; None for null, for which operators return null."""
    return None if is_nullish(value) else checked_zone(value)


def checked_unit(name: str, value: Any, *, not_string: int, unknown: int) -> Unit:
    if not is_string(value):
        raise CommandError(not_string, f"{name} requires 'unit' to be a string, but got {type_name(value)}")
    try:
        return Unit(value)
    except ValueError:
        raise CommandError(unknown, f"{name} found an unknown time unit: {value}") from None
