"""Streams on a history: canonical events as the pipeline wrote them, and the view part on top."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.events.change_event import ChangeEvent
from tailrace.events.promise import Promise, promise
from tailrace.events.stages.check_invalidate import INVALIDATING
from tailrace.events.stages.lookups import Lookups
from tailrace.events.stages.plan import Plan
from tailrace.events.stream_release import StreamRelease
from tailrace.lake.schema import time_of, times_of
from tailrace.lake.storage.store_options import store_options
from tailrace.lake.table import HistoryTable
from tailrace.log.event_log import EventLog, LogItem, Slice, VerbatimRun
from tailrace.log.recorded import RecordedItem, RowReader
from tailrace.log.stream import LogStream
from tailrace.pipeline.streams.event_source import EventSource, Rows, StreamRun
from tailrace.sources.archives.document_files import DocumentFiles

_PIECE_ROWS: Final = 1024
_TAKEN_ROWS: Final = 4096
_TAKEN_BYTES: Final = 16 << 20
_INVALIDATING: Final = pa.array(sorted(frozenset().union(*INVALIDATING.values())))


class HistoryEvents(EventSource):
    """The events of a table; it is opened where it is used."""

    def __init__(
        self,
        path: str,
        documents: Mapping[str, tuple[str, ...]] | None = None,
        store_file: str | None = None,
    ) -> None:
        """``documents`` are dumps of collections by namespace, for streams that show current documents.

        ``store_file`` has the options of an object store; by default the environment has them.
        """
        self._path = path
        self._options = store_options(store_file)  # for executors, which may have none of their own
        self._documents = documents or {}
        self._table()  # a folder that is no history is refused now

    def _table(self) -> HistoryTable:
        return HistoryTable.open(self._path, self._options)

    @property
    def is_cluster(self) -> bool:
        """A table does not show it; what a router forbids does no harm here."""
        return False

    def release(self) -> StreamRelease:
        """That of the deployment when the history was created."""
        return self._table().release

    def oldest(self) -> int:
        """Right after the cluster time the table begins with."""
        begins = self._table().begins
        return begins + 1 if begins else 0

    def earliest(self) -> int:
        return self._table().begins

    def promised(self) -> Promise:
        """The end of the newest commit."""
        return promise(self._table().through)

    def split(self, after: int, through: int, parts: int) -> list[int]:
        """Cut between files, and inside of a file by its rows."""
        if parts < 2 or through <= after:
            return []
        batches = self._table().read(after, through, columns=(), batch_rows=_PIECE_ROWS)
        times = [time_of(batch, batch.num_rows - 1) for batch in batches]
        wanted = [
            times[len(times) * part // parts - 1] for part in range(1, parts) if len(times) * part >= parts
        ]
        return sorted({time for time in wanted if after < time < through})

    def limited(self, after: int, through: int, max_entries: int, max_bytes: int) -> int:
        """Count rows, with the size of an average row."""
        table = self._table()
        usual = max(table.size // max(table.rows, 1), 1)
        room = min(max_entries, max(max_bytes // usual, 1))
        times: list[int] = []
        for batch in table.read(after, through, columns=()):
            times += times_of(batch).tolist()
            if len(times) > room:
                # A cluster time is never divided, and the first one is always taken.
                before = bisect_left(times, times[room])
                return times[before - 1] if before else times[0]
        return through

    def suggested_parts(self, after: int, through: int) -> int:
        """One for every few megabytes of files."""
        size = sum(
            file.size for file in self._table().files if file.last_time > after and file.first_time <= through
        )
        return max(size // _TAKEN_BYTES, 1)

    def run(self, plan: Plan, after: int, through: int, *, commands_only: bool = False) -> StreamRun:
        table = self._table()
        batches = (
            _commands(table, after, through)
            if commands_only
            else table.read(after, through, batch_rows=_PIECE_ROWS)
        )
        return HistoryRun(plan, batches, through, self._documents)


def _commands(table: HistoryTable, after: int, through: int) -> Iterator[pa.RecordBatch]:
    """The rows that may end a stream; of the others only their type is read."""
    for batch in table.read(after, through, columns=("operation",)):
        operation = batch.column("operation").cast(pa.string())
        for time in times_of(batch.filter(pc.is_in(operation, value_set=_INVALIDATING))).tolist():
            yield from table.read(time - 1, time)


class HistoryRun(StreamRun):
    """One stream on the rows of an interval."""

    def __init__(
        self,
        plan: Plan,
        batches: Iterator[pa.RecordBatch],
        through: int,
        documents: Mapping[str, tuple[str, ...]],
    ) -> None:
        self._documents = DocumentFiles({name: list(paths) for name, paths in documents.items()})
        log = _IntervalLog(batches, through)
        self._stream = LogStream(plan, log, {"": Lookups(document=self._documents.find)})

    @property
    def is_invalidated(self) -> bool:
        return self._stream.is_done

    @property
    def has_resumed(self) -> bool:
        return self._stream.has_resumed

    def rows(self) -> Rows:
        with self._documents:
            while self._stream.is_behind and not self._stream.is_done:
                rows = self._stream.take(_TAKEN_ROWS, _TAKEN_BYTES)
                if rows:
                    yield rows
            # Raises the error, or notices the end, if the last rows filled a batch.
            self._stream.take(1, 1)


class _IntervalLog(EventLog):
    """The rows of one interval, read once from their beginning to their end."""

    def __init__(self, batches: Iterator[pa.RecordBatch], through: int) -> None:
        super().__init__({"": Lookups()})
        self._batches = batches
        self._through = promise(through)
        self._reader = RowReader()
        self._items: list[RecordedItem] = []

    @property
    def newest(self) -> Promise:
        """The end of the interval."""
        return self._through

    def check_start(self, start: int) -> None:
        """Done by the planner."""

    def check_place(self, after: int) -> None:
        """A file that is removed while it is read is another error."""

    def read(self, after: int) -> Slice:
        """Return what is left of the last piece, or the next one."""
        items = [item for item in self._items if item.ts > after]
        while not items:
            batch = next(self._batches, None)
            if batch is None:
                self._items = []
                return Slice((), self._through)
            items = [item for item in self._reader.items(batch) if item.ts > after]
        if items[0].begins <= after:
            items[:1] = items[0].after(after)
        self._items = items
        return Slice(items, items[-1].ts)

    def run_of(self, item: LogItem) -> VerbatimRun | None:
        assert isinstance(item, RecordedItem)
        return item.run

    def events_of(self, item: LogItem) -> Sequence[ChangeEvent]:
        assert isinstance(item, RecordedItem)
        for event in item.events:
            event.shard = ""  # all shards have the same look-ups here
        return item.events
