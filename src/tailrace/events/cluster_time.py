"""Cluster times as 64-bit integers: seconds in the high half, increment in the low half.

That is how BSON stores a Timestamp, and integers compare, hash and subtract without an object around them.
`ClusterTime` exists for the type checker only.
"""

from collections.abc import Sequence
from typing import Final, NewType

from bson import Timestamp

ClusterTime = NewType("ClusterTime", int)

BEGINNING: Final = ClusterTime(0)
"""Before every entry."""
END_OF_TIME: Final = ClusterTime((1 << 64) - 1)
"""After every entry: the promise of a log that has ended, the end of an interval that is open."""

_INCREMENTS: Final = 0xFFFFFFFF


def cluster_time(seconds: int, increment: int = 0) -> ClusterTime:
    """Build a cluster time from its halves.

    >>> cluster_time(7, 1) == 7 << 32 | 1
    True
    """
    return ClusterTime(seconds << 32 | increment)


def seconds_of(time: int) -> int:
    """Return the seconds since 1970."""
    return time >> 32


def increment_of(time: int) -> int:
    return time & _INCREMENTS


def as_signed(time: int) -> int:
    """Return the same 64 bits as a signed number, for columns that have no unsigned type.

    It is negative from January 2038 on; an unsigned shift by 32 still returns the seconds.

    >>> as_signed(cluster_time(7, 1)), as_signed(END_OF_TIME)
    (30064771073, -1)
    """
    return time - (1 << 64) if time >> 63 else time


def from_signed(value: int) -> ClusterTime:
    """Convert `as_signed`'s number back.

    >>> from_signed(-1) == END_OF_TIME
    True
    """
    return ClusterTime(value & END_OF_TIME)


def from_timestamp(timestamp: Timestamp) -> ClusterTime:
    """Convert a BSON value.

    >>> from_timestamp(Timestamp(7, 1)) == cluster_time(7, 1)
    True
    """
    return ClusterTime(timestamp.time << 32 | timestamp.inc)


def to_timestamp(time: int) -> Timestamp:
    """Convert to the BSON value."""
    return Timestamp(time >> 32, time & _INCREMENTS)


def to_pair(time: int) -> list[int]:
    """Return seconds and increment, as JSON documents show a cluster time.

    >>> to_pair(7 << 32 | 1)
    [7, 1]
    """
    return [time >> 32, time & _INCREMENTS]


def from_pair(pair: Sequence[int]) -> ClusterTime:
    """Convert `to_pair`'s list back.

    >>> from_pair([7, 1]) == cluster_time(7, 1)
    True
    """
    seconds, increment = pair
    return ClusterTime(int(seconds) << 32 | int(increment))


def is_pair(value: object) -> bool:
    """Return whether `from_pair` accepts a decoded JSON value."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        return False
    return all(type(part) is int and 0 <= part <= _INCREMENTS for part in value)


def in_words(time: int) -> str:
    """Return a cluster time for messages.

    >>> in_words(7 << 32 | 1)
    'cluster time (7, 1)'
    """
    return f"cluster time ({time >> 32}, {time & _INCREMENTS})"


def before_timestamp(milliseconds: int) -> ClusterTime:
    """Return the last cluster time before the second of a wall-clock time.

    The increments of a second begin with 1.

    >>> before_timestamp(7_999) == cluster_time(7)
    True
    """
    return cluster_time(milliseconds // 1000)


def through_timestamp(milliseconds: int) -> ClusterTime:
    """Return the last cluster time of the second of a wall-clock time.

    >>> through_timestamp(7_999) == cluster_time(8) - 1
    True
    """
    return cluster_time(milliseconds // 1000, _INCREMENTS)
