"""Merge small files into large ones, while a pipeline and readers run.

A pipeline that follows a deployment commits a small file many times a second. Files that are neighbours in
the order of tokens are merged into one; the commit that puts it in their place changes no data. A file that
was merged before waits until as much has been written after it, so that no row is rewritten often. When its
rows are a day old they are merged once more, into files so large that even a long history has few.

Groups of files are merged one after another here, or by the tasks of a cluster: a `Merge` is what runs them.

The old files stay for a while, for readers of an older version (`vacuum.py`).
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailrace.lake.checksums import read_verified
from tailrace.lake.commit import change_files
from tailrace.lake.data_file import AddedFile
from tailrace.lake.log_writer import tidy_log
from tailrace.lake.schema import SCHEMA
from tailrace.lake.storage.log_store import LogStore
from tailrace.lake.table import HistoryTable
from tailrace.lake.writer import ROW_GROUP_ROWS, TARGET_BYTES, write_files

SMALL_BYTES: Final = 32 << 20
MIN_FILES: Final = 8
COLD_SECONDS: Final = 86_400.0
_WAITING_GROUPS: Final = 1
"""How many groups with old rows are merged in one call: each takes about a minute, and small files must not
wait for all of them"""
_WHOLE: Final = 1 << 62
"""A merged file is not divided: what goes into it is chosen by size"""


Group: TypeAlias = Sequence[AddedFile]
"""Files that are neighbours, to be merged into one"""
Merge: TypeAlias = Callable[[LogStore, Sequence[Group]], Iterable[list[AddedFile]]]
"""Returns the merged files of each group, as `merge_group` does"""


def merge_one_by_one(store: LogStore, groups: Sequence[Group]) -> Iterator[list[AddedFile]]:
    """Merge in this process."""
    for group in groups:
        yield merge_group(store, group)


def compact(
    table: HistoryTable,
    merge: Merge = merge_one_by_one,
    *,
    target_bytes: int = TARGET_BYTES,
    small_bytes: int = SMALL_BYTES,
    min_files: int = MIN_FILES,
    cold_bytes: int | None = None,
    most_cold: int = _WAITING_GROUPS,
    now: float | None = None,
) -> int:
    """Merge what is worth merging, files of the log included; return how many data files were replaced.

    Files with rows older than a day become about ``cold_bytes`` large, by default what is best for the store;
    at most ``most_cold`` groups of them are merged.
    Files that another process changes meanwhile are left for the next time. ``now`` is in seconds since 1970.
    """
    table.refresh()
    replaced = 0
    groups = small_groups(table, target_bytes=target_bytes, small_bytes=small_bytes, min_files=min_files)
    groups += cold_groups(table, cold_bytes=cold_bytes, now=now)[:most_cold]
    for files, merged in zip(groups, merge(table.store, groups), strict=True):
        if merged and change_files(table, merged, removed=files):
            replaced += len(files)
    tidy_log(table)
    return replaced


def small_groups(
    table: HistoryTable,
    *,
    target_bytes: int = TARGET_BYTES,
    small_bytes: int = SMALL_BYTES,
    min_files: int = MIN_FILES,
) -> list[Group]:
    """Groups of small files, each to be merged into one."""
    found = candidates(
        table.files.column("size"), target_bytes=target_bytes, small_bytes=small_bytes, min_files=min_files
    )
    return [list(table.files[group.start : group.stop]) for group in found]


def cold_groups(
    table: HistoryTable, *, cold_bytes: int | None = None, now: float | None = None
) -> list[Group]:
    """Groups of files with old rows, each to be merged into one."""
    target = table.store.cold_bytes if cold_bytes is None else cold_bytes
    limit = int((time.time() if now is None else now) - COLD_SECONDS)
    cold = table.files[: table.files.position_after(max(limit, 0) << 32)]
    found = candidates(
        cold.column("size"), target_bytes=target, small_bytes=target // 2, min_files=2, min_bytes=target // 2
    )
    return [list(cold[group.start : group.stop]) for group in found]


def candidates(
    sizes: npt.NDArray[np.int64], *, target_bytes: int, small_bytes: int, min_files: int, min_bytes: int = 0
) -> list[range]:
    """Positions of neighbouring small files that are to be merged, each group into one."""
    small = np.flatnonzero(sizes < small_bytes)
    groups: list[range] = []
    start = stop = total = 0
    for position, size in zip(small.tolist(), sizes[small].tolist(), strict=True):
        if position != stop or total + size > target_bytes:
            groups.append(range(start, stop))
            start, total = position, 0
        stop = position + 1
        total += size
    groups.append(range(start, stop))
    worthy = (_without_heavy_start(group, sizes) for group in groups)
    return [
        group
        for group in worthy
        if len(group) >= max(min_files, 2) and sizes[group.start : group.stop].sum() >= min_bytes
    ]


def _without_heavy_start(group: range, sizes: npt.NDArray[np.int64]) -> range:
    """Leave out what was merged before, until enough has been written after it."""
    rest = int(sizes[group.start : group.stop].sum())
    for position in group:
        size = int(sizes[position])
        rest -= size
        if size <= rest:
            return group[position - group.start :]
    return range(0)


def merge_group(store: LogStore, files: Group) -> list[AddedFile]:
    """Write the rows of some files into one; nothing if another process has merged and deleted them."""
    # Its own name: one that was left by a process that died may be deleted at any moment.
    name = f"merged-{files[0].first_time:016x}-{files[-1].last_time:016x}-{uuid4().hex[:8]}"
    try:
        return write_files(store, _rows(store, files), name=name, target_bytes=_WHOLE)
    except FileNotFoundError:
        return []


def _rows(store: LogStore, files: Group) -> Iterator[pa.RecordBatch]:
    for file in files:
        for batch in read_verified(store, file.path, ROW_GROUP_ROWS, size=file.size):
            # Without the names of the file's own schema, which differ in what may be null.
            yield pa.RecordBatch.from_arrays(batch.columns, schema=SCHEMA)
