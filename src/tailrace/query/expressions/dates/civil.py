"""The proleptic Gregorian calendar over the whole range of a 64-bit date.

Python's `datetime` covers the years 1 to 9999, a BSON date more. The calendar repeats every 400 years, so a
date is moved by whole cycles into that range, computed there and moved back. All times are in milliseconds
since 1970; *local* milliseconds include a time zone's offset.
"""

from datetime import date
from typing import Final, NamedTuple

SECOND: Final = 1000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
CYCLE_YEARS: Final = 400
CYCLE_DAYS: Final = 146_097
_EPOCH: Final = date(1970, 1, 1).toordinal()
_MONDAY_OF_EPOCH: Final = 3  # 1970-01-01 was a Thursday


class LocalTime(NamedTuple):
    """Local date and time of day."""

    days: int
    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    millisecond: int


def days_since_epoch(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01; month and day may be outside of their ranges and then carry over.

    >>> days_since_epoch(1970, 2, 1), days_since_epoch(1970, 14, 0), days_since_epoch(-5000, 1, 1)
    (31, 395, -2545740)
    """
    years, month_index = divmod(month - 1, 12)
    cycles, in_cycle = divmod(year + years - 1, CYCLE_YEARS)
    first = date(in_cycle + 1, month_index + 1, 1).toordinal()
    return first - _EPOCH + cycles * CYCLE_DAYS + day - 1


def civil_date(days: int) -> tuple[int, int, int]:
    """Year, month and day of a number of days since 1970-01-01.

    >>> civil_date(-1), civil_date(-2545740)
    ((1969, 12, 31), (-5000, 1, 1))
    """
    cycles, ordinal = divmod(days + _EPOCH - 1, CYCLE_DAYS)
    inside = date.fromordinal(ordinal + 1)
    return inside.year + cycles * CYCLE_YEARS, inside.month, inside.day


def local_time(local_millis: int) -> LocalTime:
    days, rest = divmod(local_millis, DAY)
    hour, rest = divmod(rest, HOUR)
    minute, rest = divmod(rest, MINUTE)
    return LocalTime(days, *civil_date(days), hour, minute, *divmod(rest, SECOND))


def iso_weekday(days: int) -> int:
    """1 for Monday to 7 for Sunday."""
    return (days + _MONDAY_OF_EPOCH) % 7 + 1


def iso_week(days: int) -> tuple[int, int]:
    """The ISO 8601 year and week: a week belongs to the year that contains its Thursday.

    >>> iso_week(days_since_epoch(2018, 12, 31)), iso_week(days_since_epoch(2016, 1, 1))
    ((2019, 1), (2015, 53))
    """
    thursday = days - iso_weekday(days) + 4
    year = civil_date(thursday)[0]
    return year, (thursday - days_since_epoch(year, 1, 1)) // 7 + 1


def days_of_iso_week(year: int, week: int, weekday: int) -> int:
    """Days from 1970-01-01 to the day of an ISO 8601 year, week and weekday."""
    january_4 = days_since_epoch(year, 1, 4)
    return january_4 - iso_weekday(january_4) + (week - 1) * 7 + weekday


def day_of_year(days: int) -> int:
    """1 to 366."""
    return days - days_since_epoch(civil_date(days)[0], 1, 1) + 1


def week_of_year(days: int) -> int:
    """0 to 53; weeks begin on Sundays, and week 1 begins on the year's first Sunday."""
    return (day_of_year(days) + 6 - iso_weekday(days) % 7) // 7


def month_length(year: int, month: int) -> int:
    """Days in a month."""
    return days_since_epoch(year, month + 1, 1) - days_since_epoch(year, month, 1)
