"""Merge small files into large ones, while a pipeline and readers run.

A pipeline that follows a deployment commits a small file many times a second. Files that are neighbours in
the order of tokens are merged into one; the commit that puts it in their place changes no data. A file that
was merged before waits until as much has been written after it, so that no row is rewritten often.

The old files stay for a while, for readers of an older version (`vacuum.py`).
"""

from collections.abc import Iterator, Sequence
from typing import Final
from uuid import uuid4

import pyarrow as pa

from tailrace.lake.checksums import read_verified
from tailrace.lake.commit import change_files
from tailrace.lake.data_file import AddedFile
from tailrace.lake.log_writer import tidy_log
from tailrace.lake.schema import SCHEMA
from tailrace.lake.table import HistoryTable
from tailrace.lake.writer import ROW_GROUP_ROWS, TARGET_BYTES, write_files

SMALL_BYTES: Final = 32 << 20
MIN_FILES: Final = 8
_WHOLE: Final = 1 << 62
"""A merged file is not divided: what goes into it is chosen by size"""


def compact(
    table: HistoryTable,
    *,
    target_bytes: int = TARGET_BYTES,
    small_bytes: int = SMALL_BYTES,
    min_files: int = MIN_FILES,
) -> int:
    """Merge what is worth merging, files of the log included; return how many data files were replaced.

    Files that another process changes meanwhile are left for the next time.
    """
    table.refresh()
    replaced = 0
    for files in candidates(
        table.files, target_bytes=target_bytes, small_bytes=small_bytes, min_files=min_files
    ):
        if _merge(table, files):
            replaced += len(files)
    tidy_log(table)
    return replaced


def candidates(
    files: Sequence[AddedFile], *, target_bytes: int, small_bytes: int, min_files: int
) -> list[list[AddedFile]]:
    """Neighbouring small files that are to be merged, each group into one."""
    groups: list[list[AddedFile]] = []
    group: list[AddedFile] = []
    size = 0
    for file in files:
        if file.size >= small_bytes or (group and size + file.size > target_bytes):
            groups.append(group)
            group, size = [], 0
        if file.size < small_bytes:
            group.append(file)
            size += file.size
    groups.append(group)
    return [worthy for group in groups if len(worthy := _without_heavy_start(group)) >= max(min_files, 2)]


def _without_heavy_start(group: list[AddedFile]) -> list[AddedFile]:
    """Leave out what was merged before, until enough has been written after it."""
    rest = sum(file.size for file in group)
    for position, file in enumerate(group):
        rest -= file.size
        if file.size <= rest:
            return group[position:]
    return []


def _merge(table: HistoryTable, files: Sequence[AddedFile]) -> bool:
    # Its own name: one that was left by a process that died may be deleted at any moment.
    name = f"merged-{files[0].first_time:016x}-{files[-1].last_time:016x}-{uuid4().hex[:8]}"
    try:
        merged = write_files(table.store, _rows(table, files), name=name, target_bytes=_WHOLE)
    except FileNotFoundError:
        return False  # another process merged and deleted them
    return change_files(table, merged, removed=files)


def _rows(table: HistoryTable, files: Sequence[AddedFile]) -> Iterator[pa.RecordBatch]:
    for file in files:
        for batch in read_verified(table.store, file.path, ROW_GROUP_ROWS, size=file.size):
            # Without the names of the file's own schema, which differ in what may be null.
            yield pa.RecordBatch.from_arrays(batch.columns, schema=SCHEMA)
