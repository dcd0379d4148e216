"""Delete files that are no longer part of the history.

A file is removed from the table first and deleted after a grace period, so that readers of an older version
can finish. A file that no version has was written by a task that died, or by one whose commit is still to
come; the latter is after the end of the history, and is not deleted.
"""

import time
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from tailrace.events.resume_token import cluster_time_of
from tailrace.lake.schema import SCHEMA
from tailrace.lake.table import HistoryTable

GRACE_SECONDS: Final = 3600.0
_ABANDONED_SECONDS: Final = 86_400.0
"""No task writes to one temporary file that long"""


def vacuum(table: HistoryTable, *, grace_seconds: float = GRACE_SECONDS, now: float | None = None) -> int:
    """Delete what was removed longer ago than the grace period; return how many files were deleted."""
    table.refresh()
    now = time.time() if now is None else now
    kept = {file.path for file in table.files}
    deleted = 0
    for path in table.path.iterdir():
        is_abandoned = path.name.startswith(".") and path.suffix == ".tmp"
        if path.name in kept or not (is_abandoned or path.suffix == ".parquet"):
            continue
        try:
            age = now - path.stat().st_mtime
            if is_abandoned:
                is_garbage = age > _ABANDONED_SECONDS
            else:
                is_garbage = age > grace_seconds and _last_time(path) <= table.through
            if is_garbage:
                path.unlink()
                deleted += 1
        except FileNotFoundError:
            continue  # another process deleted it, or a task finished it
    return deleted


def _last_time(path: Path) -> int:
    """The cluster time a file ends with; one that cannot be read was damaged by others, and stays."""
    try:
        metadata = pq.read_metadata(path)
    except pa.ArrowInvalid:
        return 1 << 64
    last = metadata.row_group(metadata.num_row_groups - 1)
    statistics = last.column(SCHEMA.get_field_index("token")).statistics
    # Parquet has no statistics of very long values; the file then stays.
    return cluster_time_of(statistics.max) if statistics is not None and statistics.has_min_max else 1 << 64
