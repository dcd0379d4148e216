"""Conditions on raw entries, which sources may use to read less."""

from dataclasses import dataclass
from typing import Any, Final

from tailrace.events.cluster_time import cluster_time, increment_of, seconds_of, to_timestamp
from tailrace.events.oplog_entry import Head
from tailrace.namespaces import EVERYTHING_KEPT, NamespaceChoice

_LARGEST_INCREMENT: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class EntryCondition:
    """Operations and namespaces; None means all.

    >>> EntryCondition(operations=frozenset("i")).accepts(Head("d", "shop.orders", None))
    False
    """

    operations: frozenset[str] | None = None
    namespaces: frozenset[str] | None = None
    kept: NamespaceChoice = EVERYTHING_KEPT
    """Changes in other namespaces may be left out, and need not be."""

    @property
    def is_free(self) -> bool:
        """Whether every entry meets it."""
        return self.operations is None and self.namespaces is None

    def accepts(self, head: Head) -> bool:
        return (self.operations is None or head.op in self.operations) and (
            self.namespaces is None or head.ns in self.namespaces
        )

    def query(self) -> dict[str, Any]:
        """Return the condition as a filter on `local.oplog.rs`."""
        query: dict[str, Any] = {}
        if self.operations is not None:
            query["op"] = {"$in": sorted(self.operations)}
        if self.namespaces is not None:
            query["ns"] = {"$in": sorted(self.namespaces)}
        return query | self.kept.query()


EVERYTHING = EntryCondition()


def times_between(after: int, through: int) -> dict[str, Any]:
    """Return a filter on `local.oplog.rs` for the entries of an interval.

    A server seeks only for increments below 2**31, which all entries have; for others it reads everything.
    """
    first = after + 1
    if increment_of(first) > _LARGEST_INCREMENT:
        first = cluster_time(seconds_of(first) + 1)
    last = cluster_time(seconds_of(through), min(increment_of(through), _LARGEST_INCREMENT))
    return {"ts": {"$gte": to_timestamp(first), "$lte": to_timestamp(last)}}
