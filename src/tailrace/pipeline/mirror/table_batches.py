"""What a batch of changes does to one table: its tasks, and what is made of their results.

The files of changed rows are written again, or changed rows are marked dead and new ones are in runs, if the
table has deletion vectors. A table that is copied, or was cleared, has neither dead rows nor runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from tailrace.lake.mirror.data_files import MirrorFile
from tailrace.lake.mirror.grouping import FileChanges
from tailrace.lake.mirror.marking import WrittenFiles, compact, mark_changes, remarked
from tailrace.lake.mirror.mirror_table import MirrorTable
from tailrace.lake.mirror.roaring import Rows
from tailrace.lake.mirror.runs import Compaction, changes_by_range, compactions, last_key
from tailrace.lake.mirror.typed_rows import TableColumns, TypedRows
from tailrace.lake.storage.log_store import open_store
from tailrace.pipeline.mirror.lacking import TableChanges, groups_of, joined_past
from tailrace.pipeline.mirror.tasks import BuiltFiles, MergeTask, RunTasks, Task, run_one_by_one

_KEY_BYTES: Final = 16
_SMALL_BYTES: Final = 16 << 20
"""Files up to this size are written again by the driver: starting a task costs more."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What is the same for the tables of a batch, but for `is_settling`."""

    through: int
    file_bytes: int
    cores: int
    is_settling: bool
    """Whether documents may be missing that a change updates"""

    @property
    def name(self) -> str:
        """What the names of new files begin with."""
        return f"merge-{self.through:016x}"


@dataclass(frozen=True, slots=True)
class Merged:
    """What a commit changes."""

    built: list[BuiltFiles]
    """New files, whose columns may be more than those of the table"""
    added: list[MirrorFile]
    removed: list[MirrorFile]


class TableBatch(Protocol):
    @property
    def tasks(self) -> Sequence[Task]: ...
    @property
    def size(self) -> int:
        """About how many bytes the tasks read."""

    def merged(self, results: Sequence[Any]) -> Merged:
        """What the commit changes, after the tasks have run."""


def table_batch(table: MirrorTable, lacking: TableChanges, limits: BatchLimits, run: RunTasks) -> TableBatch:
    """What a batch does to a table; ``run`` runs tasks that follow from the results of others."""
    is_whole = lacking.before.is_complete and lacking.state.is_complete and not lacking.is_cleared
    if table.has_vectors and is_whole:
        return MarkingBatch(table, lacking, limits, run)
    return RewritingBatch(table, lacking, limits)


class RewritingBatch:
    """Writes the files again that have changed rows."""

    def __init__(self, table: MirrorTable, lacking: TableChanges, limits: BatchLimits) -> None:
        self._table = table
        self._is_cleared = lacking.is_cleared
        self._groups = groups_of(table, lacking)
        self.tasks = [
            MergeTask(
                places=table.places,
                options=table.store.delta_options,
                group=group,
                name=limits.name,
                is_settling=limits.is_settling,
                file_bytes=limits.file_bytes,
                columns=table.columns,
            )
            for group in self._groups
        ]

    @property
    def size(self) -> int:
        return sum(group.size for group in self._groups)

    def merged(self, results: Sequence[BuiltFiles]) -> Merged:
        written = [file for group in self._groups for file in group.files]
        removed = list(self._table.live) if self._is_cleared else written
        small, joined = joined_past(self._table)
        return Merged(list(results), joined, [*removed, *small])


@dataclass(frozen=True, slots=True)
class MarkedRows:
    """What a task of a table with deletion vectors reports."""

    built: BuiltFiles
    dead: Mapping[str, Rows]
    """Further dead rows of files, by path"""

    @classmethod
    def of(cls, written: WrittenFiles, typed: TypedRows) -> "MarkedRows":
        return cls(BuiltFiles(tuple(written.files), typed.found), written.dead)


@dataclass(frozen=True, slots=True)
class MarkTask:
    """Applies changes to some files of a table, and writes what is new."""

    place: str
    options: Mapping[str, str] | None
    group: FileChanges
    after: bytes
    limits: BatchLimits
    columns: TableColumns

    def __call__(self) -> MarkedRows:
        typed = TypedRows(self.columns)
        written = mark_changes(
            open_store(self.place, self.options),
            self.group.files,
            self.group.changes,
            typed,
            name=self.limits.name,
            after=self.after,
            target_bytes=self.limits.file_bytes,
            is_settling=self.limits.is_settling,
        )
        return MarkedRows.of(written, typed)


@dataclass(frozen=True, slots=True)
class CompactTask:
    """Writes some files again, without their dead rows."""

    place: str
    options: Mapping[str, str] | None
    compaction: Compaction
    dead: Mapping[str, Rows]
    limits: BatchLimits
    columns: TableColumns

    def __call__(self) -> MarkedRows:
        typed = TypedRows(self.columns)
        written = compact(
            open_store(self.place, self.options),
            self.compaction,
            self.dead,
            typed,
            name=self.limits.name,
            target_bytes=self.limits.file_bytes,
        )
        return MarkedRows.of(written, typed)


class MarkingBatch:
    """Marks changed rows dead, and writes new ones to runs; some files are written again: runs stay few."""

    def __init__(self, table: MirrorTable, lacking: TableChanges, limits: BatchLimits, run: RunTasks) -> None:
        self._table = table
        self._run = run
        self._limits = limits
        self._changes = len(lacking.changes)
        self._live = table.live
        self._groups = changes_by_range(self._live, lacking.changes, limits.cores)
        after = last_key(self._live)
        options, columns = table.store.delta_options, table.columns
        self.tasks = [MarkTask(table.place, options, group, after, limits, columns) for group in self._groups]

    @property
    def size(self) -> int:
        keys = sum(_KEY_BYTES * file.rows for group in self._groups for file in group.files)
        return keys + sum(len(change.payload) for group in self._groups for change in group.changes)

    def merged(self, results: Sequence[MarkedRows]) -> Merged:
        table = self._table
        dead = _together([result.dead for result in results])
        # The rows that the batch has just written are left where they are: the next ones will see to them.
        again = compactions(self._live, dead, self._changes)
        tasks = [self._compact_task(compaction, dead) for compaction in again]
        is_small = sum(compaction.size for compaction in again) < _SMALL_BYTES
        compacted: list[MarkedRows] = list((run_one_by_one if is_small else self._run)(tasks))
        dead = _together([dead, *(result.dead for result in compacted)])
        gone = {file.path for each in again for file in (*each.base, *(each.runs if each.is_run else ()))}
        left = [file for file in self._live if file.path not in gone]
        added, changed = remarked(table.store, left, dead)
        removed = [file for file in self._live if file.path in gone] + changed
        return Merged([result.built for result in (*results, *compacted)], added, removed)

    def _compact_task(self, compaction: Compaction, dead: Mapping[str, Rows]) -> CompactTask:
        table = self._table
        paths = {file.path for file in (*compaction.base, *compaction.runs)}
        further = {path: rows for path, rows in dead.items() if path in paths}
        options = table.store.delta_options
        return CompactTask(table.place, options, compaction, further, self._limits, table.columns)


def _together(found: Sequence[Mapping[str, Rows]]) -> dict[str, Rows]:
    """The rows of each file that are in any of these."""
    joined: dict[str, list[Rows]] = {}
    for each in found:
        for path, rows in each.items():
            joined.setdefault(path, []).append(rows)
    return {path: np.unique(np.concatenate(rows)) for path, rows in joined.items()}
