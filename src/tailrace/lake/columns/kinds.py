"""The three kinds of tables: current state, versions, changes. Ordered changes in, rows out; nothing is read.

A change is what an event says about one document: its key, the document after it (None if it was deleted),
and the cluster time and token of the event. Changes come in the order of events.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from tailrace.lake.columns.chunks import Rows
from tailrace.lake.columns.shape import Mark
from tailrace.lake.schema import time_columns

_TIME: Final = pa.timestamp("us", tz="UTC")
_EVENT: Final = (
    pa.field("_key", pa.string(), nullable=False),
    pa.field("_bson", pa.binary()),
    pa.field("_cluster_time", _TIME, nullable=False),
    pa.field("_increment", pa.int64(), nullable=False),
    pa.field("_token", pa.string(), nullable=False),
)
OWN_COLUMNS: Final = {
    "current": _EVENT,
    "versions": (
        *_EVENT,
        pa.field("_valid_to", _TIME),
        pa.field("_valid_to_increment", pa.int64()),
        pa.field("_is_current", pa.bool_(), nullable=False),
    ),
    "changes": (*_EVENT, pa.field("_change_type", pa.string(), nullable=False)),
}
"""The columns that a table of each kind has beside those of the fields: `Policy.reserved` has their names"""
CHANGE_TYPES: Final = ("insert", "update_postimage", "delete")
"""As the change data feed of Delta names them"""


def reserved_names(kind: str) -> tuple[str, ...]:
    """The names that a table of a kind has for its own columns."""
    return tuple(column.name for column in OWN_COLUMNS[kind])


@dataclass(frozen=True, slots=True)
class DocumentChanges:
    """What some events, in their order, say about documents."""

    keys: Sequence[str]
    documents: Sequence[bytes | None]
    marks: Sequence[Mark]
    operations: Sequence[str]
    """`insert`, `update`, `replace`, `delete`, or `read` for a document of the first copy"""

    def of_rows(self, rows: Rows) -> list[pa.Array]:
        """The own columns that every kind has, for some of the changes."""
        chosen = rows.tolist()
        times = np.array([self.marks[row][0] for row in chosen], np.uint64)
        return [
            pa.array([self.keys[row] for row in chosen], pa.string()),
            pa.array([self.documents[row] for row in chosen], pa.binary()),
            *time_columns(times),
            pa.array([self.marks[row][1] for row in chosen], pa.string()),
        ]


@dataclass(frozen=True, slots=True)
class CurrentRows:
    """What a batch does to a table of the current state (SCD 1)."""

    upserted: Rows
    """The changes whose documents replace the rows of their keys"""
    deleted: list[str]
    """Keys whose rows are deleted"""
    own: pa.RecordBatch
    """The own columns of the upserted ones"""


def current_rows(changes: DocumentChanges) -> CurrentRows:
    """The last change of each key."""
    last = {key: row for row, key in enumerate(changes.keys)}
    kept = [row for row in last.values() if changes.documents[row] is not None]
    deleted = [key for key, row in last.items() if changes.documents[row] is None]
    upserted = np.array(sorted(kept), np.int64)
    return CurrentRows(upserted, deleted, _batch("current", changes.of_rows(upserted)))


@dataclass(frozen=True, slots=True)
class VersionRows:
    """What a batch does to a table of versions (SCD 2)."""

    added: Rows
    """The changes that are a new version each"""
    own: pa.RecordBatch
    """Their own columns; a version is valid from its cluster time on, until before `_valid_to`"""
    closed: dict[str, Mark]
    """Keys whose current version in the table ends, and the event that ends it"""


def version_rows(changes: DocumentChanges) -> VersionRows:
    """A row for each change that leaves a document; the next change of its key ends it."""
    following: dict[str, Mark] = {}
    ends: list[Mark | None] = [None] * len(changes.keys)
    for row in reversed(range(len(changes.keys))):
        ends[row] = following.get(changes.keys[row])
        following[changes.keys[row]] = changes.marks[row]
    added = np.array([row for row, found in enumerate(changes.documents) if found is not None], np.int64)
    of_added = [ends[row] for row in added.tolist()]
    is_current = np.array([end is None for end in of_added], np.bool_)
    times, increments = time_columns(np.array([end[0] if end else 0 for end in of_added], np.uint64))
    own = [
        *changes.of_rows(added),
        pa.array(times.cast(pa.int64()).to_numpy(), _TIME, mask=is_current),
        pa.array(increments.to_numpy(), mask=is_current),
        pa.array(is_current),
    ]
    return VersionRows(added, _batch("versions", own), following)


def change_rows(changes: DocumentChanges) -> pa.RecordBatch:
    """The own columns of a table of changes: a row for each, deletions too."""
    names = {"insert": "insert", "read": "insert", "delete": "delete"}
    types = [names.get(operation, "update_postimage") for operation in changes.operations]
    rows = np.arange(len(types))
    return _batch("changes", [*changes.of_rows(rows), pa.array(types, pa.string())])


def _batch(kind: str, arrays: list[pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(OWN_COLUMNS[kind]))
