"""The positions of a history, as application transactions of its Delta log.

A position is a cluster time. The version of an application transaction is a signed 64-bit number, and a
cluster time is an unsigned one that passes 2^63 in January 2038. So a position is two transactions, one with
the seconds and one with the increment, which a commit stores in one atomic step.

In the same way a commit stores the mark of the newest entry of each shard that it was built from.
"""

from collections.abc import Callable, Mapping
from typing import Final

from tailrace.events.entry_mark import EntryMark

THROUGH: Final = "tailrace.through"
"""The cluster time up to which the history is complete"""
BEGINS: Final = "tailrace.begins"
"""The cluster time after which it begins"""

_NEWEST: Final = "tailrace.newest"
_TERM: Final = ".term"
_DIGEST: Final = ".digest"
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


def mark_transactions(shard: str, mark: EntryMark) -> list[tuple[str, int]]:
    """Names and versions of the transactions that store the mark of a shard's newest entry.

    >>> mark_transactions("s0", EntryMark(7 << 32 | 1, 3, 99))[2:]
    [('tailrace.newest.s0.term', 3), ('tailrace.newest.s0.digest', 99)]
    """
    name = _newest(shard)
    return [*position_transactions(name, mark.time), (name + _TERM, mark.term), (name + _DIGEST, mark.digest)]


def read_mark(shard: str, version_of: Callable[[str], int | None]) -> EntryMark | None:
    """The mark of a shard's newest entry, by the versions of transactions; None if they store none."""
    name = _newest(shard)
    versions = {found: version_of(found) for found in position_names(name)}
    time, term, digest = read_position(name, versions), version_of(name + _TERM), version_of(name + _DIGEST)
    return None if time is None or term is None or digest is None else EntryMark(time, term, digest)


def _newest(shard: str) -> str:
    return f"{_NEWEST}.{shard}" if shard else _NEWEST
