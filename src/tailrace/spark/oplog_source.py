"""``format("tailrace.oplog")``: raw oplog entries as rows, in batch and in streaming queries."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from tailrace.events.cluster_time import END_OF_TIME, cluster_time, from_signed
from tailrace.pipeline.abandoned import expect_to_be_abandoned
from tailrace.pipeline.oplog_batches import OplogBatches, ShardInterval
from tailrace.pipeline.options.oplog_options import OplogOptions, read_oplog_options
from tailrace.pipeline.rows.entry_rows import DDL, entry_rows
from tailrace.pipeline.same_version import SameVersion
from tailrace.sources.conditions import EVERYTHING, EntryCondition
from tailrace.sources.planning import UNLIMITED
from tailrace.sources.source import OplogSource

FORMAT: Final = "tailrace.oplog"

expect_to_be_abandoned()


class OplogDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        read_oplog_options(self.options)  # wrong options are refused here
        return DDL

    def reader(self, schema: StructType) -> "OplogReader":  # noqa: ARG002 - Spark's
        return OplogReader(read_oplog_options(self.options))

    def streamReader(self, schema: StructType) -> "OplogStreamReader":  # noqa: ARG002, N802 - Spark's
        return OplogStreamReader(read_oplog_options(self.options, streaming=True))


class OplogPartition(InputPartition):
    def __init__(self, interval: ShardInterval) -> None:
        super().__init__(interval)
        self.interval = interval


class OplogReader(SameVersion, DataSourceReader):
    """A batch query, with filters on operation, namespace, shard and time."""

    def __init__(self, options: OplogOptions) -> None:
        self._source = options.open()
        self._batches = OplogBatches(self._source, options)
        self._condition = EVERYTHING
        self._shards: frozenset[str] | None = None
        self._after = 0
        self._through: int = END_OF_TIME

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Evaluate conditions on op, ns, shard, cluster_time and seconds here; leave the others to Spark."""
        for condition in filters:
            if not (self._take_values(condition) or self._take_bound(condition)):
                yield condition

    def _take_values(self, condition: Filter) -> bool:
        if isinstance(condition, EqualTo | EqualNullSafe) and isinstance(condition.value, str):
            values = frozenset({condition.value})
        elif isinstance(condition, In) and all(isinstance(value, str) for value in condition.value):
            values = frozenset(condition.value)
        else:
            return False
        taken = self._condition
        match condition.attribute:
            case ("op",):
                self._condition = EntryCondition(_both(taken.operations, values), taken.namespaces)
            case ("ns",):
                self._condition = EntryCondition(taken.operations, _both(taken.namespaces, values))
            case ("shard",):
                self._shards = _both(self._shards, values)
            case _:
                return False
        return True

    def _take_bound(self, condition: Filter) -> bool:
        if not isinstance(
            condition, EqualTo | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual
        ) or not isinstance(condition.value, int):
            return False
        # The first and the last cluster time that have the value.
        if condition.attribute == ("cluster_time",):
            first = last = int(from_signed(condition.value))
        elif condition.attribute == ("seconds",):
            first, last = cluster_time(condition.value), cluster_time(condition.value + 1) - 1
        else:
            return False
        if isinstance(condition, EqualTo | GreaterThanOrEqual):
            self._after = max(self._after, first - 1)
        if isinstance(condition, EqualTo | LessThanOrEqual):
            self._through = min(self._through, last)
        if isinstance(condition, GreaterThan):
            self._after = max(self._after, last)
        if isinstance(condition, LessThan):
            self._through = min(self._through, first - 1)
        return True

    def partitions(self) -> Sequence[InputPartition]:
        with self._source:
            intervals = self._batches.whole(self._shards, self._after, self._through)
        return [OplogPartition(interval) for interval in intervals]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, OplogPartition):
            return iter(())  # Spark's own, for a query without any
        return _rows(self._source, partition.interval, self._condition)


class OplogStreamReader(SameVersion, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query; its offset has one cluster time for each shard."""

    def __init__(self, options: OplogOptions) -> None:
        self._options = options
        self._source = options.open()
        self._batches = OplogBatches(self._source, options)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return self._batches.first_offset()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """For Spark's progress; `OplogBatches` applies both limits."""
        if self._options.max_entries < UNLIMITED:
            return ReadMaxRows(self._options.max_entries)
        if self._options.max_bytes < UNLIMITED:
            return ReadMaxBytes(self._options.max_bytes)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._batches.fix_end()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        return self._batches.next_offset(start, is_limited=not isinstance(limit, ReadAllAvailable))

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """For the lag in the query's progress."""
        return self._batches.newest_offset()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [OplogPartition(interval) for interval in self._batches.between(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, OplogPartition)
        return _rows(self._source, partition.interval, EVERYTHING)

    def stop(self) -> None:
        self._source.close()


def _rows(source: OplogSource, part: ShardInterval, condition: EntryCondition) -> Iterator[pa.RecordBatch]:
    return entry_rows(source.having(part.members), part.shard, part.after, part.through, condition)


def _both(taken: frozenset[str] | None, further: frozenset[str]) -> frozenset[str]:
    return further if taken is None else taken & further
