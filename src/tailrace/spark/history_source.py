"""The stream source of the pipeline: its planner cuts cluster time into pieces, its tasks build their files.

A task reads its piece of every shard's oplog, runs the stages, merges the shards and writes Parquet; only
what it has written goes through the JVM, one row for each task. So the rate does not depend on Spark's own
rows, and Spark still logs the plan, retries tasks and distributes them over a cluster.
"""

import pickle
from collections.abc import Iterator, Sequence
from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tailrace.lake.storage.store_options import store_options
from tailrace.pipeline.history.batches import BatchPlan, BatchPlanner, BuiltPiece, Piece
from tailrace.pipeline.same_version import SameVersion

FORMAT: Final = "tailrace.pipeline"
_SCHEMA: Final = "built binary"


class PiecePartition(InputPartition):
    def __init__(self, piece: Piece) -> None:
        super().__init__(piece.interval.name)
        self.piece = piece


class BatchSource(DataSource):
    """`tailrace.pipeline`: private to the pipeline; a row is a pickled `BuiltPiece`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return _SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's
        return BatchReader(BatchPlan.from_options(self.options))


class BatchReader(SameVersion, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches on the driver, builds their pieces in tasks."""

    def __init__(self, plan: BatchPlan) -> None:
        self._plan = plan
        self._planner = BatchPlanner(plan)
        # Passed to the executors with the tasks; options of the query would be shown in plans.
        self._store_options = store_options(plan.store_file)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return self._planner.first_offset()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._planner.fix_end()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        return self._planner.next_offset(start)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """For the lag in the query's progress."""
        return self._planner.newest_offset()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [PiecePartition(piece) for piece in self._planner.pieces(start, end)]

    def read(self, partition: InputPartition) -> Iterator[tuple[bytes]]:
        # Imported here: a query starts a process that only plans.
        from tailrace.lake.storage.log_store import open_store
        from tailrace.pipeline.history.build import build

        assert isinstance(partition, PiecePartition)
        piece = partition.piece
        source = self._plan.source.having(piece.shards)
        built = build(source, piece.interval, open_store(self._plan.settings.history, self._store_options))
        yield (pickle.dumps(BuiltPiece(piece, built.files, built.newest)),)
