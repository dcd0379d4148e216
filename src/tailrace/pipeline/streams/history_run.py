"""One stream on rows of a history, or on rows that are made as those of a history are."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import pyarrow as pa

from tailrace.events.change_event import ChangeEvent
from tailrace.events.layout.fields import verbatim_shape
from tailrace.events.promise import Promise, promise
from tailrace.events.stages.lookups import Lookups, Rebuild
from tailrace.events.stages.plan import Plan
from tailrace.lake.row_kinds import RowKind
from tailrace.lake.schema import time_of
from tailrace.log.event_log import EventLog, LogItem, Slice, VerbatimRun
from tailrace.log.recorded import RecordedItem, RowReader
from tailrace.log.shared_output import AnyRow
from tailrace.log.stream import LogStream
from tailrace.pipeline.streams.event_block import BlockReader, EventBlock
from tailrace.pipeline.streams.event_source import Blocks, Rows, StreamRun
from tailrace.pipeline.streams.row_condition import ALL_ROWS, RowCondition, accepted
from tailrace.sources.archives.document_files import DocumentFiles

Read: TypeAlias = Callable[[int], Iterator[pa.RecordBatch]]
"""(about how many rows at a time): the rows of the interval in order; no cluster time is in two batches"""

_PIECE_ROWS: Final = 1024
_BLOCK_ROWS: Final = 8192
_TAKEN_ROWS: Final = 4096
_TAKEN_BYTES: Final = 16 << 20


class HistoryRun(StreamRun):
    """A stream on the rows of an interval."""

    def __init__(
        self,
        plan: Plan,
        read: Read,
        through: int,
        documents: Mapping[str, tuple[str, ...]] | None = None,
        condition: RowCondition = ALL_ROWS,
        rebuild: Rebuild | None = None,
    ) -> None:
        self._condition = condition
        self._plan = plan
        self._read = read
        self._through = through
        self._documents = DocumentFiles({name: list(paths) for name, paths in (documents or {}).items()})
        self._log = _IntervalLog(through)
        lookups = Lookups(document=self._documents.find, rebuild=rebuild)
        # All shards have the same look-ups here.
        self._stream = LogStream(plan, self._log, defaultdict(lambda: lookups))

    @property
    def is_invalidated(self) -> bool:
        return self._stream.is_done

    @property
    def has_resumed(self) -> bool:
        return self._stream.has_resumed

    def rows(self) -> Rows:
        self._log.batches = self._read(_PIECE_ROWS)
        with self._documents:
            while self._stream.is_behind and not self._stream.is_done:
                rows = self._stream.take(_TAKEN_ROWS, _TAKEN_BYTES)
                if rows:
                    yield rows
            # Raises the error, or notices the end, if the last rows filled a batch.
            self._stream.take(1, 1)

    def blocks(self) -> Blocks:
        """Document changes are shown as stored, all of a batch together; the stream reads the other rows."""
        if not shows_blocks(self._plan):
            yield from accepted(self.rows(), self._condition)
            return
        scope = self._plan.entry_filter().scope
        condition = self._condition

        def sees(kind: RowKind) -> bool | None:
            return condition.sees(kind) and scope.sees_head(kind.head)

        shape = verbatim_shape(expanded=self._plan.options.show_expanded_events, release=self._plan.release)
        reader = BlockReader(sees, shape, self._plan.resume_point().stream_version)
        for batch in self._read(_BLOCK_ROWS):
            stored, writers = reader.parted(batch)
            others = self._shown(stored.others)
            is_over = self._stream.is_done
            last = others[-1].cluster_time if is_over and others else None
            if not condition.is_free:
                others = [row for row in others if condition.accepts(row)]
            wanted = condition.wanted_walls(batch)
            block = stored.block(writers, EventBlock.of(others) if others else None, last, wanted)
            if len(block):
                yield block
            if is_over:
                return
        self._log.through = self._through
        self._stream.take(1, 1)

    def _shown(self, rows: pa.RecordBatch) -> list[AnyRow]:
        """What the stream shows of the next rows."""
        shown: list[AnyRow] = []
        if rows.num_rows:
            self._log.add(rows)
            while self._stream.is_behind and not self._stream.is_done:
                shown += self._stream.take(_TAKEN_ROWS, _TAKEN_BYTES)
        return shown


def shows_blocks(plan: Plan) -> bool:
    """Whether a stream shows nearly all changes as they are stored, from its beginning on."""
    return plan.shows_changes_verbatim


class _IntervalLog(EventLog):
    """The rows of one interval, read once from their beginning to their end."""

    def __init__(self, through: int) -> None:
        super().__init__({"": Lookups()})
        self.through = through
        """Where it ends"""
        self.batches: Iterator[pa.RecordBatch] = iter(())
        self._reader = RowReader()
        self._items: list[RecordedItem] = []

    @property
    def newest(self) -> Promise:
        return promise(self.through)

    def add(self, rows: pa.RecordBatch) -> None:
        """Let the log end with some rows, after those it had."""
        self._items = [RecordedItem(rows, self._reader, None)]
        self.through = time_of(rows, rows.num_rows - 1)

    def check_start(self, start: int) -> None:
        """Done by the planner."""

    def check_place(self, after: int) -> None:
        """A file that is removed while it is read is another error."""

    def read(self, after: int) -> Slice:
        """Return what is left of the last piece, or the next one."""
        items = [item for item in self._items if item.ts > after]
        while not items:
            batch = next(self.batches, None)
            if batch is None:
                self._items = []
                return Slice((), self.newest)
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
        return item.events
