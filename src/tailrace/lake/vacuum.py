"""Delete files that are no longer part of the history.

A file is removed from the table first and deleted after a grace period, so that readers of an older version
can finish; the log of the table has the moment of its removal. A file that no version has was written by a
task that died, or by one whose commit is still to come; the latter is after the end of the history, and is
not deleted. The age of such a file is that which the store knows.
"""

import time
from collections.abc import Iterator
from itertools import islice
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from tailrace.events.resume_token import cluster_time_of
from tailrace.lake.schema import SCHEMA
from tailrace.lake.storage.log_store import LogStore, StoredFile
from tailrace.lake.table import HistoryTable

GRACE_SECONDS: Final = 3600.0
_ABANDONED_SECONDS: Final = 86_400.0
"""No task writes to one temporary file that long"""
_NEVER: Final = 1 << 64
_LISTED_FILES: Final = 65_536


def vacuum(table: HistoryTable, *, grace_seconds: float = GRACE_SECONDS, now: float | None = None) -> int:
    """Delete what was removed longer ago than the grace period; return how many files were deleted."""
    table.refresh()
    now = time.time() if now is None else now
    removals = table.removals
    deleted = 0
    for file in _others(table):
        if file.name.startswith(".") and file.name.endswith(".tmp"):
            is_garbage = now - file.modified > _ABANDONED_SECONDS
        elif file.name in removals:
            is_garbage = now - removals[file.name] / 1000 > grace_seconds
        elif file.name.endswith(".parquet"):
            is_garbage = (
                now - file.modified > grace_seconds and _last_time(table.store, file) <= table.through
            )
        else:
            continue
        if is_garbage:
            table.store.delete(file.name)
            deleted += 1
    return deleted


def _others(table: HistoryTable) -> Iterator[StoredFile]:
    """The files in the table's folder that are no part of it."""
    listed = table.store.list()
    while piece := {file.name: file for file in islice(listed, _LISTED_FILES)}:
        for name in table.files.others(list(piece)):
            yield piece[name]


def _last_time(store: LogStore, file: StoredFile) -> int:
    """The cluster time a file ends with; one that cannot be read was damaged by others, and stays."""
    try:
        with store.open(file.name, file.size) as source:
            metadata = pq.read_metadata(source)
    except (pa.ArrowInvalid, FileNotFoundError):
        return _NEVER
    last = metadata.row_group(metadata.num_row_groups - 1)
    statistics = last.column(SCHEMA.get_field_index("token")).statistics
    # Parquet has no statistics of very long values; the file then stays.
    return cluster_time_of(statistics.max) if statistics is not None and statistics.has_min_max else _NEVER
