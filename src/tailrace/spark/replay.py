"""Replay an archive on Spark: pieces of time computed at the same time, their lines in order.

Only finished lines cross to the driver, some pieces at a time, so memory does not grow with the archive.
"""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from pyspark.sql import SparkSession

from tailrace.pipeline.replay import PieceLines, ReplayJob, lines_of
from tailrace.pipeline.streams.planning import StreamInterval

_PIECES_PER_CORE: Final = 2
_WAVES: Final = 2
"""One is computed while the lines of the other are written."""


def replay_pieces(
    spark: SparkSession, job: ReplayJob, intervals: list[StreamInterval]
) -> Iterator[PieceLines]:
    """Return the pieces' lines in order; the last one is over, has failed, or is the end of the archive."""
    context = spark.sparkContext
    size = context.defaultParallelism * _PIECES_PER_CORE
    waves = deque(intervals[start : start + size] for start in range(0, len(intervals), size))

    def run(wave: list[StreamInterval]) -> list[PieceLines]:
        found: list[PieceLines] = (
            context.parallelize(wave, len(wave)).map(lambda piece: lines_of(job, piece)).collect()
        )
        return found

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
                context.cancelAllJobs()
