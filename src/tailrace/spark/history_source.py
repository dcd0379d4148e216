"""The stream source of the pipeline: its planner cuts cluster time into pieces, its tasks build their files.

A task reads its piece of every shard's oplog, runs the stages, merges the shards and writes Parquet; only
what it has written goes through the JVM, one row for each task. So the rate does not depend on Spark's own
rows, and Spark still logs the plan, retries tasks and distributes them over a cluster.
"""

import pickle
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tailrace.errors import UsageError
from tailrace.lake.storage.store_options import store_options
from tailrace.pipeline.history.batches import BatchPlan, BatchPlanner, BuiltPiece, Piece
from tailrace.pipeline.same_version import SameVersion

FORMAT: Final = "tailrace.pipeline"
_COLUMNS: Final = {"history": "string", "rows": "bigint", "built": "binary"}
_SCHEMA: Final = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())


class PiecePartition(InputPartition):
    def __init__(self, piece: Piece) -> None:
        super().__init__(piece.interval.name)
        self.piece = piece


class BatchSource(DataSource):
    """`tailrace.pipeline`: a row for each task that has built files, and the sink that commits them.

    The jobs of this package send their plan as one option; other queries have the options of
    `history_options.py`.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        if not BatchPlan.is_in(self.options):
            self._plan().source.close()  # wrong options are refused here
        return _SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's
        return BatchReader(self._plan())

    def _plan(self) -> BatchPlan:
        if BatchPlan.is_in(self.options):
            return BatchPlan.from_options(self.options)
        # Imported here: Spark starts a process that plans for each query, and this imports all sources.
        from tailrace.pipeline.options.history_options import read_plan

        return read_plan(self.options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802
        from tailrace.pipeline.options.history_options import read_sink
        from tailrace.spark.history_sink import BatchWriter

        if schema.fieldNames() != list(_COLUMNS):
            raise UsageError(
                f'writeStream.format("{FORMAT}") takes the rows of readStream.format("{FORMAT}") as they are'
            )
        return BatchWriter(*read_sink(self.options))


class BatchReader(SameVersion, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches on the driver, builds their pieces in tasks."""

    def __init__(self, plan: BatchPlan) -> None:
        self._plan = plan
        # Passed to the executors with the tasks; options of the query would be shown in plans.
        self._store_options = store_options(plan.store_file)

    @cached_property
    def _planner(self) -> BatchPlanner:
        """Only the process that plans a query has one."""
        if self._plan.held is not None:
            return BatchPlanner(self._plan)
        from tailrace.pipeline.history.unattended import UnattendedPlanner

        return UnattendedPlanner(self._plan, self._store_options)

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

    def read(self, partition: InputPartition) -> Iterator[tuple[str, int, bytes]]:
        # Imported here: a query starts a process that only plans.
        from tailrace.lake.storage.log_store import open_store
        from tailrace.pipeline.history.build import build
        from tailrace.pipeline.loaded_modules import exempt_loaded_modules

        exempt_loaded_modules()
        assert isinstance(partition, PiecePartition)
        piece = partition.piece
        source = self._plan.source.having(piece.shards)
        store = open_store(self._plan.settings.history, self._store_options)
        built = build(source, piece.interval, store, piece.kept)
        rows = sum(file.rows for file in built.files)
        done = pickle.dumps(BuiltPiece(piece, built.files, built.newest))
        yield str(self._plan.settings.history), rows, done

    def stop(self) -> None:
        if "_planner" in self.__dict__:
            self._planner.close()
