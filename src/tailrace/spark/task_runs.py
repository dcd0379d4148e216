"""Run pieces of work that can be pickled as tasks of Spark; only the pieces pass through the JVM, no rows."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from tailrace.pipeline.same_version import SameVersion
from tailrace.spark.connections import is_connect


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
        return pickle.dumps(pickle.loads(piece)())


class _NumberedPieces(SameVersion):
    """What a task of Spark Connect runs."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        run = _Piece()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pydict({"number": [number], "result": [run(self._pieces[number])]})
