"""The two positions of a history, as application transactions of its Delta log.

A position is a cluster time. The version of an application transaction is a signed 64-bit number, and a
cluster time is an unsigned one that passes 2^63 in January 2038. So a position is two transactions, one with
the seconds and one with the increment, which a commit stores in one atomic step.
"""

from collections.abc import Mapping
from typing import Final

THROUGH: Final = "tailrace.through"
"""The cluster time up to which the history is complete"""
BEGINS: Final = "tailrace.begins"
"""The cluster time after which it begins"""

_SECONDS: Final = ".seconds"
_INCREMENT: Final = ".increment"


def position_transactions(name: str, cluster_time: int) -> list[tuple[str, int]]:
    """Names and versions of the transactions that store a position.

    >>> position_transactions(THROUGH, 7 << 32 | 1)
    [('tailrace.through.seconds', 7), ('tailrace.through.increment', 1)]
    """
    return [(name + _SECONDS, cluster_time >> 32), (name + _INCREMENT, cluster_time & 0xFFFFFFFF)]


def position_names(name: str) -> tuple[str, str]:
    """The names of the transactions of a position."""
    return name + _SECONDS, name + _INCREMENT


def read_position(name: str, versions: Mapping[str, int | None]) -> int | None:
    """The position that the versions of transactions store; None if they store none."""
    seconds, increment = (versions.get(transaction) for transaction in position_names(name))
    return None if seconds is None or increment is None else seconds << 32 | increment
