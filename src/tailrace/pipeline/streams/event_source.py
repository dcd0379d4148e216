"""What a stream on Spark is made from: oplogs, or a history.

It can be sent to executors, as an oplog source. Intervals are ``(after, through]``.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from tailrace.errors import UsageError
from tailrace.events.promise import Promise
from tailrace.events.stages.plan import Plan
from tailrace.events.stream_release import StreamRelease
from tailrace.log.shared_output import AnyRow
from tailrace.namespaces import KeptPeriods
from tailrace.pipeline.streams.event_block import EventBlock
from tailrace.pipeline.streams.row_condition import ALL_ROWS, RowCondition
from tailrace.sources.source import ShardMembership

if TYPE_CHECKING:
    from tailrace.sources.deployments.collections import CollectionReader

Rows: TypeAlias = Iterator[list[AnyRow]]
Blocks: TypeAlias = Iterator[Sequence[AnyRow] | EventBlock]


class StreamRun(ABC):
    """One stream on one interval."""

    @abstractmethod
    def rows(self) -> Rows:
        """Yield the rows in order, some at a time; raises the stream's error after the rows before it."""

    def blocks(self) -> Blocks:
        """Yield the same, without an object for each row where that is possible."""
        return self.rows()

    @property
    @abstractmethod
    def is_invalidated(self) -> bool:
        """Whether the rows ended with an invalidation."""

    @property
    @abstractmethod
    def has_resumed(self) -> bool:
        """Whether the event that the stream was resumed after was met; True if there is none."""


class EventSource(ShardMembership, ABC):
    """All events of a deployment, one interval at a time."""

    @property
    @abstractmethod
    def is_cluster(self) -> bool:
        """Whether the events come from shards."""

    @abstractmethod
    def release(self) -> StreamRelease:
        """Return the server release that streams imitate if the user names none."""

    @abstractmethod
    def oldest(self) -> int:
        """Return the cluster time from which on everything is there; 0 if nothing was ever before."""

    @abstractmethod
    def earliest(self) -> int:
        """Return the cluster time after which a stream begins that shows everything there is."""

    @abstractmethod
    def promised(self) -> Promise:
        """Return the cluster time up to which everything is there and will not change."""

    @property
    def is_recorded(self) -> bool:
        """Whether the events are those of a recorded stream, which some streams cannot be made of."""
        return False

    @property
    def kept(self) -> KeptPeriods:
        """The namespaces whose events it has, and since when."""
        return KeptPeriods()

    @property
    def collections(self) -> "CollectionReader":
        """Reads documents, for a snapshot; `UsageError` if there are none to read."""
        raise UsageError("a snapshot is read from a deployment: name it with the option uri")

    @abstractmethod
    def split(self, after: int, through: int, parts: int) -> list[int]:
        """Return cluster times that divide an interval into pieces of about equal work."""

    @abstractmethod
    def limited(self, after: int, through: int, max_entries: int, max_bytes: int) -> int:
        """Return the largest cluster time up to ``through`` that keeps an interval within these limits."""

    @abstractmethod
    def suggested_parts(self, after: int, through: int) -> int:
        """Return into how many pieces an interval should be divided."""

    @abstractmethod
    def run(
        self,
        plan: Plan,
        after: int,
        through: int,
        *,
        commands_only: bool = False,
        condition: RowCondition = ALL_ROWS,
    ) -> StreamRun:
        """Return a stream on an interval; with ``commands_only`` it sees only entries that are commands.

        That is enough to find an invalidation. What does not meet ``condition`` need not be read; `blocks`
        shows rows that meet it, `rows` also others. A stream that has not passed its start has none.
        """

    def given(self, after: int, through: int) -> Any:  # noqa: ARG002
        """Return what a task needs to read an interval without planning again; it can be pickled."""
        return None

    def with_given(self, given: Any) -> Self:  # noqa: ARG002
        """Return the source with what `given` returned; for a task."""
        return self

    def narrowed(self, after: int, through: int, condition: RowCondition) -> tuple[int, int]:  # noqa: ARG002
        """Return a smaller interval outside of which no row meets a condition, as far as that is known."""
        return after, through

    def close(self) -> None:
        """Close what this process opened."""
