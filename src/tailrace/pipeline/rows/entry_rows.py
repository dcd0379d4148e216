"""Raw oplog entries as Arrow batches: the rows of ``format("tailrace.oplog")``."""

from collections.abc import Iterator
from typing import Final
from uuid import UUID

import numpy as np
import pyarrow as pa

from tailrace.bson.dates import FIRST_DATE, LAST_DATE
from tailrace.events.entry_reader import EntryReader
from tailrace.events.oplog_entry import OplogEntry
from tailrace.sources.conditions import EVERYTHING, EntryCondition
from tailrace.sources.source import OplogSource

DDL: Final = (
    "shard STRING NOT NULL, cluster_time BIGINT NOT NULL, seconds BIGINT NOT NULL, "
    "increment BIGINT NOT NULL, term BIGINT, op STRING NOT NULL, ns STRING NOT NULL, ui STRING, "
    "wall TIMESTAMP, entry BINARY NOT NULL"
)
"""The columns in Spark's words."""
_SCHEMA: Final = pa.schema(
    [
        pa.field("shard", pa.string(), nullable=False),
        pa.field("cluster_time", pa.int64(), nullable=False),
        pa.field("seconds", pa.int64(), nullable=False),
        pa.field("increment", pa.int64(), nullable=False),
        pa.field("term", pa.int64()),
        pa.field("op", pa.string(), nullable=False),
        pa.field("ns", pa.string(), nullable=False),
        pa.field("ui", pa.string()),
        pa.field("wall", pa.timestamp("us", "UTC")),
        pa.field("entry", pa.binary(), nullable=False),
    ]
)
_NO_TERM: Final = -1


def entry_rows(
    source: OplogSource, shard: str, after: int, through: int, condition: EntryCondition = EVERYTHING
) -> Iterator[pa.RecordBatch]:
    """Return the entries of an interval that meet a condition, in order."""
    read = EntryReader().read
    for raw in source.entries(shard, after, through, condition):
        entries = list(map(read, raw))
        if not condition.is_free:
            entries = [entry for entry in entries if condition.accepts(entry.head)]
        if entries:
            yield _batch(shard, entries)


def _batch(shard: str, entries: list[OplogEntry]) -> pa.RecordBatch:
    times = np.array([entry.ts for entry in entries], dtype=np.uint64)
    terms = [entry.term for entry in entries]
    walls = np.frombuffer(b"".join([entry.wall for entry in entries]), dtype="<i8")
    is_date = (walls >= FIRST_DATE) & (walls <= LAST_DATE)
    dates = pa.array(np.where(is_date, walls, 0) * 1000, pa.int64(), mask=~is_date)
    uuids: dict[bytes | None, str | None] = {None: None}
    for ui in {entry.head.ui for entry in entries} - {None}:
        uuids[ui] = str(UUID(bytes=ui))
    arrays = [
        pa.repeat(shard, len(entries)),
        pa.array(times.view(np.int64)),  # see `as_signed`
        pa.array((times >> np.uint64(32)).astype(np.int64)),
        pa.array((times & np.uint64(0xFFFFFFFF)).astype(np.int64)),
        pa.array([None if term == _NO_TERM else term for term in terms], pa.int64()),
        pa.array([entry.head.op for entry in entries], pa.string()),
        pa.array([entry.head.ns for entry in entries], pa.string()),
        pa.array([uuids[entry.head.ui] for entry in entries], pa.string()),
        dates.cast(pa.timestamp("us", "UTC")),
        pa.array([entry.raw for entry in entries], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)
