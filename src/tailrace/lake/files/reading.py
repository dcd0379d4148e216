"""Read rows in order: file after file, and of a file the row groups that an interval needs."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tailrace.bson.dates import milliseconds_of
from tailrace.errors import HistoryError
from tailrace.lake.checksums import read_verified
from tailrace.lake.data_file import AddedFile
from tailrace.lake.files.file_list import FileList
from tailrace.lake.schema import REPEATED, SCHEMA, TIME_COLUMNS, time_of, times_of
from tailrace.lake.storage.log_store import LogStore

BATCH_ROWS: Final = 4096


class FileView(Protocol):
    """Files of a table at one version."""

    @property
    def store(self) -> LogStore: ...

    @property
    def files(self) -> FileList: ...

    def refresh(self) -> Any:
        """Show the newest version."""


def read_rows(
    view: FileView, after: int, end: int, *, columns: Sequence[str], batch_rows: int = BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """The rows after ``after`` and up to ``end``, in order, as `HistoryTable.read` returns them."""
    wanted = list(dict.fromkeys((*TIME_COLUMNS, *columns)))
    missing = ""
    while after < end:
        files = view.files
        position = files.position_after(after)
        if position == len(files):
            return
        file = files[position]
        if file.first_time > end:
            return
        try:
            for batch in _read_file(view.store, file, after, end, wanted, batch_rows):
                yield batch
                after = time_of(batch, batch.num_rows - 1)
        except FileNotFoundError:
            if file.path == missing:
                raise HistoryError(
                    f"a file of the history is gone: {view.store.path_of(file.path)}"
                ) from None
            missing = file.path
            view.refresh()
            continue
        after = max(after, min(file.last_time, end))


def _read_file(
    store: LogStore, file: AddedFile, after: int, through: int, columns: list[str], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """The rows of one file in an interval, cut only between cluster times."""
    # A batch is returned when the next one shows that its last cluster time ends with it.
    held: list[pa.RecordBatch] = []
    groups = partial(_row_groups, after=after, through=through)
    batches = read_verified(
        store,
        file.path,
        batch_rows,
        size=file.size,
        columns=columns,
        dictionaries=REPEATED,
        groups=groups,
    )
    for batch in batches:
        times = times_of(batch)
        start = int(np.searchsorted(times, np.uint64(after), "right"))
        stop = int(np.searchsorted(times, np.uint64(through), "right"))
        if start == stop:
            continue
        if held and time_of(held[-1], held[-1].num_rows - 1) == times[start]:
            first = start
            start = int(np.searchsorted(times, times[first], "right"))
            held.append(batch.slice(first, min(start, stop) - first))
            if start >= stop:
                continue
        if held:
            yield _joined(held)
        held = [batch.slice(start, stop - start)]
    if held:
        yield _joined(held)


def _row_groups(metadata: pq.FileMetaData, after: int, through: int) -> list[int]:
    """The row groups that may hold rows of an interval."""
    column = SCHEMA.get_field_index("cluster_time")
    found = []
    for number in range(metadata.num_row_groups):
        statistics = metadata.row_group(number).column(column).statistics
        if statistics is None or (
            _second(statistics.max) >= after >> 32 and _second(statistics.min) <= through >> 32
        ):
            found.append(number)
    return found


def _second(moment: datetime) -> int:
    return milliseconds_of(moment) // 1000


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
    return table.to_batches()[0]
