"""Remove the oldest part of a history; by default nothing is removed.

Whole files are removed, the oldest first, and the history begins where the last of them ended: resuming
before that fails with ChangeStreamHistoryLost.
"""

import time

from tailrace.lake.commit import change_files
from tailrace.lake.data_file import AddedFile
from tailrace.lake.table import HistoryTable


def retain(
    table: HistoryTable,
    *,
    max_age_seconds: float | None = None,
    max_bytes: int | None = None,
    now: float | None = None,
) -> int:
    """Remove files older than an age, or beyond a size; return how many were removed.

    The age of a file is that of its newest row, by wall time; one without wall times has none, and stays
    until the size decides. The newest file always stays. ``now`` is in seconds since 1970.
    """
    table.refresh()
    limit = None
    if max_age_seconds is not None:
        limit = ((time.time() if now is None else now) - max_age_seconds) * 1000
    size = table.size
    gone: list[AddedFile] = []
    newest = len(table.files) - 1
    for position, file in enumerate(table.files):
        is_old = limit is not None and file.last_wall is not None and file.last_wall < limit
        is_too_much = max_bytes is not None and size > max_bytes and position < newest
        if not (is_old or is_too_much):
            break
        size -= file.size
        gone.append(file)
    if not gone or not change_files(table, (), removed=gone, begins=gone[-1].last_time):
        return 0
    return len(gone)
