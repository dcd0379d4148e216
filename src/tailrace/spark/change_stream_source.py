"""``format("tailrace")``: a change stream as a DataFrame, batch or streaming.

A task runs the stages on one interval of cluster time; no row crosses between Python and the JVM but the
stream's own. The offset of a streaming query is the cluster time up to which everything was told, with the
two facts that a stream carries along: whether the event it was resumed after has been found, and whether it
was invalidated.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from tailrace.pipeline.options.event_options import EARLIEST, LATEST, StreamRequest, read_options
from tailrace.pipeline.streams.event_source import EventSource
from tailrace.pipeline.streams.open_source import open_source
from tailrace.pipeline.streams.planning import StreamInterval, StreamPlanner, rows_of
from tailrace.pipeline.streams.stream_spec import StreamSpec
from tailrace.sources.planning import UNLIMITED
from tailrace.spark.row_batches import RowBatches

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT: Final = "tailrace"
_BATCH_ROWS: Final = 4096
_VERSION: Final = 1
_WITH_SHARDS: Final = 2


class ChangeStreamPartition(InputPartition):
    """One interval, and the shards it is read from if they may change."""

    def __init__(self, interval: StreamInterval, shards: Mapping[str, Any]) -> None:
        super().__init__(interval)
        self.interval = interval
        self.shards = shards


class ChangeStreamSource(DataSource):
    """The data source; `event_options.py` has its options."""

    @classmethod
    def name(cls) -> str:
        """What goes into ``format()``."""
        return FORMAT

    def schema(self) -> str:
        """The fixed schema; wrong options are refused here, before anything runs."""
        request = read_options(self.options)
        source = open_source(request.source)
        try:
            request.spec(is_cluster=source.is_cluster)
        finally:
            source.close()
        return request.layout.ddl()

    def reader(self, schema: StructType) -> DataSourceReader:
        """For ``spark.read``."""
        return ChangeStreamReader(read_options(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """For ``spark.readStream``."""
        return ChangeStreamStreamReader(read_options(self.options), schema)


class _Stream:
    """A request with its source opened; what both readers are made of. Goes to executors."""

    def __init__(self, request: StreamRequest, schema: StructType) -> None:
        self.request = request
        self.schema = schema
        self.source: EventSource = open_source(request.source)
        self.spec: StreamSpec = request.spec(is_cluster=self.source.is_cluster)

    @property
    def planner(self) -> StreamPlanner:
        return StreamPlanner(self.spec, self.source)

    def first(self, planner: StreamPlanner, default: str) -> int:
        """The cluster time behind which the stream begins."""
        if planner.start is not None:
            if self.request.fail_on_data_loss:
                planner.check_start(planner.start)
            return max(planner.start - 1, 0)
        if (self.request.starting or default) == LATEST:
            return self.source.promised()
        return self.source.earliest()

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        assert isinstance(partition, ChangeStreamPartition)
        batches = RowBatches(self.schema, self.request.layout)
        source = self.source.having(partition.shards)
        try:
            for rows in rows_of(self.spec, source, partition.interval):
                for start in range(0, len(rows), _BATCH_ROWS):
                    batch = batches.batch(rows[start : start + _BATCH_ROWS])
                    if batch.num_rows:
                        yield batch
        finally:
            self.source.close()


class ChangeStreamReader(DataSourceReader):
    """A stream up to what the source has when the query begins."""

    def __init__(self, request: StreamRequest, schema: StructType) -> None:
        self._stream = _Stream(request, schema)

    def partitions(self) -> list[InputPartition]:
        """Intervals of about equal work; none behind an invalidation."""
        stream = self._stream
        planner = stream.planner
        try:
            after = stream.first(planner, EARLIEST)
            through = stream.source.promised()
            if stream.request.ending is not None:
                through = min(through, stream.request.ending)
            shards = stream.source.members_for(stream.source.membership(), after)
            ended = planner.end(after, through)
            planned = planner.intervals(
                after,
                through if ended is None else ended,
                stream.request.partitions or stream.source.suggested_parts(after, through),
                has_resumed=not planner.is_after_event,
                finds_event=planner.finds_event(),
            )
        finally:
            stream.source.close()
        # Spark asks for a partition even if there is nothing to read.
        planned = planned or [StreamInterval(after, after, has_resumed=True)]
        return [ChangeStreamPartition(each, shards) for each in planned]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The rows of one interval."""
        return self._stream.read(partition)


class ChangeStreamStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream in micro-batches."""

    def __init__(self, request: StreamRequest, schema: StructType) -> None:
        self._stream = _Stream(request, schema)
        self._target: int | None = None

    @cached_property
    def _planner(self) -> StreamPlanner:
        return self._stream.planner

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where the user wants to start."""
        is_live = self._stream.request.source.uri is not None
        after = self._stream.first(self._planner, LATEST if is_live else EARLIEST)
        return self._offset(after, has_resumed=not self._planner.is_after_event)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """What the options allow; the number of bytes is minded beside it."""
        request = self._stream.request
        if request.max_entries is None and request.max_bytes is None:
            return ReadAllAvailable()
        return ReadMaxRows(request.max_entries or UNLIMITED)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Let the query end where the source ends now."""
        self._target = self._stream.source.promised()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """How far the next micro-batch goes: to what is promised, the limit, or an invalidation."""
        if start["ended"]:
            return start
        request = self._stream.request
        source = self._stream.source
        source.remember(start.get("shards", {}))
        after = _time(start)
        through = source.promised() if self._target is None else self._target
        if request.ending is not None:
            through = min(through, request.ending)
        if through <= after:
            return start
        if not isinstance(limit, ReadAllAvailable):
            max_rows = limit.max_rows if isinstance(limit, ReadMaxRows) else UNLIMITED
            limit_time = source.limited(after, through, max_rows, request.max_bytes or UNLIMITED)
            # The oplogs of shards may begin at different times; a batch ends behind the last beginning.
            through = min(max(limit_time, source.oldest() - 1), through)
        ended = self._planner.end(after, through)
        if ended is not None:
            through = ended
        has_resumed = start["resumed"] or (
            self._planner.start is not None and through >= self._planner.start and self._planner.finds_event()
        )
        return self._offset(through, has_resumed=has_resumed, has_ended=ended is not None)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """What the source has by now, for the progress of the query."""
        return self._offset(self._stream.source.promised(), has_resumed=True)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The intervals of a micro-batch; the same for the same offsets."""
        after, through = _time(start), _time(end)
        source = self._stream.source
        shards = source.members_for(end.get("shards", {}), after)
        if source.oldest() > after + 1 and after:
            if self._stream.request.fail_on_data_loss:
                self._planner.check_start(after + 1)
            after = min(source.oldest() - 1, through)
        parts = self._stream.request.partitions or source.suggested_parts(after, through)
        planned = self._planner.intervals(
            after, through, parts, has_resumed=start["resumed"], finds_event=end["resumed"]
        )
        return [ChangeStreamPartition(interval, shards) for interval in planned]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The rows of one interval."""
        return self._stream.read(partition)

    def stop(self) -> None:
        """Close the connections of the driver."""
        self._stream.source.close()

    def _offset(self, time: int, *, has_resumed: bool, has_ended: bool = False) -> dict[str, Any]:
        offset = {
            "version": _VERSION,
            "clusterTime": {"t": time >> 32, "i": time & 0xFFFFFFFF},
            "resumed": has_resumed,
            "ended": has_ended,
        }
        shards = self._stream.source.membership()
        return {**offset, "version": _WITH_SHARDS, "shards": shards} if shards else offset


def _time(offset: Mapping[str, Any]) -> int:
    time = offset["clusterTime"]
    return int(time["t"]) << 32 | int(time["i"])
