"""Which row of a file is at which cluster time, from its footer and at most one row group at a time."""

from bisect import bisect_right
from functools import cached_property
from itertools import accumulate

import numpy as np
import pyarrow.parquet as pq

from tailrace.events.resume_token import cluster_time_of
from tailrace.lake.checksums import read_verified
from tailrace.lake.data_file import AddedFile
from tailrace.lake.schema import SCHEMA, TIME_COLUMNS, Times, times_of
from tailrace.lake.storage.log_store import LogStore

_TOKEN = SCHEMA.get_field_index("token")


class RowPositions:
    """The rows of one file by number and by cluster time. Raises `FileNotFoundError` if it is gone."""

    def __init__(self, store: LogStore, file: AddedFile) -> None:
        self._store = store
        self._file = file
        self._read: tuple[int, Times] | None = None
        """The row group that was read last"""

    @cached_property
    def _footer(self) -> pq.FileMetaData:
        with self._store.open(self._file.path, self._file.size) as source:
            return pq.read_metadata(source)

    @cached_property
    def starts(self) -> list[int]:
        """The number of the first row of each row group, and that of all rows."""
        groups = (self._footer.row_group(number).num_rows for number in range(self._footer.num_row_groups))
        return [0, *accumulate(groups)]

    @cached_property
    def ends(self) -> list[int]:
        """The last cluster time of each row group."""
        return [self._end(number) for number in range(self._footer.num_row_groups)]

    def _end(self, group: int) -> int:
        statistics = self._footer.row_group(group).column(_TOKEN).statistics
        if statistics is not None and statistics.has_min_max:
            return cluster_time_of(statistics.max)
        return int(self._times(group)[-1])  # Parquet has no statistics of very long values

    def _times(self, group: int) -> Times:
        if self._read is None or self._read[0] != group:
            batches = read_verified(
                self._store,
                self._file.path,
                self.starts[-1],
                size=self._file.size,
                columns=TIME_COLUMNS,
                groups=lambda _: [group],
            )
            self._read = group, np.concatenate([times_of(batch) for batch in batches])
        return self._read[1]

    def count_through(self, time: int) -> int:
        """How many rows are at a cluster time or before it."""
        group = bisect_right(self.ends, time)
        if group == len(self.ends):
            return self.starts[-1]
        return self.starts[group] + int(np.searchsorted(self._times(group), np.uint64(max(time, 0)), "right"))

    def time_at(self, row: int) -> int:
        """The cluster time of a row."""
        group = bisect_right(self.starts, row) - 1
        return int(self._times(group)[row - self.starts[group]])
