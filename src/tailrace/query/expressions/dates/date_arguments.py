"""What date operators have in common: dates of several types, time zones and units as arguments."""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from bson import DatetimeMS, ObjectId, Timestamp

from tailrace.errors import CommandError
from tailrace.query.expressions.dates.timezones import TimeZone, checked_zone
from tailrace.query.expressions.numbers.number_types import fits_int64
from tailrace.query.expressions.operands import is_nullish, is_string, type_name
from tailrace.query.expressions.scope import Expression, ExpressionScope


class Unit(Enum):
    """Units of time, by the names they have in arguments."""

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
    """Whether a value is a date or carries one: a Timestamp and an ObjectId have a time in them."""
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
    """A computed date, if a BSON date can hold it; `overflow` is the code of the error otherwise."""
    if not fits_int64(millis):
        raise CommandError(overflow, f"{name} overflowed: the date is out of range")
    return DatetimeMS(millis)


def parse_zone(specs: Mapping[str, Any], scope: ExpressionScope) -> Expression:
    """The optional ``timezone`` of an operator, as an expression."""
    return scope.parse(specs.get("timezone", "UTC"))


def zone_or_none(value: Any) -> TimeZone | None:
    """The zone that an evaluated ``timezone`` stands for; none if it is null, and the result is null then."""
    return None if is_nullish(value) else checked_zone(value)


def checked_unit(name: str, value: Any, *, not_string: int, unknown: int) -> Unit:
    """The unit that an argument names."""
    if not is_string(value):
        raise CommandError(not_string, f"{name} requires 'unit' to be a string, but got {type_name(value)}")
    try:
        return Unit(value)
    except ValueError:
        raise CommandError(unknown, f"{name} found an unknown time unit: {value}") from None
