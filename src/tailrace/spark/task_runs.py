"""Pieces of work as tasks of Spark, and compaction by them; only the pieces pass through the JVM, no rows.

A merging task is sent the names and sizes of its files, and reports those that it has written, which the
driver commits. A task that runs twice leaves a file that no commit names, which vacuum deletes.
"""

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace.lake.compaction import Group, merge_group
from tailrace.lake.data_file import AddedFile
from tailrace.lake.storage.log_store import LogStore, open_store
from tailrace.pipeline.failure import failure_of
from tailrace.pipeline.loaded_modules import exempt_loaded_modules
from tailrace.pipeline.same_version import SameVersion
from tailrace.spark.connections import Py4JError, is_connect

_CORES_FOR_ONE: Final = 4
"""Batches must not wait for merges, which take up to a minute: most cores are left for them"""


class SparkTasks:
    """Runs work with at most ``tasks`` tasks at a time; by default with one for each piece."""

    def __init__(self, spark: SparkSession, tasks: int | None = None) -> None:
        self._spark = spark
        self._tasks = tasks

    def __call__(self, work: Sequence[Callable[[], Any]]) -> list[Any]:
        """Return what each piece of work returns; raises the errors of Spark."""
        if not work:
            return []
        pieces = [pickle.dumps(piece) for piece in work]
        count = min(self._tasks or len(work), len(work))
        if is_connect(self._spark):
            numbers = self._spark.range(0, len(work), 1, count)
            rows = numbers.mapInArrow(_NumberedPieces(pieces), "number long, result binary").collect()
            return [pickle.loads(row.result) for row in sorted(rows, key=lambda row: row.number)]
        # A task is sent its own pieces only.
        results = self._spark.sparkContext.parallelize(pieces, count).map(_Piece()).collect()
        return list(map(pickle.loads, results))


class _Piece(SameVersion):
    """What a task runs."""

    def __call__(self, piece: bytes) -> bytes:
        result = pickle.dumps(pickle.loads(piece)())
        exempt_loaded_modules()
        return result


class _NumberedPieces(SameVersion):
    """What a task of Spark Connect runs."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        run = _Piece()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pydict({"number": [number], "result": [run(self._pieces[number])]})


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
