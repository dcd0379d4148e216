"""Compaction by the tasks of a cluster: each merges groups of files, and the driver commits what they wrote.

A task is sent the names and sizes of its files, and reports those that it has written; no row passes through
the JVM. A task that runs twice leaves a file that no commit names, which vacuum deletes.
"""

import pickle
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace.lake.compaction import Group, merge_group
from tailrace.lake.data_file import AddedFile
from tailrace.lake.storage.log_store import LogStore, open_store
from tailrace.pipeline.failure import failure_of
from tailrace.pipeline.same_version import SameVersion
from tailrace.spark.connections import Py4JError

_CORES_FOR_ONE: Final = 4
"""Batches must not wait for merges, which take up to a minute: most cores are left for them"""


def merging_tasks(cores: int) -> int:
    """How many tasks of a cluster merge at the same time; 0 if it is too small, and the driver merges."""
    return cores // _CORES_FOR_ONE


class SparkMerge:
    """Merges files with at most ``tasks`` tasks at a time."""

    def __init__(self, spark: SparkSession, tasks: int) -> None:
        self._spark = spark
        self._tasks = tasks

    def __call__(self, store: LogStore, groups: Sequence[Group]) -> list[list[AddedFile]]:
        """Return the merged files of each group; `PipelineError` if a task fails."""
        if not groups:
            return []
        tasks = min(self._tasks, len(groups))
        work = _MergeTask(store.place, store.delta_options, groups)
        numbers = self._spark.range(0, len(groups), 1, tasks)
        try:
            rows = numbers.mapInArrow(work, "number long, merged binary").collect()
        except (PySparkException, Py4JError) as error:
            raise failure_of(error).error() from None
        return [pickle.loads(row.merged) for row in sorted(rows, key=lambda row: row.number)]


class _MergeTask(SameVersion):
    """What a task runs."""

    def __init__(self, place: str, options: Mapping[str, str] | None, groups: Sequence[Group]) -> None:
        self._place = place
        self._options = options
        self._groups = groups

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = open_store(self._place, self._options)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                merged = pickle.dumps(merge_group(store, self._groups[number]))
                yield pa.RecordBatch.from_pydict({"number": [number], "merged": [merged]})
