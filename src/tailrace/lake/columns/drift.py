"""Schema changes as rows: what was added to which table, when and by which event.

They are rows of a table of their own, and on request of a table of changes, too.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from tailrace.bson.documents import encode
from tailrace.lake.columns.column_types import Layout
from tailrace.lake.columns.evolve import SchemaChange
from tailrace.lake.columns.kinds import SCHEMA, DocumentChanges, TableKind
from tailrace.lake.schema import time_columns

SCHEMA_CHANGES: Final = pa.schema([
    pa.field("ns", pa.string(), nullable=False),
    pa.field("path", pa.string(), nullable=False),
    pa.field("column", pa.string(), nullable=False),
    pa.field("what", pa.string(), nullable=False),
    pa.field("old_type", pa.string()),
    pa.field("new_type", pa.string(), nullable=False),
    pa.field("cluster_time", pa.timestamp("us", tz="UTC"), nullable=False),
    pa.field("increment", pa.int64(), nullable=False),
    pa.field("token", pa.string(), nullable=False),
])  # fmt: skip
"""Its columns"""


def schema_change_rows(ns: str, changes: Sequence[SchemaChange]) -> pa.RecordBatch:
    """The rows of some changes of the table of a collection."""
    times, increments = time_columns(np.array([change.cluster_time for change in changes], np.uint64))
    arrays = [
        pa.array([ns] * len(changes), pa.string()),
        pa.array([change.path for change in changes], pa.string()),
        pa.array([change.column for change in changes], pa.string()),
        pa.array([change.what for change in changes], pa.string()),
        pa.array([change.old_type for change in changes], pa.string()),
        pa.array([change.new_type for change in changes], pa.string()),
        times,
        increments,
        pa.array([change.token for change in changes], pa.string()),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA_CHANGES)


def schema_rows(ns: str, changes: Sequence[SchemaChange], layout: Layout) -> pa.Table:
    """Some changes as rows of the table of changes that they are of, in their order.

    Each has the change as its document, and no token: so it comes before the events of its cluster time.
    """
    described = [
        {
            "ns": ns,
            "path": change.path,
            "column": change.column,
            "what": change.what,
            "old_type": change.old_type,
            "new_type": change.new_type,
            "token": change.token or None,
        }
        for change in changes
    ]
    own = DocumentChanges(
        keys=[b""] * len(changes),
        documents=[encode(found) for found in described],
        marks=[(change.cluster_time, "") for change in changes],
        operations=[SCHEMA] * len(changes),
    ).own_columns(TableKind.CHANGES)
    fields = layout.arrow_schema()
    nulls = [pa.nulls(len(changes), field.type) for field in fields]
    return pa.Table.from_arrays([*nulls, *own.columns], schema=pa.schema([*fields, *own.schema]))
