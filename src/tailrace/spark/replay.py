"""Replay an archive on Spark: pieces of time computed at the same time, their lines in order.

Only finished lines cross to the driver, some pieces at a time, so memory does not grow with the archive.
"""

import pickle
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from tailrace.pipeline.replay import PieceLines, ReplayJob, lines_of
from tailrace.pipeline.same_version import SameVersion
from tailrace.pipeline.streams.planning import StreamInterval
from tailrace.spark.connections import cores_of

_PIECES_PER_CORE: Final = 2
_WAVES: Final = 2
"""One is computed while the lines of the other are written."""
_ROW_BYTES: Final = 4 << 20
"""A message of Spark Connect must not become too large."""


def replay_pieces(
    spark: SparkSession, job: ReplayJob, intervals: list[StreamInterval]
) -> Iterator[PieceLines]:
    """Return the pieces' lines in order; the last one is over, has failed, or is the end of the archive."""
    size = cores_of(spark) * _PIECES_PER_CORE
    waves = deque(intervals[start : start + size] for start in range(0, len(intervals), size))

    def run(wave: list[StreamInterval]) -> list[PieceLines]:
        numbers = spark.range(0, len(wave), 1, len(wave))
        rows = numbers.mapInArrow(_ReplayTask(job, wave), "number long, part long, content binary").collect()
        contents = [bytearray() for _ in wave]
        for number, _, content in sorted(rows, key=lambda row: (row.number, row.part)):
            contents[number] += content
        return [pickle.loads(content) for content in contents]

    running: deque[Future[list[PieceLines]]] = deque()
    with ThreadPoolExecutor(_WAVES) as pool:
        try:
            while waves or running:
                while waves and len(running) < _WAVES:
                    running.append(pool.submit(run, waves.popleft()))
                for piece in running.popleft().result():
                    yield piece
                    if piece.is_over or piece.has_failed:
                        return
        finally:
            if running:
                spark.interruptAll()


class _ReplayTask(SameVersion):
    """What a task runs."""

    def __init__(self, job: ReplayJob, wave: list[StreamInterval]) -> None:
        self._job = job
        self._wave = wave

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                content = pickle.dumps(lines_of(self._job, self._wave[number]))
                for part, start in enumerate(range(0, len(content), _ROW_BYTES)):
                    yield pa.RecordBatch.from_pydict(
                        {"number": [number], "part": [part], "content": [content[start : start + _ROW_BYTES]]}
                    )
