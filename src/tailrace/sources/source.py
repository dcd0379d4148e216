"""The contract of an oplog source: an archive, or a running deployment.

A source is opened by the driver and sent to executors: it can be pickled, and opens what it needs where it is
used. Cluster times are 64-bit integers (`events/cluster_time.py`). An interval ``(after, through]`` excludes
its beginning and includes its end. Nothing at or before `OplogSource.promised` ever changes, so an interval
up to there gives the same entries on every executor and in every attempt of a task.

A source reads, and measures how much it would read (`Volume`). What to read in one batch and in one task is
decided by `sources/planning.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from tailrace.events.cluster_time import BEGINNING, ClusterTime
from tailrace.events.entry_mark import EntryMark
from tailrace.events.promise import Promise
from tailrace.events.stages.lookups import Lookups
from tailrace.events.stream_release import StreamRelease
from tailrace.sources.batch_boundaries import COMMITS, Commit, commits_among
from tailrace.sources.conditions import EVERYTHING, EntryCondition

BATCH_BYTES: Final = 2 << 20
"""About how many bytes of entries are read at a time."""


class ShardMembership:
    """Shards that join and leave while a query runs; the default is for shards that never change.

    An offset of a query contains a *membership*, a JSON document about the shards there were. So an interval
    is read from the same shards whenever it is read.
    """

    def membership(self) -> dict[str, Any]:
        """Return what an offset has to contain about the shards; empty if they never change."""
        return {}

    def remember(self, membership: Mapping[str, Any]) -> None:
        """Learn from the offset where a query continues which shards there were."""

    def members_for(self, membership: Mapping[str, Any], after: int) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the part of a membership that a task needs which reads after a cluster time."""
        return membership

    def having(self, members: Mapping[str, Any]) -> Self:  # noqa: ARG002
        """Return the source with the members that `members_for` returned; for a task."""
        return self


class Volume(ABC):
    """Measures how much was logged when, without reading all of it."""

    @abstractmethod
    def cuts(self, after: int, through: int, parts: int) -> list[int]:
        """Return cluster times that cut an interval into at most ``parts`` pieces of about equal work.

        They ascend, are inside the interval, and each belongs to the piece that ends there.
        """

    @abstractmethod
    def limit(self, after: int, through: int, max_entries: int, max_bytes: int) -> int:
        """Return the largest cluster time up to ``through`` that keeps an interval within limits.

        An interval contains at least one cluster time that has an entry, whatever its size. Large limits are
        met approximately, small ones exactly.
        """

    def least_bytes(self, after: int, through: int) -> int | None:  # noqa: ARG002
        """Return about how many bytes have to be read for an interval; None if only reading can show it."""
        return None


class OplogSource(ShardMembership, ABC):
    """The oplogs of one deployment, shard by shard; a replica set is one shard with the name ``""``.

    A context manager: leaving it closes what this process opened.
    """

    is_recorded = False
    """Whether its entries were recovered from events (`sources/recorded/`)."""

    @abstractmethod
    def shards(self) -> tuple[str, ...]:
        """Return the names of all shards."""

    @abstractmethod
    def identity(self) -> str:
        """Return what tells this deployment from others and never changes."""

    def release(self) -> StreamRelease | None:
        """Return the release of the deployment's servers; None for archives, which do not show it."""
        return None

    @abstractmethod
    def oldest(self, shard: str | None = None) -> ClusterTime:
        """Return the cluster time since which every entry is there; 0 if the oplogs were never truncated.

        Of all shards together, unless one is named.
        """

    def oldest_of(self, shards: Iterable[str]) -> Mapping[str, ClusterTime]:
        """Return what `oldest` returns for each of these shards."""
        return {shard: self.oldest(shard) for shard in shards}

    @abstractmethod
    def promised(self) -> Promise:
        """Return the cluster time up to which every shard is complete."""

    @abstractmethod
    def entries(
        self, shard: str, after: int, through: int, condition: EntryCondition = EVERYTHING
    ) -> Iterator[Sequence[bytes]]:
        """Return the raw entries of an interval in order, a few megabytes at a time.

        Those that do not meet the condition may be left out. Raises `CommandError` 286 if the oplog does not
        go back that far.
        """

    @abstractmethod
    def lookups(self, shard: str, after: int, through: int) -> Lookups:
        """Return what the stages look up while they process an interval of this shard in order."""

    @property
    @abstractmethod
    def volume(self) -> Volume:
        """Measures of these oplogs, for planning."""

    def commits(self, after: int, through: int) -> list[Commit]:
        """Return the entries of an interval with which shards commit transactions over several shards."""
        return [
            commit
            for shard in self.shards()
            for entries in self.entries(shard, after, through, COMMITS)
            for commit in commits_among(entries)
        ]

    def has_diverged(self, shard: str, mark: EntryMark) -> bool:  # noqa: ARG002
        """Return whether the oplog has lost an entry that was read from it, without having been truncated.

        Then everything after that entry may be different, too. Archived files are known by their beginning.
        """
        return False

    def mark_of(self, raw: bytes) -> EntryMark:
        """Return what identifies an entry that was read here."""
        return EntryMark.of(raw)

    def shard_end(self, shard: str, through: int) -> int:  # noqa: ARG002
        """Return how far a shard has entries, up to a cluster time; one that has left has no later ones."""
        return through

    def beginning(self, shard: str | None = None) -> ClusterTime:
        """Return where the interval of everything there is begins, right before `oldest`."""
        return ClusterTime(max(self.oldest(shard) - 1, BEGINNING))

    def close(self) -> None:
        """Close what this process opened; the source can still be used and opens it again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
