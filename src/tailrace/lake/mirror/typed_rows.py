"""Rows of documents with the columns of their fields, and what a task reports of the columns.

Tasks that write beside each other begin with the same columns, and each adds what its documents need. The
driver adds the columns of all tasks to those of the table. Usually every file then fits as it is: what it
lacks is null. If two tasks gave one column two types, the files of one are written again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tailrace.lake.columns.column_types import Layout
from tailrace.lake.columns.convert import convert
from tailrace.lake.columns.evolve import SchemaChange, evolve
from tailrace.lake.columns.shape import FieldsShape
from tailrace.lake.mirror.data_files import widened
from tailrace.lake.mirror.layout import OWN_SCHEMA, POLICY, row_key
from tailrace.lake.schema import time_columns


def table_schema(layout: Layout) -> pa.Schema:
    """All columns of a table."""
    return pa.schema([*layout.arrow_schema(), *OWN_SCHEMA])


@dataclass(frozen=True, slots=True)
class FoundColumns:
    """The columns that a task used, and what values it has seen."""

    layout: Layout
    shape: FieldsShape


class TypedRows:
    """Makes rows; its columns grow with the documents."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._shape = FieldsShape()

    @property
    def found(self) -> FoundColumns:
        return FoundColumns(self._layout, self._shape)

    @property
    def schema(self) -> pa.Schema:
        return table_schema(self._layout)

    def rows(
        self, documents: Sequence[bytes], times: Sequence[int] | int, tokens: Sequence[str | None] = ()
    ) -> pa.Table:
        """The rows of some documents, in their order; ``times`` and ``tokens`` are of their last changes."""
        count = len(documents)
        moments = np.full(count, times, np.uint64) if isinstance(times, int) else np.array(times, np.uint64)
        named = tokens or [None] * count
        marks = [(time, token or "") for time, token in zip(moments.tolist(), named, strict=True)]
        converted = convert(list(documents), self._layout, POLICY, marks)
        self._layout = converted.layout
        self._shape.merge(converted.shape)
        own: list[pa.Array] = [
            pa.array(list(map(row_key, documents)), pa.binary()),
            pa.array(documents, pa.binary()),
            *time_columns(moments),
            pa.array(named, pa.string()),
        ]
        return pa.Table.from_arrays([*converted.columns.columns, *own], schema=self.schema)

    def joined(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Rows one after another, all with the present columns."""
        schema = self.schema
        if not tables:
            return schema.empty_table()
        return pa.concat_tables([widened(table, schema) for table in tables]).combine_chunks()


def agreed(layout: Layout, found: Sequence[FoundColumns]) -> tuple[Layout, list[SchemaChange]]:
    """The columns of a table after what some tasks have seen."""
    changes: list[SchemaChange] = []
    for each in found:
        layout, further = evolve(layout, each.shape, POLICY)
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
