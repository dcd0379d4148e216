"""The three kinds of tables: current state, versions, changes. Ordered changes in, rows out; nothing is read.

The rows of a table are live or past. A key has one live row if its document exists, which the next change
replaces. Past rows are what changes left; they never change again. A table of the current state has none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
import pyarrow as pa

from tailrace.errors import UsageError
from tailrace.lake.columns.chunks import Rows
from tailrace.lake.columns.shape import Mark
from tailrace.lake.schema import time_columns


class TableKind(StrEnum):
    CURRENT = "current"
    """A row for each document that exists (SCD 1)"""
    VERSIONS = "versions"
    """A row for each version of a document (SCD 2)"""
    CHANGES = "changes"
    """A row for each change, deletions too"""

    @property
    def has_past(self) -> bool:
        return self is not TableKind.CURRENT


def kind_named(name: str) -> TableKind:
    """The kind of a name; `UsageError` if there is none."""
    try:
        return TableKind(name)
    except ValueError:
        raise UsageError(f"no table is of the kind {name!r}: use {', '.join(TableKind)}") from None


KEY: Final = "_key"
DOCUMENT: Final = "_bson"
TIME: Final = "_cluster_time"
INCREMENT: Final = "_increment"
_ENDS: Final = ("_valid_to", "_valid_to_increment", "_is_current")
_TIME: Final = pa.timestamp("us", tz="UTC")
_EVENT: Final = (
    pa.field(KEY, pa.binary(), nullable=False),
    pa.field(DOCUMENT, pa.binary(), nullable=False),
    pa.field(TIME, _TIME, nullable=False),
    pa.field(INCREMENT, pa.int64(), nullable=False),
    pa.field("_token", pa.string()),
)
_FURTHER: Final = {
    TableKind.CURRENT: (),
    TableKind.VERSIONS: (
        pa.field(_ENDS[0], _TIME),
        pa.field(_ENDS[1], pa.int64()),
        pa.field(_ENDS[2], pa.bool_(), nullable=False),
    ),
    TableKind.CHANGES: (pa.field("_change_type", pa.string(), nullable=False),),
}
DELETE: Final = "delete"
SCHEMA: Final = "schema"
"""The operation of a row that is no document, but says that the table got a column"""
_CHANGE_TYPES: Final = {"insert": "insert", "read": "insert", DELETE: DELETE, SCHEMA: SCHEMA}
"""As the change data feed of Delta names them; everything else is `update_postimage`"""


def own_schema(kind: TableKind) -> pa.Schema:
    """The columns that a table of a kind has beside those of the fields."""
    return pa.schema([*_EVENT, *_FURTHER[kind]])


def reserved_names(kind: TableKind) -> tuple[str, ...]:
    """The names that a table of a kind has for its own columns: for `Policy.reserved`."""
    return tuple(own_schema(kind).names)


@dataclass(frozen=True, slots=True)
class DocumentChanges:
    """What some events, in their order, do to documents."""

    keys: Sequence[bytes]
    documents: Sequence[bytes]
    """The document after the change; for a deletion its `documentKey`"""
    marks: Sequence[Mark]
    """Cluster time and token of each event; an empty token if there is none"""
    operations: Sequence[str]
    """`insert`, `update`, `replace`, `delete`, `read` for a document of the first copy, or `schema`"""

    def own_columns(self, kind: TableKind, ends: Sequence[Mark | None] | None = None) -> pa.RecordBatch:
        """The own columns of a row for each change; ``ends`` are the changes after, which end a version."""
        times = np.array([time for time, _ in self.marks], np.uint64)
        arrays = [
            pa.array(self.keys, pa.binary()),
            pa.array(self.documents, pa.binary()),
            *time_columns(times),
            pa.array([token or None for _, token in self.marks], pa.string()),
        ]
        if kind is TableKind.VERSIONS:
            arrays += _end_columns(ends or [None] * len(self.keys))
        elif kind is TableKind.CHANGES:
            types = [_CHANGE_TYPES.get(operation, "update_postimage") for operation in self.operations]
            arrays.append(pa.array(types, pa.string()))
        return pa.RecordBatch.from_arrays(arrays, schema=own_schema(kind))


def copied_columns(kind: TableKind, keys: pa.Array, documents: pa.Array, at: int) -> pa.RecordBatch:
    """The own columns of documents that were read at one cluster time: a row for each."""
    one = DocumentChanges([b""], [b""], [(at, "")], ["read"]).own_columns(kind)
    same = one.take(pa.array(np.zeros(len(keys), np.int64)))
    return pa.RecordBatch.from_arrays([keys, documents, *same.columns[2:]], schema=same.schema)


@dataclass(frozen=True, slots=True)
class KindRows:
    """What a batch adds to a table."""

    own: pa.RecordBatch
    """Own columns for each change; not every change is a row"""
    live: Rows
    past: Rows
    """Which changes are live rows, and which are past ones"""
    first: dict[bytes, Mark]
    """The keys, and the first change of each: it ends the live row that the table has"""


def rows_of(kind: TableKind, changes: DocumentChanges) -> KindRows:
    """The rows of ordered changes."""
    first: dict[bytes, Mark] = {}
    ends: list[Mark | None] = [None] * len(changes.keys)
    for row in reversed(range(len(changes.keys))):
        ends[row] = first.get(changes.keys[row])
        first[changes.keys[row]] = changes.marks[row]
    is_ended = np.array([end is not None for end in ends], np.bool_)
    is_delete = np.array([operation == DELETE for operation in changes.operations], np.bool_)
    is_live = ~is_ended & ~is_delete
    is_past = {
        TableKind.CURRENT: np.zeros(len(ends), np.bool_),
        TableKind.VERSIONS: is_ended & ~is_delete,
        TableKind.CHANGES: ~is_live,
    }[kind]
    own = changes.own_columns(kind, ends)
    return KindRows(own, np.flatnonzero(is_live), np.flatnonzero(is_past), first)


def replaced_rows(kind: TableKind, rows: pa.Table, ends: Sequence[Mark]) -> pa.Table:
    """Live rows of a table as past ones, after the changes that replaced them."""
    if kind is TableKind.VERSIONS:
        for name, column in zip(_ENDS, _end_columns(ends), strict=True):
            place = rows.schema.get_field_index(name)
            rows = rows.set_column(place, rows.schema.field(place), column)
    return rows if kind.has_past else rows.slice(0, 0)


def _end_columns(ends: Sequence[Mark | None]) -> list[pa.Array]:
    is_current = np.array([end is None for end in ends], np.bool_)
    times, increments = time_columns(np.array([end[0] if end else 0 for end in ends], np.uint64))
    return [
        pa.array(times.cast(pa.int64()).to_numpy(), _TIME, mask=is_current),
        pa.array(increments.to_numpy(), mask=is_current),
        pa.array(is_current),
    ]
