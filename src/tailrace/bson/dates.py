"""BSON dates: milliseconds since 1970, as bytes, numbers and moments."""

from datetime import UTC, datetime, timedelta
from typing import Final

from tailrace.bson.raw import INT64_LE

FIRST_DATE: Final = -62_135_596_800_000
LAST_DATE: Final = 253_402_300_799_999
"""The years 1 and 9999: what every reader of a TIMESTAMP can show"""
MICROSECONDS: Final = 1000
"""in a millisecond"""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def date_value(raw: bytes) -> int:
    """The milliseconds of a date's eight bytes.

    >>> date_value(bytes.fromhex("01 00 00 00 00 00 00 00"))
    1
    """
    value: int = INT64_LE.unpack(raw)[0]
    return value


def moment_of(milliseconds: int) -> datetime:
    """A date between `FIRST_DATE` and `LAST_DATE`."""
    return _EPOCH + milliseconds * _MILLISECOND


def milliseconds_of(moment: datetime) -> int:
    """The milliseconds of a moment with a time zone; what is finer is cut off."""
    return (moment - _EPOCH) // _MILLISECOND


def iso_date(milliseconds: int) -> str:
    """The date in ISO 8601, with milliseconds.

    >>> iso_date(1_700_000_000_123)
    '2023-11-14T22:13:20.123Z'
    """
    return moment_of(milliseconds).isoformat(timespec="milliseconds").replace("+00:00", "Z")
