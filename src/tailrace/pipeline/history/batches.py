"""Plan the batches of a pipeline and the pieces of a batch, and check what the tasks have built.

A batch is an interval of cluster time, a piece is the part of it that one task builds. The table's newest
time at the start of a query, `BatchPlan.held`, wins over the checkpoint: what is before it has no pieces.
"""

import base64
import pickle
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from tailrace.errors import PipelineError
from tailrace.events.entry_mark import EntryMark
from tailrace.events.interval import Interval
from tailrace.lake.data_file import AddedFile
from tailrace.namespaces import EVERYTHING_KEPT, NamespaceChoice
from tailrace.pipeline.history.offset import from_offset, shards_of, to_offset
from tailrace.pipeline.history.settings import PIECES_PER_CORE, SMALL_BATCH_BYTES, PipelineSettings
from tailrace.sources.planning import Planner
from tailrace.sources.source import OplogSource

_PLAN: Final = "plan"
_POLL_SECONDS: Final = 0.01
_LONGEST_POLL_SECONDS: Final = 0.2
"""How long `next_offset` may wait for new entries: another call by Spark costs more than waiting, but a query
that is stopped waits for the call in progress."""


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """What the planner and the tasks of one query need."""

    source: OplogSource
    settings: PipelineSettings
    held: int | None
    """The cluster time through which the table held everything when the query began; None if the planner
    opens the table."""
    cores: int
    """Those of all executors together."""
    kept: NamespaceChoice = EVERYTHING_KEPT
    """The namespaces whose events the table has."""
    store_file: str | None = None
    """A private file of the driver with the options of the history's object store."""

    def to_option(self) -> dict[str, str]:
        """Return an option of the data source; options are text."""
        return {_PLAN: base64.b64encode(pickle.dumps(self)).decode()}

    @staticmethod
    def is_in(options: Mapping[str, str]) -> bool:
        """Whether `to_option` has put a plan there."""
        return _PLAN in options

    @staticmethod
    def from_options(options: Mapping[str, str]) -> "BatchPlan":
        """The plan that `to_option` has put there."""
        plan = pickle.loads(base64.b64decode(options[_PLAN]))
        assert isinstance(plan, BatchPlan)
        return plan


@dataclass(frozen=True, slots=True)
class Piece:
    """The work of one task."""

    interval: Interval
    batch: Interval
    promised: int
    """How far the source had promised everything when the batch was planned."""
    shards: Mapping[str, Any]
    """The shards to read, if they may change."""
    membership: Mapping[str, Any]
    """All shards at the end of the batch, if they may change."""
    kept: NamespaceChoice
    """The namespaces whose events the history has."""


@dataclass(frozen=True, slots=True)
class BuiltPiece:
    """What a task reports to the driver."""

    piece: Piece
    files: tuple[AddedFile, ...]
    newest: Mapping[str, EntryMark]
    """The newest entry of each shard that has entries in the piece."""


class BatchPlanner:
    """Plans batches of one query, on the driver. Offsets are those of `offset.py`."""

    def __init__(self, plan: BatchPlan) -> None:
        assert plan.held is not None
        self._held = plan.held
        self._plan = plan
        self._planner = Planner(plan.source)
        self._promised = 0
        self._target: int | None = None
        self._small: Interval | None = None
        """The newest batch that was found to be small, so that `pieces` need not ask again."""

    def first_offset(self) -> dict[str, Any]:
        """Return the offset at which a query without a checkpoint begins: the end of the table."""
        return to_offset(self._held, self._plan.source.membership())

    def fix_end(self) -> None:
        """Let the query end with what the source has now."""
        self._target = self._plan.source.promised()

    def next_offset(self, start: Mapping[str, Any]) -> dict[str, Any]:
        """Return the end of the next batch: what every shard has promised, or less to keep to the limits."""
        after = max(from_offset(start), self._held)
        source = self._plan.source
        source.remember(shards_of(start))
        promised = self._newest(after)
        if promised <= after:
            return to_offset(after, shards_of(start))
        end = self._end(after, promised)
        return to_offset(end, source.membership())

    def newest_offset(self) -> dict[str, Any] | None:
        """Return how far the source was at the last `next_offset`."""
        return to_offset(self._promised) if self._promised else None

    def pieces(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[Piece]:
        """Cut a batch: one piece if it is small, else several of about equal work."""
        batch = Interval(max(from_offset(start), self._held), from_offset(end))
        if batch.through <= batch.after:
            return []
        promised = max(self._promised, batch.through)
        shards = self._plan.source.members_for(shards_of(end), batch.after)
        marks = [batch.after, *self._cuts(batch), batch.through]
        return [
            Piece(Interval(after, through), batch, promised, shards, shards_of(end), self._plan.kept)
            for after, through in pairwise(marks)
            if after < through
        ]

    def close(self) -> None:
        """The query has ended."""

    def _newest(self, after: int) -> int:
        """What the source promises; waits a moment while that is nothing new."""
        if self._target is not None:
            self._promised = self._target
            return self._target
        deadline = time.monotonic() + (_LONGEST_POLL_SECONDS if self._plan.settings.interval == 0 else 0)
        while True:
            self._promised = self._plan.source.promised()
            if self._promised > after or time.monotonic() >= deadline:
                return self._promised
            time.sleep(_POLL_SECONDS)

    def _end(self, after: int, promised: int) -> int:
        settings, planner = self._plan.settings, self._planner
        entries, size = settings.limits(self._plan.cores)
        small = min(entries, settings.small_entries), min(size, SMALL_BATCH_BYTES)
        if entries <= settings.small_entries or size <= SMALL_BATCH_BYTES:
            end = planner.batch_end(after, promised, *small)
            self._small = Interval(after, end)
            return end
        if planner.fits(after, promised, *small):
            self._small = Interval(after, promised)
            return promised
        return planner.batch_end(after, promised, entries, size)

    def _cuts(self, batch: Interval) -> list[int]:
        if batch == self._small:
            return []
        return self._planner.cuts(batch.after, batch.through, self._parts(batch))

    def _parts(self, batch: Interval) -> int:
        """As many as the cores have use for, but no more than have enough to do."""
        settings, planner = self._plan.settings, self._planner
        parts = self._plan.cores * PIECES_PER_CORE
        size = planner.least_bytes(batch.after, batch.through)
        if size is not None:
            return max(min(parts, size // settings.piece_bytes), 1)
        # A running deployment shows only whether an interval is within limits.
        while parts > 2 and planner.fits(
            batch.after, batch.through, parts // 2 * settings.small_entries, parts // 2 * SMALL_BATCH_BYTES
        ):
            parts //= 2
        return parts


def in_order(built: Sequence[BuiltPiece]) -> list[BuiltPiece]:
    """Sort the pieces of a batch by time; `PipelineError` if they do not cover it without a gap."""
    ordered = sorted(built, key=lambda done: done.piece.interval.after)
    pieces = [done.piece for done in ordered]
    batch = pieces[0].batch
    covers = pieces[0].interval.after == batch.after and pieces[-1].interval.through == batch.through
    joined = all(left.interval.through == right.interval.after for left, right in pairwise(pieces))
    if not covers or not joined or any(piece.batch != batch for piece in pieces):
        raise PipelineError(
            f"the tasks of the batch {batch.name} did not cover it; this is a fault in Tailrace"
        )
    return ordered
