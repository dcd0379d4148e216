"""Time zones: Olson names such as ``Europe/Paris``, and offsets such as ``+05:30``, ``+0530`` and ``+05``."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tailrace.bson.values import is_string
from tailrace.errors import CommandError
from tailrace.query.expressions.dates.civil import CYCLE_DAYS, DAY, HOUR, MINUTE, days_since_epoch
from tailrace.query.expressions.operands import type_name

_OFFSET: Final = re.compile(r"([+-])(\d{2})(?::?(\d{2}))?")
_EPOCH: Final = datetime(1970, 1, 1)
# Years that `datetime` can shift by an offset; others are moved by whole calendar cycles.
_FIRST, _LAST = days_since_epoch(2, 1, 1) * DAY, days_since_epoch(9999, 1, 1) * DAY
_CYCLE: Final = CYCLE_DAYS * DAY


class TimeZone(Protocol):
    """A time zone; times are in milliseconds."""

    def offset(self, utc_millis: int) -> int:
        """The difference of local time and UTC at a time."""

    def to_utc(self, local_millis: int) -> int:
        """The UTC time of a local time: the first of two; in a gap, as if the clock had not changed."""


@dataclass(frozen=True, slots=True)
class FixedOffset:
    """A zone with a constant offset."""

    millis: int

    def offset(self, _utc_millis: int) -> int:
        return self.millis

    def to_utc(self, local_millis: int) -> int:
        return local_millis - self.millis


@dataclass(frozen=True, slots=True)
class OlsonZone:
    """A zone of the time zone database."""

    info: ZoneInfo

    def offset(self, utc_millis: int) -> int:
        local = self.info.fromutc(_within_datetime(utc_millis).replace(tzinfo=self.info))
        return _millis(local.utcoffset())

    def to_utc(self, local_millis: int) -> int:
        local = _within_datetime(local_millis).replace(tzinfo=self.info)
        return local_millis - _millis(local.utcoffset())


UTC: Final = FixedOffset(0)


def _within_datetime(millis: int) -> datetime:
    if not _FIRST <= millis < _LAST:
        edge = _FIRST if millis < _FIRST else _LAST - _CYCLE
        millis = edge + (millis - edge) % _CYCLE
    return _EPOCH + timedelta(milliseconds=millis)


def _millis(offset: timedelta | None) -> int:
    return 0 if offset is None else offset // timedelta(milliseconds=1)


@lru_cache(maxsize=1024)
def named_zone(name: str) -> TimeZone:
    """The zone of a name or an offset.

    >>> named_zone("-0320").offset(0), named_zone("Asia/Tokyo").offset(0)
    (-12000000, 32400000)
    """
    if name in ("UTC", "GMT"):
        return UTC
    if match := _OFFSET.fullmatch(name):
        sign, hours, minutes = match.groups(default="0")
        millis = int(hours) * HOUR + int(minutes) * MINUTE
        return FixedOffset(-millis if sign == "-" else millis)
    try:
        return OlsonZone(ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CommandError(40485, f'unrecognized time zone identifier: "{name}"') from None


def checked_zone(value: Any) -> TimeZone:
    """The zone of an evaluated argument."""
    if not is_string(value):
        raise CommandError(40517, f"timezone must evaluate to a string, found {type_name(value)}")
    return named_zone(value)
