"""What one task does: entries of every shard through the stages, merged, to Parquet files."""

from pathlib import Path

from tailrace.events.interval import Interval
from tailrace.lake.data_file import AddedFile
from tailrace.lake.writer import write_files
from tailrace.pipeline.history.bulk import shared_rows
from tailrace.sources.source import OplogSource


def build(source: OplogSource, interval: Interval, directory: Path) -> list[AddedFile]:
    """Write the files of an interval; they are no part of the table until the driver commits them.

    An interval without events has none. Memory does not grow with the interval.
    """
    batches = shared_rows(source, interval.after, interval.through)
    return write_files(directory, batches, name=interval.name)
