"""Compaction by the tasks of a cluster: each merges groups of files, and the driver commits what they wrote.

A task is sent the names and sizes of its files, and reports those that it has written; no row passes through
the JVM. A task that runs twice leaves a file that no commit names, which vacuum deletes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace.lake.compaction import Group, merge_group
from tailrace.lake.data_file import AddedFile
from tailrace.lake.storage.log_store import LogStore, open_store
from tailrace.pipeline.failure import failure_of
from tailrace.spark.connections import Py4JError
from tailrace.spark.task_runs import SparkTasks

_CORES_FOR_ONE: Final = 4
"""Batches must not wait for merges, which take up to a minute: most cores are left for them"""


def merging_tasks(cores: int) -> int:
    """How many tasks of a cluster merge at the same time; 0 if it is too small, and the driver merges."""
    return cores // _CORES_FOR_ONE


class SparkMerge:
    """Merges files with at most ``tasks`` tasks at a time."""

    def __init__(self, spark: SparkSession, tasks: int) -> None:
        self._run = SparkTasks(spark, tasks)

    def __call__(self, store: LogStore, groups: Sequence[Group]) -> list[list[AddedFile]]:
        """Return the merged files of each group; `PipelineError` if a task fails."""
        try:
            return self._run([_MergeGroup(store.place, store.delta_options, group) for group in groups])
        except (PySparkException, Py4JError) as error:
            raise failure_of(error).error() from None


@dataclass(frozen=True, slots=True)
class _MergeGroup:
    """What a task runs."""

    place: str
    options: Mapping[str, str] | None
    group: Group

    def __call__(self) -> list[AddedFile]:
        return merge_group(open_store(self.place, self.options), self.group)
