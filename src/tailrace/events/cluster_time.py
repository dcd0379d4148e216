"""Cluster times as 64-bit integers: seconds in the high half, increment in the low half.

That is how BSON stores a Timestamp, and integers compare, hash and subtract without an object around them.
"""

from bson import Timestamp


def from_timestamp(timestamp: Timestamp) -> int:
    """The cluster time of a BSON value.

    >>> from_timestamp(Timestamp(7, 1)) == 7 << 32 | 1
    True
    """
    return timestamp.time << 32 | timestamp.inc


def to_timestamp(cluster_time: int) -> Timestamp:
    """The BSON value of a cluster time."""
    return Timestamp(cluster_time >> 32, cluster_time & 0xFFFFFFFF)


def in_words(cluster_time: int) -> str:
    """A cluster time for messages.

    >>> in_words(7 << 32 | 1)
    'cluster time (7, 1)'
    """
    return f"cluster time ({cluster_time >> 32}, {cluster_time & 0xFFFFFFFF})"
