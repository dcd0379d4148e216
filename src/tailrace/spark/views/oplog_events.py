"""Streams on oplogs: the local engine, fed shard by shard."""

from collections.abc import Iterator

from tailrace.eventlog.local_engine import LocalEngine
from tailrace.model.oplog_entry import parse_entry
from tailrace.spark.oplogs.files import FilesSource
from tailrace.spark.oplogs.source import OplogSource
from tailrace.spark.views.event_source import EventSource, Rows, Run
from tailrace.stages.plan import Plan
from tailrace.store.archive_entries import entry_time

_COMMAND = b"\x02op\0\x02\0\0\0c\0"


class OplogEvents(EventSource):
    """Both parts of the pipeline, fused: the stream's filter is asked before anything else is done."""

    def __init__(self, source: OplogSource) -> None:
        self._source = source

    @property
    def is_cluster(self) -> bool:
        """Whether the shards have names."""
        return self._source.shards() != ("",)

    def oldest(self) -> int:
        """See `OplogSource`."""
        return self._source.oldest()

    def earliest(self) -> int:
        """Before the first entry; the shards' archives may begin at different times."""
        return 0 if isinstance(self._source, FilesSource) else self._source.start_of(self._source.oldest())

    def promised(self) -> int:
        """See `OplogSource`."""
        return self._source.promised()

    def split(self, after: int, through: int, parts: int) -> list[int]:
        """See `OplogSource`."""
        return self._source.split(after, through, parts)

    def limited(self, after: int, through: int, max_entries: int, max_bytes: int) -> int:
        """See `OplogSource`."""
        return self._source.limited(after, through, max_entries, max_bytes)

    def run(self, plan: Plan, after: int, through: int, *, commands_only: bool = False) -> Run:
        """A local engine on the entries of an interval."""
        shards = self._source.shards()
        lookups = {shard: self._source.lookups(shard, after, through) for shard in shards}
        engine = LocalEngine(plan, lookups, from_oldest=False)
        read = self._commands if commands_only else self._source.entries
        return EngineRun(engine, {shard: read(shard, after, through) for shard in shards}, after)

    def close(self) -> None:
        """Close connections and files."""
        self._source.close()

    def _commands(self, shard: str, after: int, through: int) -> Iterator[list[bytes]]:
        for entries in self._source.entries(shard, after, through):
            # Documents may hold these bytes too, so they are a first sieve only.
            yield [raw for raw in entries if _COMMAND in raw and parse_entry(raw).head.op == "c"] or []


class EngineRun(Run):
    """A local engine and what it is fed with."""

    def __init__(self, engine: LocalEngine, feeds: dict[str, Iterator[list[bytes]]], after: int) -> None:
        self._engine = engine
        self._feeds = feeds
        self._after = after

    @property
    def is_invalidated(self) -> bool:
        """See `Run`."""
        return self._engine.done

    @property
    def has_resumed(self) -> bool:
        """See `Run`."""
        return self._engine.has_resumed

    def rows(self) -> Rows:
        """Feed the shard that is furthest behind until all are read or the stream is over."""
        engine = self._engine
        positions = dict.fromkeys(self._feeds, self._after)
        while positions and not engine.done:
            shard = min(positions, key=positions.__getitem__)
            entries = next(self._feeds[shard], None)
            if entries is None:
                del positions[shard]
                engine.finish(shard)
            elif entries:
                positions[shard] = entry_time(entries[-1])
                engine.push(shard, entries)
            while rows := engine.drain_rows():
                yield [*rows]
