"""The table of schema changes: what was added to which table, when and by which event."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from tailrace.lake.columns.evolve import SchemaChange
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
