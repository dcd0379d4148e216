"""The stream source inside the pipeline: it plans intervals of cluster time, and its tasks build the files.

A task reads its piece of every shard's oplog, runs the stages, merges the shards and writes Parquet; only
what it has written goes through the JVM, one row for each task. So the rate does not depend on Spark's own
rows, and Spark still gives the plan in its log, the retry of tasks and the spread over a cluster.

The table's newest time at the start of the query, ``held``, wins over the checkpoint: what lies before it is
planned as a batch without tasks.
"""

import base64
import pickle
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tailrace.events.interval import Interval
from tailrace.pipeline.history.interval import BuiltPart
from tailrace.pipeline.history.offset import from_offset, shards_of, to_offset
from tailrace.pipeline.history.settings import SMALL_BATCH_BYTES, PipelineSettings
from tailrace.sources.source import OplogSource

FORMAT: Final = "tailrace.pipeline"
_PLAN: Final = "plan"
_SCHEMA: Final = "part binary"
_PARTS_PER_CORE: Final = 2
"""More tasks than cores, so that a slow one does not hold up the batch."""
_LOOK_SECONDS: Final = 0.01
_PATIENCE_SECONDS: Final = 0.2
"""How long a look for something new may take: asking again costs Spark more than waiting does, but a query
that is stopped has to wait for the look under way."""


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """Everything that the planner and the tasks of one query have to know."""

    source: OplogSource
    settings: PipelineSettings
    held: int
    """Through which cluster time the table held everything when the query began."""
    cores: int

    def to_option(self) -> dict[str, str]:
        """As an option of the data source; Spark hands on nothing but text."""
        return {_PLAN: base64.b64encode(pickle.dumps(self)).decode()}

    @staticmethod
    def from_options(options: Mapping[str, str]) -> "BatchPlan":
        """What `to_option` wrote."""
        plan = pickle.loads(base64.b64decode(options[_PLAN]))
        assert isinstance(plan, BatchPlan)
        return plan


class PartPartition(InputPartition):
    """One task: a piece of a batch."""

    def __init__(self, interval: Interval, batch: Interval, promised: int, shards: Mapping[str, Any]) -> None:
        super().__init__(interval.name)
        self.shards = shards
        self.interval = interval
        self.batch = batch
        self.promised = promised


class BatchSource(DataSource):
    """`tailrace.pipeline`: private to the pipeline, one row for each task."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> str:
        """One column: what a task has built, pickled."""
        return _SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's
        """The planner, and in a task the builder."""
        return BatchReader(BatchPlan.from_options(self.options))


class BatchReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches on the driver, builds their parts in tasks."""

    def __init__(self, plan: BatchPlan) -> None:
        self._plan = plan
        self._promised = 0
        self._target: int | None = None
        self._small: Interval | None = None
        """The newest batch that was found to be small, so that its planning need not ask again."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """A query without a checkpoint goes on where the table ends."""
        return to_offset(self._plan.held, self._plan.source.membership())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix the end of a run that takes what is there."""
        self._target = self._plan.source.promised()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        """The end of the next batch: what every shard has promised, or less if that is too much at once."""
        after = max(from_offset(start), self._plan.held)
        source = self._plan.source
        source.remember(shards_of(start))
        promised = self._newest(after)
        if promised <= after:
            return to_offset(after, shards_of(start))
        end = self._end(after, promised)
        return to_offset(end, source.membership())

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """How far the source has come, for the lag in the query's progress."""
        return to_offset(self._promised) if self._promised else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The pieces of a batch: one if it is small, else several with about the same work."""
        batch = Interval(max(from_offset(start), self._plan.held), from_offset(end))
        if batch.through <= batch.after:
            return []
        promised = max(self._promised, batch.through)
        shards = self._plan.source.members_for(shards_of(end), batch.after)
        marks = [batch.after, *self._cuts(batch), batch.through]
        return [
            PartPartition(Interval(after, through), batch, promised, shards)
            for after, through in pairwise(marks)
            if after < through
        ]

    def read(self, partition: InputPartition) -> Iterator[tuple[bytes]]:
        """In a task: build one piece and say what was built."""
        # Each query starts a process that plans; it would import what only tasks need.
        from tailrace.pipeline.history.task import build

        assert isinstance(partition, PartPartition)
        source = self._plan.source.having(partition.shards)
        files = build(source, partition.interval, self._plan.settings.history)
        part = BuiltPart(partition.interval, partition.batch, partition.promised, tuple(files))
        yield (pickle.dumps(part),)

    def _newest(self, after: int) -> int:
        """What the source promises; while that is nothing new, waits a moment for it."""
        if self._target is not None:
            self._promised = self._target
            return self._target
        patience = _PATIENCE_SECONDS if self._plan.settings.interval == 0 else 0
        deadline = time.monotonic() + patience
        while True:
            self._promised = self._plan.source.promised()
            if self._promised > after or time.monotonic() >= deadline:
                return self._promised
            time.sleep(_LOOK_SECONDS)

    def _end(self, after: int, promised: int) -> int:
        settings, source = self._plan.settings, self._plan.source
        entries, size = settings.max_entries, settings.max_bytes
        small = min(entries, settings.small_entries), min(size, SMALL_BATCH_BYTES)
        if entries <= settings.small_entries or size <= SMALL_BATCH_BYTES:
            end = source.batch_end(after, promised, *small)
            self._small = Interval(after, end)
            return end
        if source.fits(after, promised, *small):
            self._small = Interval(after, promised)
            return promised
        return source.batch_end(after, promised, entries, size)

    def _cuts(self, batch: Interval) -> list[int]:
        parts = self._plan.cores * _PARTS_PER_CORE
        if batch == self._small or parts < 2:
            return []
        return self._plan.source.split(batch.after, batch.through, parts)
