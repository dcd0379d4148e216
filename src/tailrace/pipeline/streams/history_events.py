"""Streams on a history: canonical events as the pipeline wrote them, and the view part on top.

A query is planned from the table's log, which has the rows and times of each file, and from a few footers.
Only files with drops and renames are read, because those may end a stream.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import lru_cache
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.events.change_event import ChangeEvent
from tailrace.events.promise import Promise, promise
from tailrace.events.recovered.served import is_recorded
from tailrace.events.scope import Scope
from tailrace.events.stages.lookups import Rebuild
from tailrace.events.stages.plan import Plan
from tailrace.events.stream_release import StreamRelease
from tailrace.lake.files.file_list import FileList
from tailrace.lake.files.reading import FileView, read_rows
from tailrace.lake.past.rebuilt_images import VersionsOfHistory
from tailrace.lake.past.versions import DocumentVersions
from tailrace.lake.row_kinds import commands_of
from tailrace.lake.schema import STREAM_COLUMNS, time_of, times_of
from tailrace.lake.storage.log_store import LogStore, open_store
from tailrace.lake.storage.store_options import store_options
from tailrace.lake.table import HistoryTable
from tailrace.namespaces import KeptPeriods
from tailrace.pipeline.streams.event_source import EventSource, StreamRun
from tailrace.pipeline.streams.history_run import HistoryRun
from tailrace.pipeline.streams.history_volume import HistoryVolume
from tailrace.pipeline.streams.row_condition import ALL_ROWS, RowCondition

_PART_BYTES: Final = 16 << 20
_LARGE_PART_BYTES: Final = 128 << 20
_FEW_PARTS: Final = 64
_MOST_PARTS: Final = 10_000
_NAMED_ROWS: Final = 8192
_NAMES: Final = ("operation", "db", "coll")


@lru_cache(maxsize=2)
def _versions(
    path: str, options: tuple[tuple[str, str], ...], _facts: tuple[str, ...], database: str | None
) -> VersionsOfHistory:
    """The versions of documents, read once for all tasks of this process; ``_facts`` are the history's."""
    return VersionsOfHistory(HistoryTable.open(path, dict(options)), DocumentVersions(), database)


class HistoryEvents(EventSource):
    """The events of a table; it is opened where it is used, and stays open."""

    def __init__(
        self,
        path: str,
        documents: Mapping[str, tuple[str, ...]] | None = None,
        store_file: str | None = None,
        *,
        rebuilds_images: bool = False,
    ) -> None:
        """``documents`` are dumps of collections by namespace, for streams that show current documents.

        ``store_file`` has the options of an object store; by default the environment has them. With
        ``rebuilds_images``, streams show images that the deployment did not store.
        """
        self._path = path
        self._rebuilds_images = rebuilds_images
        self._options = store_options(store_file)  # for executors, which may have none of their own
        self._documents = documents or {}
        self._opened: HistoryTable | None = None
        self._given: FileList | None = None
        self._table()  # a folder that is no history is refused now

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def _table(self) -> HistoryTable:
        """The table at its newest version."""
        if self._opened is None:
            self._opened = HistoryTable.open(self._path, self._options)
        else:
            self._opened.refresh()
        return self._opened

    @property
    def is_cluster(self) -> bool:
        """A table does not show it; what a router forbids does no harm here."""
        return False

    def release(self) -> StreamRelease:
        """That of the deployment when the history was created."""
        return self._table().release

    @property
    def is_recorded(self) -> bool:
        return is_recorded(self._table().identity)

    @property
    def kept(self) -> KeptPeriods:
        return self._table().kept

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
        return HistoryVolume(self._table()).cuts(after, through, parts)

    def limited(self, after: int, through: int, max_entries: int, max_bytes: int) -> int:
        """Count rows, with the size of an average row."""
        table = self._table()
        usual = max(table.size // max(table.rows, 1), 1)
        return HistoryVolume(table).limit(after, through, min(max_entries, max(max_bytes // usual, 1)))

    def suggested_parts(self, after: int, through: int) -> int:
        """One for every few megabytes of files; larger ones if there would be many."""
        size = self._table().files.between(after, through).size
        few = min(size // _PART_BYTES, _FEW_PARTS)
        many = min(size // _LARGE_PART_BYTES, _MOST_PARTS)
        return max(few, many, 1)

    def narrowed(self, after: int, through: int, condition: RowCondition) -> tuple[int, int]:
        """By the wall times of the files."""
        if not condition.has_walls:
            return after, through
        files = _with_walls(self._table().files.between(after, through), condition)
        if not files:
            return after, after
        return max(after, files[0].first_time - 1), min(through, files[-1].last_time)

    def given(self, after: int, through: int) -> FileList:
        """The files of an interval: a task does not read the log, which may be long."""
        table = self._opened or self._table()  # as it was when the interval was planned
        return table.files.between(after, through)

    def with_given(self, given: FileList) -> Self:
        source = copy(self)
        source._given = given
        return source

    def _view(self) -> FileView:
        return self._table() if self._given is None else _GivenFiles(self._path, self._options, self._given)

    def run(
        self,
        plan: Plan,
        after: int,
        through: int,
        *,
        commands_only: bool = False,
        condition: RowCondition = ALL_ROWS,
    ) -> StreamRun:
        view = self._view()

        def read(batch_rows: int) -> Iterator[pa.RecordBatch]:
            if commands_only:
                yield from _commands(view, after, through)
                return
            columns = (*STREAM_COLUMNS, "wall_time") if condition.has_walls else STREAM_COLUMNS
            for start, end in _wanted(view, after, through, condition):
                yield from read_rows(view, start, end, columns=columns, batch_rows=batch_rows)

        return HistoryRun(plan, read, through, self._documents, condition, self._rebuild(plan.scope, through))

    def _rebuild(self, scope: Scope, through: int) -> Rebuild | None:
        """What finds pre-images that the history does not have, if it shall."""
        if not self._rebuilds_images:
            return None

        def rebuild(events: Sequence[ChangeEvent]) -> Sequence[bytes | None]:
            table = self._table()
            options = tuple(sorted(self._options.items()))
            facts = (table.identity, table.kept.to_text())
            return _versions(self._path, options, facts, scope.db or None).rebuild(events, through)

        return rebuild


class _GivenFiles:
    """The files of a task; the log is read only if one of them is gone."""

    def __init__(self, path: str, options: Mapping[str, str], files: FileList) -> None:
        self._path = path
        self._options = options
        self.files = files
        self.store: LogStore = open_store(path, options)

    def refresh(self) -> None:
        self.files = HistoryTable.open(self._path, self._options).files


def _wanted(view: FileView, after: int, through: int, condition: RowCondition) -> Iterator[tuple[int, int]]:
    """The parts of an interval that have rows that may meet a condition."""
    parts = [(after, through)]
    if condition.has_walls:
        files = _with_walls(view.files.between(after, through), condition)
        parts = [(max(after, file.first_time - 1), min(through, file.last_time)) for file in files]
    for start, end in parts:
        if condition.has_names:
            yield from _named(view, start, end, condition)
        else:
            yield start, end


def _with_walls(files: FileList, condition: RowCondition) -> FileList:
    """The files with wall times that meet a condition; one without wall times has no such row."""

    def meets(columns: pa.RecordBatch) -> pa.Array:
        begins = pc.less_equal(columns["first_wall"], condition.last_wall)
        return pc.fill_null(
            pc.and_(begins, pc.greater_equal(columns["last_wall"], condition.first_wall)), False
        )

    return files.where(meets)


def _named(view: FileView, after: int, through: int, condition: RowCondition) -> Iterator[tuple[int, int]]:
    """The parts in which names occur; the other columns of the rest are not read."""
    start, end = after, after
    for batch in read_rows(view, after, through, columns=_NAMES, batch_rows=_NAMED_ROWS):
        last = time_of(batch, batch.num_rows - 1)
        if condition.wanted_names(batch):
            end = last
            continue
        if end > start:
            yield start, end
        start = end = last
    if end > start:
        yield start, end


def _commands(view: FileView, after: int, through: int) -> Iterator[pa.RecordBatch]:
    """The rows that may end a stream; files without any are not read, of the others only the type."""

    def may_have(columns: pa.RecordBatch) -> pa.Array:
        return pc.not_equal(pc.fill_null(columns["commands"], 1), 0)

    for file in view.files.between(after, through).where(may_have):
        start, end = max(after, file.first_time - 1), min(through, file.last_time)
        for batch in read_rows(view, start, end, columns=("operation",)):
            for time in times_of(commands_of(batch)).tolist():
                yield from read_rows(view, time - 1, time, columns=STREAM_COLUMNS)
