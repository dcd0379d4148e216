"""The Parquet files of a collection's table: what its log has of them, writing and reading them."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tailrace.bson.dates import iso_date
from tailrace.lake.columns.kinds import INCREMENT, KEY, TIME
from tailrace.lake.mirror.deletion_vectors import DeletionVector, dead_rows
from tailrace.lake.storage.log_store import LogStore

TARGET_BYTES: Final = 16 << 20
"""About the size of a file's rows in memory. A change rewrites the file of its key, so files are small."""
_FIRST_KEY: Final = "tailrace.firstKey"
_LAST_KEY: Final = "tailrace.lastKey"
_PAST: Final = "tailrace.past"
_LETTERS: Final = "tailrace.deadLetters"
_RUN: Final = "tailrace.run"
_DEAD: Final = "tailrace.deadRows"
_ROW_GROUP_ROWS: Final = 32_768
MICROSECONDS_PER_SECOND: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class MirrorFile:
    """A finished file; it is part of the table once it was committed. Can be pickled."""

    path: str
    size: int
    rows: int
    """In the file, dead ones too"""
    first_key: bytes
    last_key: bytes
    first_time: int
    last_time: int
    """The least and the greatest cluster time of its rows"""
    modified: int
    is_past: bool = False
    """Whether it has past rows, which the mirror does not read again"""
    is_letters: bool = False
    """Whether it has dead letters: it is part of another Delta table"""
    is_run: bool = False
    """Whether its keys may be between those of other files (`runs.py`)"""
    vector: DeletionVector | None = None
    """Which of its rows are dead, if some are"""

    @property
    def dead(self) -> int:
        return 0 if self.vector is None else self.vector.rows

    @property
    def alive(self) -> int:
        return self.rows - self.dead

    @property
    def deletion_vector(self) -> Mapping[str, Any] | None:
        return None if self.vector is None else self.vector.descriptor

    @property
    def stats(self) -> str:
        """The statistics by which Delta's readers skip files."""
        # The bounds may be those of rows that are dead.
        wide = {} if self.vector is None else {"tightBounds": False}
        return json.dumps({
            "numRecords": self.rows,
            **wide,
            "minValues": {TIME: iso_date((self.first_time >> 32) * 1000)},
            "maxValues": {TIME: iso_date((self.last_time >> 32) * 1000)},
            "nullCount": {TIME: 0},
        })  # fmt: skip

    @property
    def tags(self) -> dict[str, str]:
        times = {"tailrace.firstTime": str(self.first_time), "tailrace.lastTime": str(self.last_time)}
        flags = {_PAST: self.is_past, _LETTERS: self.is_letters, _RUN: self.is_run}
        set_flags = {name: "true" for name, is_set in flags.items() if is_set}
        # Another program that deletes rows copies the other tags, and is noticed by this one.
        dead = {} if self.vector is None else {_DEAD: str(self.dead)}
        keys = {_FIRST_KEY: self.first_key.hex(), _LAST_KEY: self.last_key.hex()}
        return {**keys, **times, **set_flags, **dead}

    @classmethod
    def from_action(cls, action: dict[str, Any]) -> "MirrorFile":
        """From an `add` of the table's log; `KeyError`, `TypeError` or `ValueError` if others wrote it."""
        tags = action["tags"] or {}
        vector = DeletionVector.of(action.get("deletionVector"))
        if int(tags.get(_DEAD, 0)) != (0 if vector is None else vector.rows):
            raise ValueError("another program has deleted rows")
        return cls(
            path=action["path"],
            size=action["size"],
            rows=json.loads(action["stats"])["numRecords"],
            first_key=bytes.fromhex(tags[_FIRST_KEY]),
            last_key=bytes.fromhex(tags[_LAST_KEY]),
            first_time=int(tags["tailrace.firstTime"]),
            last_time=int(tags["tailrace.lastTime"]),
            modified=action["modificationTime"],
            is_past=_PAST in tags,
            is_letters=_LETTERS in tags,
            is_run=_RUN in tags,
            vector=vector,
        )


def write_rows(
    store: LogStore,
    rows: pa.Table,
    *,
    name: str,
    target_bytes: int = TARGET_BYTES,
    is_past: bool = False,
    is_letters: bool = False,
    is_run: bool = False,
) -> list[MirrorFile]:
    """Write rows that are sorted by key to files of about equal size; no rows, no file."""
    if not rows.num_rows:
        return []
    pieces = max(round(rows.nbytes / target_bytes), 1)
    step = -(-rows.num_rows // pieces)
    starts = range(0, rows.num_rows, step)
    return [
        _write(store, rows.slice(start, step), name, is_past=is_past, is_letters=is_letters, is_run=is_run)
        for start in starts
    ]


def _write(
    store: LogStore, rows: pa.Table, name: str, *, is_past: bool, is_letters: bool, is_run: bool
) -> MirrorFile:
    path = f"{name}-{uuid4().hex}.parquet"
    file = store.new_file(path)
    try:
        pq.write_table(
            rows,
            pa.PythonFile(file.content, mode="w"),
            row_group_size=_ROW_GROUP_ROWS,
            compression="zstd",
            use_dictionary=False,
            write_statistics=True,
            store_schema=False,
            write_page_checksum=True,
        )
        size = file.content.tell()
        file.place(path)
    finally:
        file.discard()
    keys = rows.column(KEY)
    seconds = rows.column(TIME).cast(pa.int64()).to_numpy() // MICROSECONDS_PER_SECOND
    times = (seconds << 32 | rows.column(INCREMENT).to_numpy()).view(np.uint64)
    return MirrorFile(
        path=path,
        size=size,
        rows=rows.num_rows,
        first_key=keys[0].as_py(),
        last_key=keys[rows.num_rows - 1].as_py(),
        first_time=int(times.min()),
        last_time=int(times.max()),
        modified=time.time_ns() // 1_000_000,
        is_past=is_past,
        is_letters=is_letters,
        is_run=is_run,
    )


def read_file(store: LogStore, file: MirrorFile, schema: pa.Schema) -> pa.Table:
    """The rows of a file that are not dead; what the schema has and the file lacks is null."""
    with store.open(file.path, file.size) as source:
        rows = pq.read_table(source, page_checksum_verification=True)
    if file.vector is not None:
        is_alive = np.ones(rows.num_rows, np.bool_)
        is_alive[dead_rows(store, file.vector)] = False
        rows = rows.filter(pa.array(is_alive))
    return widened(rows, schema)


def widened(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with the columns of a schema; what they lack of it, columns or fields inside, is null."""
    names = set(rows.column_names)
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
