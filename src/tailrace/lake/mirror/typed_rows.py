"""Rows of documents with the columns of their fields, and what a task reports of the columns.

Tasks that write beside each other begin with the same columns, and each adds what its documents need. The
driver adds the columns of all tasks to those of the table. Usually every file then fits as it is: what it
lacks is null. If two tasks gave one column two types, the files of one are written again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tailrace.lake.columns.chunks import Rows
from tailrace.lake.columns.column_types import Layout
from tailrace.lake.columns.convert import convert
from tailrace.lake.columns.evolve import SchemaChange, evolve
from tailrace.lake.columns.kinds import DocumentChanges, TableKind, own_schema
from tailrace.lake.columns.shape import FieldsShape, Mark
from tailrace.lake.mirror.data_files import widened
from tailrace.lake.mirror.layout import policy_of, row_key


def table_schema(layout: Layout, kind: TableKind) -> pa.Schema:
    """All columns of a table."""
    return pa.schema([*layout.arrow_schema(), *own_schema(kind)])


@dataclass(frozen=True, slots=True)
class FoundColumns:
    """The columns that a task used, and what values it has seen."""

    layout: Layout
    shape: FieldsShape


class TypedRows:
    """Makes rows; its columns grow with the documents."""

    def __init__(self, layout: Layout, kind: TableKind = TableKind.CURRENT) -> None:
        self.kind = kind
        self._layout = layout
        self._policy = policy_of(kind)
        self._shape = FieldsShape()

    @property
    def found(self) -> FoundColumns:
        return FoundColumns(self._layout, self._shape)

    @property
    def schema(self) -> pa.Schema:
        return table_schema(self._layout, self.kind)

    def copied(self, documents: Sequence[bytes], at: int) -> pa.Table:
        """The rows of documents that were read at a cluster time, in their order."""
        count = len(documents)
        read = DocumentChanges(list(map(row_key, documents)), documents, [(at, "")] * count, ["read"] * count)
        return self._rows(documents, read.marks, read.own_columns(self.kind))

    def changed(self, changes: DocumentChanges, own: pa.RecordBatch, chosen: Rows) -> pa.Table:
        """The rows of some changes, whose own columns are given."""
        places = chosen.tolist()
        documents = [changes.documents[place] for place in places]
        return self._rows(documents, [changes.marks[place] for place in places], own.take(pa.array(chosen)))

    def _rows(self, documents: Sequence[bytes], marks: Sequence[Mark], own: pa.RecordBatch) -> pa.Table:
        converted = convert(list(documents), self._layout, self._policy, marks)
        self._layout = converted.layout
        self._shape.merge(converted.shape)
        return pa.Table.from_arrays([*converted.columns.columns, *own.columns], schema=self.schema)

    def joined(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Rows one after another, all with the present columns."""
        schema = self.schema
        if not tables:
            return schema.empty_table()
        return pa.concat_tables([widened(table, schema) for table in tables]).combine_chunks()


def agreed(
    layout: Layout, kind: TableKind, found: Sequence[FoundColumns]
) -> tuple[Layout, list[SchemaChange]]:
    """The columns of a table after what some tasks have seen."""
    changes: list[SchemaChange] = []
    for each in found:
        layout, further = evolve(layout, each.shape, policy_of(kind))
        changes += further
    return layout, changes


def fits(found: FoundColumns, layout: Layout) -> bool:
    """Whether the files of a task can be part of a table with these columns."""
    return _is_within(pa.struct(list(found.layout.arrow_schema())), pa.struct(list(layout.arrow_schema())))


def _is_within(part: Any, whole: Any) -> bool:
    if pa.types.is_struct(part) and pa.types.is_struct(whole):
        names = {field.name: field.type for field in whole}
        return all(field.name in names and _is_within(field.type, names[field.name]) for field in part)
    if pa.types.is_list(part) and pa.types.is_list(whole):
        return _is_within(part.value_type, whole.value_type)
    return bool(part == whole)
