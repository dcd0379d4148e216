"""Write rows to Parquet files, which the driver commits later.

A file has its name from the task, so a task that runs again finds what its first attempt wrote. It is written
under another name first: a file that has its name is whole. All rows of one cluster time are in one file.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from typing import Any, Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tailrace.bson.dates import MICROSECONDS
from tailrace.events.resume_token import cluster_time_of
from tailrace.lake.checksums import CheckedSink
from tailrace.lake.data_file import AddedFile
from tailrace.lake.row_kinds import count_commands
from tailrace.lake.schema import ENCODED, REPEATED, SCHEMA, times_of
from tailrace.lake.storage.log_store import LogStore, open_store

TARGET_BYTES: Final = 128 << 20
ROW_GROUP_ROWS: Final = 16_384
"""What a stream reads at once where it begins; larger is better for scans, smaller for streams"""
_ROW_GROUP_BYTES: Final = 32 << 20
COMPRESSION: Final = "zstd"
_WITH_STATISTICS: Final = ("token", "cluster_time", "increment", "wall_time", "operation", "db", "coll")


def write_files(
    place: str | PathLike[str] | LogStore,
    batches: Iterable[pa.RecordBatch],
    *,
    name: str,
    target_bytes: int = TARGET_BYTES,
    row_group_rows: int = ROW_GROUP_ROWS,
    durable: bool = True,
) -> list[AddedFile]:
    """Write rows that come in order to as many files as they need; no rows, no file.

    All batches have the columns of `SCHEMA`, or all those of `ENCODED`.
    ``place`` is the history, ``name`` the beginning of the files' names; it has to differ from that of any
    other rows. With ``durable`` a file is on disk before this returns.
    """
    store = place if isinstance(place, LogStore) else open_store(place)
    written: list[AddedFile] = []
    file: _File | None = None
    try:
        for group in _row_groups(batches, row_group_rows):
            start = 0
            if file is not None and file.size >= target_bytes:
                # The other rows of the file's last cluster time belong to it too.
                start = int(np.searchsorted(times_of(group), np.uint64(file.last_time), "right"))
                if start:
                    file.write(group.slice(0, start))
                if start < group.num_rows:
                    written.append(file.finish())
                    file = None
            if start < group.num_rows:
                if file is None:
                    name_of_file = f"{name}-{len(written):04d}.parquet"
                    file = _File(store, name_of_file, group.schema, durable=durable)
                file.write(group.slice(start) if start else group)
        if file is not None:
            written.append(file.finish())
            file = None
    finally:
        if file is not None:
            file.give_up()
    return written


def _row_groups(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        count += batch.num_rows
        size += batch.nbytes
        if count >= rows or size >= _ROW_GROUP_BYTES:
            yield _joined(held)
            held, count, size = [], 0, 0
    if held:
        yield _joined(held)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Batches as one, with one dictionary for each of the columns that have one."""
    is_encoded = batches[0].schema.equals(ENCODED)
    table = pa.Table.from_batches(batches, ENCODED if is_encoded else SCHEMA)
    return table.unify_dictionaries() if is_encoded and len(batches) > 1 else table


class _File:
    def __init__(self, store: LogStore, name: str, schema: pa.Schema, *, durable: bool) -> None:
        self._store = store
        self._name = name
        self._file = store.new_file(name, durable=durable)
        self._checked = CheckedSink(self._file.content)
        self._writer = pq.ParquetWriter(
            pa.PythonFile(self._checked, mode="w"),
            schema,
            compression=COMPRESSION,
            use_dictionary=list(REPEATED),
            write_statistics=list(_WITH_STATISTICS),
            store_schema=False,
            write_page_checksum=True,
        )
        self._rows = 0
        self._first_token = ""
        self._last_token = ""
        self._walls: list[tuple[Any, Any]] = []
        self._walls_missing = 0
        self._commands = 0

    @property
    def size(self) -> int:
        return self._file.content.tell()

    @property
    def last_time(self) -> int:
        return cluster_time_of(self._last_token)

    def write(self, rows: pa.Table) -> None:
        if not self._rows:
            self._first_token = rows.column("token")[0].as_py()
        self._last_token = rows.column("token")[rows.num_rows - 1].as_py()
        self._rows += rows.num_rows
        self._commands += count_commands(rows)
        walls = rows.column("wall_time")
        self._walls_missing += walls.null_count
        if walls.null_count < rows.num_rows:
            found = pc.min_max(walls.cast(pa.int64()))
            self._walls.append((found["min"].as_py(), found["max"].as_py()))
        self._writer.write_table(rows, row_group_size=rows.num_rows)
        self._checked.end_group()

    def finish(self) -> AddedFile:
        self._writer.add_key_value_metadata(self._checked.entry())
        self._writer.close()
        size = self.size
        self._checked.complete()
        name, size = self._place(size)
        self._file.discard()
        return AddedFile(
            path=name,
            size=size,
            rows=self._rows,
            first_token=self._first_token,
            last_token=self._last_token,
            first_wall=min(least for least, _ in self._walls) // MICROSECONDS if self._walls else None,
            last_wall=max(greatest for _, greatest in self._walls) // MICROSECONDS if self._walls else None,
            walls_missing=self._walls_missing,
            modified=time.time_ns() // 1_000_000,
            commands=self._commands,
        )

    def give_up(self) -> None:
        self._writer.is_open = False  # or its end would write a footer, and complain that it cannot
        self._file.discard()

    def _place(self, size: int) -> tuple[str, int]:
        """Give the finished file its name; the name and the size of the file that has the rows now.

        A file that has this name may be part of the table already, and its size with it. So it is never
        replaced: a task of a driver that was killed can come to its end after the next driver has committed
        the same rows. If it has as many rows it is the same piece, for the files before it were. Else they
        were cut elsewhere.
        """
        if self._file.place(self._name):
            return self._name, size
        found = self._store.head(self._name)
        if found is not None:
            with self._store.open(self._name, found.size) as source:
                if pq.read_metadata(source).num_rows == self._rows:
                    return self._name, found.size
        other = f"{self._name.removesuffix('.parquet')}-{uuid4().hex}.parquet"
        self._file.place(other)
        return other, size
