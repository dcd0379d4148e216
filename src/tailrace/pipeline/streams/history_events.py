"""Streams on a history: canonical events as the pipeline wrote them, and the view part on top."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.events.promise import Promise, promise
from tailrace.events.stages.check_invalidate import INVALIDATING
from tailrace.events.stages.plan import Plan
from tailrace.events.stream_release import StreamRelease
from tailrace.lake.data_file import AddedFile
from tailrace.lake.schema import STREAM_COLUMNS, time_of, times_of
from tailrace.lake.storage.store_options import store_options
from tailrace.lake.table import HistoryTable
from tailrace.pipeline.streams.event_source import EventSource, StreamRun
from tailrace.pipeline.streams.history_run import HistoryRun
from tailrace.pipeline.streams.row_condition import ALL_ROWS, RowCondition

_PIECE_ROWS: Final = 1024
_PART_BYTES: Final = 16 << 20
_NAMED_ROWS: Final = 8192
_NAMES: Final = ("operation", "db", "coll")
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
        size = sum(file.size for file in self._files(after, through))
        return max(size // _PART_BYTES, 1)

    def narrowed(self, after: int, through: int, condition: RowCondition) -> tuple[int, int]:
        """By the wall times of the files."""
        if not condition.has_walls:
            return after, through
        files = [file for file in self._files(after, through) if _has_walls(file, condition)]
        if not files:
            return after, after
        return max(after, files[0].first_time - 1), min(through, files[-1].last_time)

    def _files(self, after: int, through: int) -> list[AddedFile]:
        return [file for file in self._table().files if file.last_time > after and file.first_time <= through]

    def run(
        self,
        plan: Plan,
        after: int,
        through: int,
        *,
        commands_only: bool = False,
        condition: RowCondition = ALL_ROWS,
    ) -> StreamRun:
        table = self._table()

        def read(batch_rows: int) -> Iterator[pa.RecordBatch]:
            if commands_only:
                yield from _commands(table, after, through)
                return
            columns = (*STREAM_COLUMNS, "wall_time") if condition.has_walls else STREAM_COLUMNS
            for start, end in self._wanted(table, after, through, condition):
                yield from table.read(start, end, columns=columns, batch_rows=batch_rows)

        return HistoryRun(plan, read, through, self._documents, condition)

    def _wanted(
        self, table: HistoryTable, after: int, through: int, condition: RowCondition
    ) -> Iterator[tuple[int, int]]:
        """The parts of an interval that have rows that may meet a condition."""
        parts = [(after, through)]
        if condition.has_walls:
            parts = [
                (max(after, file.first_time - 1), min(through, file.last_time))
                for file in self._files(after, through)
                if _has_walls(file, condition)
            ]
        for start, end in parts:
            if condition.has_names:
                yield from _named(table, start, end, condition)
            else:
                yield start, end


def _has_walls(file: AddedFile, condition: RowCondition) -> bool:
    if file.first_wall is None or file.last_wall is None:
        return False  # no row has one
    return file.first_wall <= condition.last_wall and file.last_wall >= condition.first_wall


def _named(
    table: HistoryTable, after: int, through: int, condition: RowCondition
) -> Iterator[tuple[int, int]]:
    """The parts in which names occur; the other columns of the rest are not read."""
    start, end = after, after
    for batch in table.read(after, through, columns=_NAMES, batch_rows=_NAMED_ROWS):
        last = time_of(batch, batch.num_rows - 1)
        if condition.wanted_names(batch):
            end = last
            continue
        if end > start:
            yield start, end
        start = end = last
    if end > start:
        yield start, end


def _commands(table: HistoryTable, after: int, through: int) -> Iterator[pa.RecordBatch]:
    """The rows that may end a stream; of the others only their type is read."""
    for batch in table.read(after, through, columns=("operation",)):
        operation = batch.column("operation").cast(pa.string())
        for time in times_of(batch.filter(pc.is_in(operation, value_set=_INVALIDATING))).tolist():
            yield from table.read(time - 1, time)
