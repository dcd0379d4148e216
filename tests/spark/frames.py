"""Read change streams of Spark in tests: events of batch queries, micro-batches of streaming queries."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pyspark.sql import DataFrame, Row

from tests.spark.pipeline_runs import SECONDS

Batch = TypeVar("Batch")


def events_of(frame: DataFrame) -> list[bytes]:
    """Return the events in the order of the rows, as BSON."""
    return [bytes(row.event) for row in frame.select("event").toLocalIterator()]


def sorted_events_of(frame: DataFrame) -> list[bytes]:
    """Return the events in the order of their tokens, as BSON."""
    return [bytes(row.event) for row in frame.orderBy("token").collect()]


def rows_of(frame: DataFrame) -> list[Row]:
    return frame.collect()


def micro_batches(frame: DataFrame, checkpoint: Path, read: Callable[[DataFrame], Batch]) -> list[Batch]:
    """Run a streaming query on everything available now; return what `read` returns of each micro-batch."""
    batches: list[Batch] = []
    query = (
        frame.writeStream.foreachBatch(lambda rows, _: batches.append(read(rows)))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(SECONDS)
    finally:
        query.stop()
    return batches
