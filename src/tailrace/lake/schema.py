"""The columns of the history table.

One row is one canonical event. The columns before `event` are for whoever queries the table; a stream needs
`event`, `pre_image`, `txn_index` and `logged` to show the event in any shape, and `operation`, `db`, `coll`
and `uuid` to know whether it wants it. docs/history.md has the table for users.

A row whose `operation` and `event` are null is an *untold* entry: one that only some streams can make an
event of (`untold.py`). Its `logged` is the whole oplog entry.
"""

from typing import Final

import pyarrow as pa

from tailrace.events.stages.render import shape_of

TOKEN_VERSION: Final = 2

CANONICAL: Final = shape_of(expanded=True, raw_update=False, commit_timestamp=True, from_migrate=True)
"""How `event` shows an event: with everything that any stream could show, but for images and raw updates"""

SCHEMA: Final = pa.schema([
    pa.field("token", pa.string(), nullable=False),
    pa.field("cluster_time", pa.int64(), nullable=False),
    pa.field("wall_time", pa.timestamp("us", tz="UTC")),
    pa.field("operation", pa.string()),
    pa.field("db", pa.string()),
    pa.field("coll", pa.string()),
    pa.field("uuid", pa.string()),
    pa.field("document_key", pa.string()),
    pa.field("event", pa.binary()),
    pa.field("pre_image", pa.binary()),
    pa.field("shard", pa.string(), nullable=False),
    pa.field("txn_index", pa.int64()),
    pa.field("logged", pa.binary()),
])  # fmt: skip
"""The table's columns, in order"""

REPEATED: Final = ("operation", "db", "coll", "uuid", "shard")
"""Columns with few different values: written and read with a dictionary"""

STREAM_COLUMNS: Final = (
    "cluster_time", "operation", "db", "coll", "uuid", "event", "pre_image", "shard", "txn_index", "logged",
)  # fmt: skip
"""What `events.py` needs to give events back"""
