"""The columns of the history table.

One row is one canonical event. docs/history.md has the table for users; streams need all columns but
`wall_time` and `document_key` to show an event in any shape and to decide whether they show it.

A row whose `operation` and `event` are null is a *deferred* entry: one that only some streams can make an
event of (`deferred_entries.py`). Its `entry_rest` is the whole oplog entry.
"""

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailrace.events.layout.fields import shape_of
from tailrace.events.layout.token import CURRENT_VERSION

FORMAT: Final = 3
"""Counts changes of the columns or of what they hold. 1 was without a number, 2 without sessions."""
TOKEN_VERSION: Final = CURRENT_VERSION

CANONICAL: Final = shape_of(expanded=True, raw_update=False, commit_timestamp=True, from_migrate=True)
"""How `event` shows an event: with everything that any stream could show, but for images and raw updates"""

_DATE: Final = pa.timestamp("us", tz="UTC")

SCHEMA: Final = pa.schema([
    pa.field("token", pa.string(), nullable=False),
    pa.field("token_type_bits", pa.binary()),
    pa.field("cluster_time", _DATE, nullable=False),
    pa.field("increment", pa.int64(), nullable=False),
    pa.field("wall_time", _DATE),
    pa.field("operation", pa.string()),
    pa.field("db", pa.string()),
    pa.field("coll", pa.string()),
    pa.field("uuid", pa.string()),
    pa.field("document_key", pa.string()),
    pa.field("event", pa.binary()),
    pa.field("pre_image", pa.binary()),
    pa.field("shard", pa.string(), nullable=False),
    pa.field("txn_index", pa.int64()),
    pa.field("entry_rest", pa.binary()),
    pa.field("session", pa.binary()),
    pa.field("txn_number", pa.int64()),
])  # fmt: skip
"""The table's columns, in order"""

REPEATED: Final = ("operation", "db", "coll", "uuid", "shard", "session")
"""Columns with few different values: written and read with a dictionary"""
ENCODED: Final = pa.schema([
    field.with_type(pa.dictionary(pa.int32(), field.type)) if field.name in REPEATED else field
    for field in SCHEMA
])  # fmt: skip
"""The same columns, those with few different values as numbers of them; files have the same bytes"""

NAMES: Final = ("operation", "db", "coll", "uuid")
"""What rows of one kind share, in the order of `names_of`"""
TIME_COLUMNS: Final = ("cluster_time", "increment")
STREAM_COLUMNS: Final = (
    "token", "token_type_bits", *TIME_COLUMNS, "operation", "db", "coll", "uuid", "event", "pre_image",
    "shard", "txn_index", "entry_rest", "session", "txn_number",
)  # fmt: skip
"""What `event_reader.py` and `verbatim.py` need"""

Times: TypeAlias = npt.NDArray[np.uint64]
"""Cluster times: seconds in the high half, increment in the low half"""
_MICROSECONDS: Final = 1_000_000


def times_of(rows: pa.RecordBatch | pa.Table) -> Times:
    """The cluster times of some rows."""
    microseconds = rows.column("cluster_time").cast(pa.int64()).to_numpy()
    increments = rows.column("increment").to_numpy()
    times: Times = (microseconds // _MICROSECONDS << 32 | increments).view(np.uint64)
    return times


def time_of(rows: pa.RecordBatch | pa.Table, row: int) -> int:
    """The cluster time of one row."""
    microseconds = rows.column("cluster_time")[row].value
    increment = rows.column("increment")[row].as_py()
    return int(microseconds // _MICROSECONDS << 32 | increment)


def time_columns(times: Times) -> tuple[pa.Array, pa.Array]:
    """The columns `cluster_time` and `increment` of some cluster times."""
    seconds = (times >> np.uint64(32)).astype(np.int64)
    increments = (times & np.uint64(0xFFFFFFFF)).astype(np.int64)
    return pa.array(seconds * _MICROSECONDS, _DATE), pa.array(increments)
