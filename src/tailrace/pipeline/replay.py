"""Replay a whole archive as one stream, in pieces that can be computed at the same time.

A piece is a local engine on an interval of all shards. Whether the event that the stream was resumed after
was found, which a piece cannot know, is found before the first one runs (`streams/planning.py`).

An error in a piece ends the pieces without a message: the caller replays from there in its own process, which
shows what is wrong and where.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tailrace.bson.extjson import dumps_canonical
from tailrace.errors import CommandError, DamagedInputError
from tailrace.events.stages.plan import Plan
from tailrace.log.local_engine import LocalEngine
from tailrace.pipeline.streams.oplog_events import EngineRun, OplogEvents
from tailrace.pipeline.streams.planning import StreamInterval, StreamPlanner
from tailrace.pipeline.streams.stream_spec import StreamSpec, goes_on_after
from tailrace.sources.archives.files import FilesSource

PIECE_BYTES: Final = 8 << 20
"""Oplog bytes of a piece: its lines are several times as large, and some pieces are in memory at a time."""


@dataclass(frozen=True)
class ReplayJob:
    """What a task needs; can be pickled."""

    source: FilesSource
    spec: StreamSpec
    variables: Mapping[str, Any]
    """Those of the moment at which the stream was opened: the same in all pieces."""

    def plan(self, interval: StreamInterval) -> Plan:
        """Return the stream as it continues in an interval."""
        plan = replace(self.spec.open(), variables=self.variables)
        return goes_on_after(plan, interval.after) if interval.has_resumed else plan

    def intervals(self, piece_bytes: int = PIECE_BYTES) -> list[StreamInterval] | None:
        """Return the pieces in order; None if the archive does not go back to the start of the stream."""
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
    """The events of one piece as lines of Extended JSON."""

    interval: StreamInterval
    lines: bytes = b""
    events: int = 0
    entries: int = 0
    """How many entries were read."""
    is_over: bool = False
    """Whether the stream was invalidated."""
    has_failed: bool = False
    """Whether there is an error in this piece; then there are no lines."""


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
