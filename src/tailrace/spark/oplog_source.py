"""``format("tailrace.oplog")``: raw oplog entries as rows, in batch and in streaming queries.

The same interval of the same oplogs gives the same rows, however often and wherever it is read: intervals are
cluster times, and none goes beyond what every shard has promised.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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

from tailrace.events.cluster_time import in_words
from tailrace.events.position import EARLIEST, LATEST, Position
from tailrace.events.stages.check_resumability import history_lost
from tailrace.pipeline.options.oplog_options import OplogOptions, read_oplog_options
from tailrace.sources.conditions import EVERYTHING, EntryCondition
from tailrace.sources.entry_rows import DDL, entry_rows
from tailrace.sources.planning import UNLIMITED, Planner
from tailrace.sources.source import OplogSource

FORMAT: Final = "tailrace.oplog"
_FOREVER: Final = (1 << 64) - 1
_MEMBERS: Final = "members"
_LOG = logging.getLogger("tailrace.oplog")


class OplogDataSource(DataSource):
    """Known to Spark as `tailrace.oplog`."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> str:
        """The columns; faults in the options show here."""
        read_oplog_options(self.options)
        return DDL

    def reader(self, schema: StructType) -> "OplogReader":  # noqa: ARG002 - Spark's
        """A batch query."""
        return OplogReader(read_oplog_options(self.options))

    def streamReader(self, schema: StructType) -> "OplogStreamReader":  # noqa: ARG002, N802 - Spark's
        """A streaming query."""
        return OplogStreamReader(read_oplog_options(self.options, streaming=True))


@dataclass(frozen=True)
class OplogPartition(InputPartition):
    """One task: an interval of one shard."""

    shard: str
    after: int
    through: int
    members: Mapping[str, Any]
    """the shards that there were, if they may change"""


class OplogReader(DataSourceReader):
    """Everything from one position to another, with filters on what entries are and when."""

    def __init__(self, options: OplogOptions) -> None:
        self._options = options
        self._source = options.open()
        self._condition = EVERYTHING
        self._shards: frozenset[str] | None = None
        self._after = 0
        self._through = _FOREVER

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take over conditions on op, ns, shard, cluster_time and seconds."""
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
        # As the first and the last cluster time that have the value.
        if condition.attribute == ("cluster_time",):
            first = last = condition.value
        elif condition.attribute == ("seconds",):
            first, last = condition.value << 32, (condition.value << 32) + 0xFFFFFFFF
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
        """Intervals of time, each once for every shard."""
        with self._source as source:
            options = self._options
            start = options.start(source, EARLIEST)
            end = options.end(source)
            start = _checked(source, start, fail=options.fail_on_data_loss)
            shards = [name for name in source.shards() if self._shards is None or name in self._shards]
            start = Position({name: max(start.times[name], self._after) for name in shards})
            end = Position({name: min(end.times[name], self._through) for name in shards})
            return _partitions(source, start, end, options.partitions, source.membership())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task: the rows of one partition."""
        if not isinstance(partition, OplogPartition):
            return iter(())  # Spark's own stands for a query without any
        return _rows(self._source, partition, self._condition)


class OplogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Micro-batches that all shards have promised; the offset is one cluster time for each shard."""

    def __init__(self, options: OplogOptions) -> None:
        self._options = options
        self._source = options.open()
        self._planner = Planner(self._source)
        self._target: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a query without a checkpoint begins."""
        return _document(self._options.start(self._source, LATEST), self._source.membership())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """What the options allow in one batch; the second of two limits is applied besides."""
        if self._options.max_entries < UNLIMITED:
            return ReadMaxRows(self._options.max_entries)
        if self._options.max_bytes < UNLIMITED:
            return ReadMaxBytes(self._options.max_bytes)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix the end of a run that takes what is there."""
        self._target = self._source.promised()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch."""
        source = self._source
        source.remember(start.get(_MEMBERS, {}))
        through = source.promised() if self._target is None else self._target
        known = Position.of(start, "the checkpoint's offset")
        begin = _unfinished(source, known)
        begin_read = _checked(source, begin, fail=self._options.fail_on_data_loss)
        if not isinstance(limit, ReadAllAvailable) and through > begin_read.earliest:
            entries, size = self._options.max_entries, self._options.max_bytes
            through = self._planner.batch_end(begin_read.earliest, through, entries, size)
        ends = {name: max(time, source.told_through(name, through)) for name, time in begin.times.items()}
        return _document(Position({**known.times, **ends}), source.membership())

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """How far the source has come, for the lag in the query's progress."""
        return Position.at(self._source.shards(), self._source.promised()).to_document()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Intervals of time, each once for every shard."""
        members = self._source.members_for(end.get(_MEMBERS, {}), 0)
        source = self._source.having(members)
        begin = _unfinished(source, Position.of(start))
        begin = _checked(source, begin, fail=self._options.fail_on_data_loss)
        stop = Position.of(end).of_shards(begin.times)
        return _partitions(source, begin, stop, self._options.partitions, members)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task: the rows of one partition."""
        assert isinstance(partition, OplogPartition)
        return _rows(self._source, partition, EVERYTHING)

    def stop(self) -> None:
        """The query has ended."""
        self._source.close()


def _document(offset: Position, members: Mapping[str, Any]) -> dict[str, Any]:
    return {**offset.to_document(), _MEMBERS: members} if members else offset.to_document()


def _unfinished(source: OplogSource, known: Position) -> Position:
    """Where to go on with the shards that may have more; one that is new begins where the last one stands."""
    shards = [
        name for name in source.shards() if source.told_through(name, _FOREVER) > known.times.get(name, 0)
    ]
    return Position({name: time for name, time in known.times.items() if name in shards}).of_shards(shards)


def _rows(source: OplogSource, part: OplogPartition, condition: EntryCondition) -> Iterator[pa.RecordBatch]:
    return entry_rows(source.having(part.members), part.shard, part.after, part.through, condition)


def _checked(source: OplogSource, start: Position, *, fail: bool) -> Position:
    """The start, or what is left behind it if that may be less than everything."""
    times = dict(start.times)
    for shard, after in start.times.items():
        oldest = source.oldest(shard)
        if oldest > after + 1:
            if fail:
                raise history_lost(after)
            times[shard] = oldest - 1
            _LOG.warning(
                "entries behind %s are gone from the oplog%s; going on from its oldest, %s",
                in_words(after),
                f" of {shard}" if shard else "",
                in_words(oldest),
            )
    return Position(times)


def _partitions(
    source: OplogSource, start: Position, end: Position, wanted: int | None, members: Mapping[str, Any]
) -> list[InputPartition]:
    after, through = start.earliest, max(end.times.values(), default=0)
    if not start.times or through <= after:
        return []
    planner = Planner(source)
    parts = wanted if wanted is not None else planner.suggested_parts(after, through)
    intervals = planner.intervals(after, through, parts)
    found = [
        OplogPartition(shard, max(begin, start.times[shard]), min(stop, end.times[shard]), members)
        for shard in start.times
        for begin, stop in intervals
    ]
    return [part for part in found if part.after < part.through]


def _both(taken: frozenset[str] | None, further: frozenset[str]) -> frozenset[str]:
    return further if taken is None else taken & further
