"""``format("tailrace")``: a change stream as a DataFrame, batch or streaming.

A task runs the stages on one interval of cluster time; no row crosses between Python and the JVM but the
stream's own.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from tailrace.pipeline.abandoned import expect_to_be_abandoned
from tailrace.pipeline.loaded_modules import exempt_loaded_modules
from tailrace.pipeline.options.event_options import StreamRequest, read_options
from tailrace.pipeline.same_version import SameVersion
from tailrace.pipeline.stream_batches import StreamBatches, StreamPiece
from tailrace.pipeline.streams.snapshot import RangeRead
from tailrace.sources.planning import UNLIMITED
from tailrace.spark.pushed_filters import PushedFilters
from tailrace.spark.row_batches import RowBatches

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT: Final = "tailrace"

expect_to_be_abandoned()


class ChangeStreamPartition(InputPartition):
    def __init__(self, piece: StreamPiece | RangeRead) -> None:
        super().__init__(piece)
        self.piece = piece


class ChangeStreamSource(DataSource):
    """The data source; `event_options.py` has its options."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        request = read_options(self.options)
        StreamBatches(request).close()  # a wrong stream or source is refused before anything runs
        return request.layout.ddl()

    def reader(self, schema: StructType) -> DataSourceReader:
        return ChangeStreamReader(read_options(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return ChangeStreamStreamReader(read_options(self.options), schema)


class _RowReader(SameVersion):
    """Reads rows of a stream as Arrow batches."""

    def __init__(self, request: StreamRequest, schema: StructType) -> None:
        self._request = request
        self._schema = schema
        self._stream = StreamBatches(request)

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Return the rows of one partition; in a task."""
        assert isinstance(partition, ChangeStreamPartition)
        exempt_loaded_modules()
        batches = RowBatches(self._schema, self._request.layout)
        for rows in self._stream.rows(partition.piece):
            batch = batches.batch(rows)
            if batch.num_rows:
                yield batch


class ChangeStreamReader(_RowReader, DataSourceReader):
    """A stream up to what the source has when the query begins."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Evaluate conditions on types, times, namespaces and tokens here; leave the others to Spark."""
        request = self._request
        if not request.keeps_events:
            return filters
        pushed = PushedFilters(self._schema, request.layout.output, lambda: self._stream.newest)
        left = [condition for condition in filters if not pushed.take(condition)]
        self._stream.condition = pushed.condition
        return [condition for condition in left if not pushed.implies(condition)]

    def partitions(self) -> list[InputPartition]:
        try:
            return [ChangeStreamPartition(piece) for piece in self._stream.whole()]
        finally:
            self._stream.close()


class ChangeStreamStreamReader(_RowReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream in micro-batches."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return self._stream.first_offset()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit of rows; `StreamBatches` applies that of bytes."""
        request = self._request
        if request.max_entries is None and request.max_bytes is None:
            return ReadAllAvailable()
        return ReadMaxRows(request.max_entries or UNLIMITED)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._stream.fix_end()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        if isinstance(limit, ReadAllAvailable):
            return self._stream.next_offset(start, max_rows=None)
        max_rows = limit.max_rows if isinstance(limit, ReadMaxRows) else UNLIMITED
        return self._stream.next_offset(start, max_rows)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """For the lag in the query's progress."""
        return self._stream.newest_offset()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [ChangeStreamPartition(piece) for piece in self._stream.between(start, end)]

    def stop(self) -> None:
        self._stream.close()
