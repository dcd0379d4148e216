"""The head of a source whose own change stream is read, because its oplog may not be."""

from tailrace.events.cluster_time import ClusterTime
from tailrace.events.recovered.entries import UnrecoverableEventError
from tailrace.events.stages.lookups import Rebuild
from tailrace.log.event_log import EntryItem, Slice
from tailrace.mongod.front.questions import Questions
from tailrace.mongod.front.source_head import SourceHead
from tailrace.mongod.front.source_shard import SourceShard
from tailrace.mongod.front.source_store import SourceStore
from tailrace.sources.conditions import EVERYTHING
from tailrace.sources.recorded.stream_oplog import StreamOplog

_SECOND = 1 << 32


class RecordedStore(SourceStore):
    """See `SourceStore`. How far back a stream can begin is found by trying."""

    def __init__(self, source: SourceShard, questions: Questions, rebuild: Rebuild | None = None) -> None:
        super().__init__(source, questions, rebuild=rebuild)
        assert isinstance(source.oplog, StreamOplog)
        self.stream = source.oplog
        self._since: ClusterTime | None = None

    def refresh_oldest(self) -> None:
        """See `SourceStore`; found to the second, but exactly for what was not delivered yet."""
        self._since = since = self.stream.oldest_since(self._since)
        lost = max(since - _SECOND, 0)
        if lost < self.last_committed < since and not self.stream.can_start(self.last_committed):
            lost = self.last_committed
        self.truncated_through = lost


class RecordedHead(SourceHead):
    """See `SourceHead`."""

    def __init__(self, store: RecordedStore) -> None:
        super().__init__(store)
        self.is_recorded = True
        self._stream = store.stream

    def check_start(self, start: int) -> None:
        """See `EventLog`; the source is asked for exactly this time."""
        if start <= self._begins_after:
            self._source_store.questions.ask(self._stream.check_start, start)

    def _load(self, after: int, end: int) -> Slice:
        """See `HeadLog`; ends before an event that cannot be recorded, and raises its error there."""
        try:
            return super()._load(after, end)
        except UnrecoverableEventError as error:
            last = error.time - 1
            found = self._source_store.questions.ask(self._entries, after, last) if last > after else ()
            if not found:
                raise
            return Slice([EntryItem(self._part.read(raw)) for raw in found], last)

    def _entries(self, after: int, through: int) -> tuple[bytes, ...]:
        pieces = self._stream.entries(after, through, EVERYTHING)
        return tuple(entry for entries in pieces for entry in entries)
