"""What one task does: entries of every shard through the stages, merged, to Parquet files."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from tailrace.history.data_file import AddedFile
from tailrace.history.rows import RowBuilder
from tailrace.history.writer import write_files
from tailrace.spark.oplogs.events import shared_events
from tailrace.spark.oplogs.source import OplogSource
from tailrace.spark.pipeline.interval import Interval


def build(source: OplogSource, interval: Interval, directory: Path) -> list[AddedFile]:
    """Write the files of an interval; they are no part of the table until the driver commits them.

    An interval without events has none. Memory does not grow with the interval.
    """
    return write_files(directory, _batches(source, interval), name=interval.name)


def _batches(source: OplogSource, interval: Interval) -> Iterator[pa.RecordBatch]:
    rows = RowBuilder()
    for events in shared_events(source, interval.after, interval.through):
        yield rows.batch(events)
