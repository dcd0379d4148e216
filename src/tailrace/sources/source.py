"""What an oplog source offers, whichever way the entries are kept.

A source is opened by the driver and sent to executors as it is: it can be pickled, and opens what it needs
where it is used. Cluster times are 64-bit integers (`events/cluster_time.py`). An interval (after, through]
excludes its beginning and includes its end. Whatever lies at or before `promised` never changes any more, so
the same interval gives the same entries, on every executor and in every attempt of a task.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from types import TracebackType
from typing import Any, Final, Self

from tailrace.errors import CommandError
from tailrace.events.stages.check_resumability import history_lost
from tailrace.events.stages.lookups import Lookups
from tailrace.sources.batch_boundaries import COMMITS, Commit, CommitsAhead, commits_among, whole_time
from tailrace.sources.conditions import EVERYTHING, EntryCondition

BATCH_BYTES: Final = 2 << 20
"""About how many bytes of entries are handed on at a time."""
UNLIMITED: Final = 1 << 62
_SMALL_ENTRIES: Final = 20_000
_SMALL_BYTES: Final = 8 << 20
_USUAL_PARTS: Final = 4


class OplogSource(ABC):
    """The oplogs of one deployment, shard by shard; a replica set is one shard with the name ``""``.

    A context manager: leaving it closes what this process opened.
    """

    @abstractmethod
    def shards(self) -> tuple[str, ...]:
        """The names of all shards."""

    @abstractmethod
    def identity(self) -> str:
        """What tells this deployment from others and stays as long as it lives."""

    @abstractmethod
    def oldest(self, shard: str | None = None) -> int:
        """The cluster time from which on every entry is there; 0 if the oplogs begin with their first entry.

        Of all shards together, unless one is named.
        """

    @abstractmethod
    def promised(self) -> int:
        """The cluster time up to which every shard has told everything."""

    @abstractmethod
    def entries(
        self, shard: str, after: int, through: int, condition: EntryCondition = EVERYTHING
    ) -> Iterator[Sequence[bytes]]:
        """The raw entries of an interval in order, a few megabytes at a time.

        Those that do not meet the condition may be left out. Raises `CommandError` 286 if the oplog does not
        go back that far.
        """

    @abstractmethod
    def entry(self, shard: str, ts: int, term: int) -> bytes | None:
        """The entry at exactly this position; None if the oplog does not have it."""

    @abstractmethod
    def lookups(self, shard: str, after: int, through: int) -> Lookups:
        """What the stages look up while they go through an interval of this shard in order."""

    @abstractmethod
    def split(self, after: int, through: int, parts: int) -> list[int]:
        """Cluster times that cut an interval into at most ``parts`` pieces of about equal work, ascending.

        Each lies inside the interval, and belongs to the piece that ends there.
        """

    @abstractmethod
    def limited(self, after: int, through: int, max_entries: int, max_bytes: int) -> int:
        """The largest cluster time up to ``through`` that keeps an interval within these limits.

        An interval holds at least one cluster time that has an entry, whatever its size. Large limits are met
        about, small ones exactly.
        """

    def fits(self, after: int, through: int, max_entries: int, max_bytes: int) -> bool:
        """Whether an interval keeps within these limits."""
        return self.limited(after, through, max_entries, max_bytes) >= through

    def suggested_parts(self, after: int, through: int) -> int:
        """Into how many pieces an interval is worth being cut."""
        return 1 if self.fits(after, through, _SMALL_ENTRIES, _SMALL_BYTES) else _USUAL_PARTS

    def batch_end(self, after: int, through: int, max_entries: int, max_bytes: int) -> int:
        """As `limited`, for a batch that another one follows: no transaction is divided between the two.

        ``through`` is a time that was promised, or the end of everything.
        """
        end = self.limited(after, through, max_entries, max_bytes)
        if end >= through or len(self.shards()) < 2:
            return end
        commits = self._commits_ahead.between(after, through, self.commits)
        return min(whole_time(end, after, commits), through)

    @cached_property
    def _commits_ahead(self) -> CommitsAhead:
        return CommitsAhead()

    def commits(self, after: int, through: int) -> list[Commit]:
        """The entries of an interval with which shards commit transactions that others have parts of."""
        return [
            commit
            for shard in self.shards()
            for entries in self.entries(shard, after, through, COMMITS)
            for commit in commits_among(entries)
        ]

    # -- shards that come and go --------------------------------------------------------------------------

    def membership(self) -> dict[str, Any]:
        """What an offset has to say of the shards there are; empty if they are always the same."""
        return {}

    def told_through(self, shard: str, through: int) -> int:  # noqa: ARG002 - most shards stay
        """How far a shard tells something, up to a cluster time: one that has left tells no more."""
        return through

    def remember(self, membership: Mapping[str, Any]) -> None:  # noqa: B027 - most have nothing to remember
        """Learn from the offset that a query goes on from which shards there were."""

    def members_for(self, membership: Mapping[str, Any], after: int) -> Mapping[str, Any]:  # noqa: ARG002
        """Of the membership that an offset names, what a task needs that reads behind ``after``."""
        return membership

    def having(self, members: Mapping[str, Any]) -> "OplogSource":  # noqa: ARG002
        """The source with just these members, as `members_for` gave them."""
        return self

    def close(self) -> None:  # noqa: B027 - most sources have nothing to close
        """Close what this process opened; the source can still be used and opens it again."""

    def start_of(self, time: int) -> int:
        """Where an interval begins that is to have everything from this cluster time on."""
        return max(time - 1, 0)

    def intervals(self, after: int, through: int, parts: int) -> list[tuple[int, int]]:
        """An interval in at most ``parts`` pieces of about equal work, in order."""
        if through <= after:
            return []
        cuts = [after, *self.split(after, through, parts), through]
        return list(pairwise(cuts))

    def check_start(self, after: int) -> None:
        """Refuse an interval that begins before the oldest entry that is left."""
        lost = self.lost_since(after)
        if lost is not None:
            raise lost

    def lost_since(self, after: int) -> CommandError | None:
        """The error of a reader that wants everything behind ``after``, if some of that is gone."""
        return history_lost(after) if self.oldest() > after + 1 else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
