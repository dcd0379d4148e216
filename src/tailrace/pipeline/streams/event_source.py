"""What a stream on Spark is made from: oplogs, or a history.

Like an oplog source it can be sent to executors, and cluster times are 64-bit integers; intervals are
``(after, through]``.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TypeAlias

from tailrace.events.stages.plan import Plan
from tailrace.log.shared_output import AnyRow
from tailrace.sources.source import ShardMembership

Rows: TypeAlias = Iterator[list[AnyRow]]


class StreamRun(ABC):
    """One stream going through one interval."""

    @abstractmethod
    def rows(self) -> Rows:
        """The rows in order, some at a time; raises the stream's error behind the rows before it."""

    @property
    @abstractmethod
    def is_invalidated(self) -> bool:
        """Whether the rows ended with an invalidation: no more will ever come."""

    @property
    @abstractmethod
    def has_resumed(self) -> bool:
        """Whether the event the stream was resumed after was among those seen; True if there is none."""


class EventSource(ShardMembership, ABC):
    """All events of a deployment, some interval at a time."""

    @property
    @abstractmethod
    def is_cluster(self) -> bool:
        """Whether the events come from shards, as behind a router."""

    @abstractmethod
    def oldest(self) -> int:
        """The cluster time from which on everything is there; 0 if nothing was ever before."""

    @abstractmethod
    def earliest(self) -> int:
        """Behind which cluster time a stream begins that is to have everything there is."""

    @abstractmethod
    def promised(self) -> int:
        """The cluster time up to which everything is there and will not change."""

    @abstractmethod
    def split(self, after: int, through: int, parts: int) -> list[int]:
        """Cluster times that cut an interval into pieces of about equal work."""

    @abstractmethod
    def limited(self, after: int, through: int, max_entries: int, max_bytes: int) -> int:
        """The largest cluster time up to ``through`` that keeps an interval within these limits."""

    @abstractmethod
    def suggested_parts(self, after: int, through: int) -> int:
        """Into how many pieces an interval is worth being cut."""

    @abstractmethod
    def run(self, plan: Plan, after: int, through: int, *, commands_only: bool = False) -> StreamRun:
        """A stream on an interval; with ``commands_only`` it sees the entries alone that are commands.

        Invalidations are commands, so that is enough to find them.
        """

    def close(self) -> None:
        """Close what this process opened."""
