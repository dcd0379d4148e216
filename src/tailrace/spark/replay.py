"""A whole archive as one stream: pieces of time computed at the same time, their lines handed on in order.

A piece is a local engine on an interval of all shards. What a piece cannot tell by itself, whether the event
that the stream was resumed after was found, is known before the first one runs (`views/planning.py`). Only
finished lines cross to the driver, some pieces at a time, so memory stays flat whatever the archive's size.

Whatever goes wrong in a piece ends the pieces: the caller goes on from there by other means, which say what
is wrong and where.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final

from pyspark.sql import SparkSession

from tailrace.bson.extjson import dumps_canonical
from tailrace.errors import CommandError, DamagedInputError
from tailrace.events.stages.plan import Plan
from tailrace.log.local_engine import LocalEngine
from tailrace.pipeline.streams.oplog_events import EngineRun, OplogEvents
from tailrace.pipeline.streams.planning import StreamInterval, StreamPlanner
from tailrace.pipeline.streams.stream_spec import StreamSpec, goes_on_after
from tailrace.sources.archives.files import FilesSource

PIECE_BYTES: Final = 8 << 20
"""Oplog bytes of a piece: its lines are several times as large, and some pieces are in memory at a time"""
_PIECES_PER_CORE: Final = 2
_WAVES: Final = 2
"""One is computed while the lines of the other are written"""


@dataclass(frozen=True)
class ReplayJob:
    """What a task has to know; can be pickled."""

    source: FilesSource
    spec: StreamSpec
    variables: Mapping[str, Any]
    """of the moment at which the stream was opened: the same in all pieces"""

    def plan(self, interval: StreamInterval) -> Plan:
        """The stream as it goes on in an interval."""
        plan = replace(self.spec.open(), variables=self.variables)
        return goes_on_after(plan, interval.after) if interval.has_resumed else plan

    def intervals(self, piece_bytes: int = PIECE_BYTES) -> list[StreamInterval] | None:
        """The pieces in order; None if the archive does not go back to where the stream starts."""
        source = OplogEvents(self.source)
        planner = StreamPlanner(self.spec, source)
        start = planner.start
        if start is not None and source.oldest() > start:
            return None
        return planner.intervals(
            0 if start is None else max(start - 1, 0),
            source.promised(),
            max(self.source.size // piece_bytes, 1),
            has_resumed=start is None,
            finds_event=planner.finds_event(),
        )


@dataclass(frozen=True)
class PieceLines:
    """The events of one piece, written out."""

    interval: StreamInterval
    lines: bytes = b""
    events: int = 0
    entries: int = 0
    """how many entries were read"""
    is_over: bool = False
    """whether the stream was invalidated"""
    has_failed: bool = False
    """whether there is an error in this piece; then there are no lines"""


def lines_of(job: ReplayJob, interval: StreamInterval) -> PieceLines:
    """Compute one piece; in a task."""
    source, after, through = job.source, interval.after, interval.through
    counter = _Counter()
    shards = source.shards()
    lookups = {shard: source.lookups(shard, after, through) for shard in shards}
    feeds = {shard: counter.count(source.entries(shard, after, through)) for shard in shards}
    engine = LocalEngine(job.plan(interval), lookups, from_oldest=False)
    lines: list[str] = []
    try:
        for rows in EngineRun(engine, feeds, after).rows():
            lines += [dumps_canonical(row.raw) for row in rows]
    except (CommandError, DamagedInputError, RecursionError):
        return PieceLines(interval, has_failed=True)
    text = "".join([line + "\n" for line in lines]).encode()
    return PieceLines(interval, text, len(lines), counter.entries, is_over=engine.done)


class _Counter:
    def __init__(self) -> None:
        self.entries = 0

    def count(self, batches: Iterator[Sequence[bytes]]) -> Iterator[Sequence[bytes]]:
        for batch in batches:
            self.entries += len(batch)
            yield batch


def replay_pieces(
    spark: SparkSession, job: ReplayJob, intervals: list[StreamInterval]
) -> Iterator[PieceLines]:
    """The pieces' lines in order; the last one is over, has failed, or is the end of the archive."""
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
