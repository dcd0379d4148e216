"""Rows of documents with the columns of their fields, and what a task reports of the columns.

Tasks that write beside each other begin with the same columns, and each adds what its documents need. The
driver adds the columns of all tasks to those of the table. Usually every file then fits as it is: what it
lacks is null. If two tasks gave one column two types, the files of one are written again.

With a schema that the user has given, columns are never added. Rows then come in two parts: those that fit,
and dead letters, which have the reason in place of the fields.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from tailrace.lake.columns.chunks import Rows
from tailrace.lake.columns.column_types import Layout
from tailrace.lake.columns.convert import convert
from tailrace.lake.columns.evolve import SchemaChange, evolve
from tailrace.lake.columns.fit import DEAD_LETTERS, dead_letter_columns, fit
from tailrace.lake.columns.kinds import DocumentChanges, TableKind, copied_columns, own_schema
from tailrace.lake.columns.shape import FieldsShape, Mark
from tailrace.lake.columns.shred import Documents
from tailrace.lake.mirror.data_files import widened
from tailrace.lake.mirror.layout import policy_of

LETTERS: Final = 1
"""The number of the part that has dead letters; part 0 has the rows that fit"""


def table_schema(layout: Layout, kind: TableKind) -> pa.Schema:
    """All columns of a table."""
    return pa.schema([*layout.arrow_schema(), *own_schema(kind)])


@dataclass(frozen=True, slots=True)
class TableColumns:
    """What decides the columns of a table."""

    layout: Layout = field(default_factory=Layout)
    kind: TableKind = TableKind.CURRENT
    is_given: bool = False
    """Whether the user has given the layout: what does not fit is a dead letter"""

    @property
    def schemas(self) -> list[pa.Schema]:
        """All columns of each part."""
        layouts = [self.layout, DEAD_LETTERS] if self.is_given else [self.layout]
        return [table_schema(layout, self.kind) for layout in layouts]


@dataclass(frozen=True, slots=True)
class FoundColumns:
    """The columns that a task used, and what values it has seen."""

    layout: Layout
    shape: FieldsShape


class TypedRows:
    """Makes rows, in parts; the columns grow with the documents, unless they are given."""

    def __init__(self, columns: TableColumns) -> None:
        self._columns = columns
        self._shape = FieldsShape()

    @property
    def kind(self) -> TableKind:
        return self._columns.kind

    @property
    def found(self) -> FoundColumns:
        return FoundColumns(self._columns.layout, self._shape)

    @property
    def schemas(self) -> list[pa.Schema]:
        return self._columns.schemas

    def copied(self, keys: pa.Array, documents: pa.Array, at: int) -> list[pa.Table]:
        """The rows of documents that were read at a cluster time, in their order."""
        own = copied_columns(self.kind, keys, documents, at)
        return self.rows(documents, own, [(at, "")] * len(documents))

    def changed(self, changes: DocumentChanges, own: pa.RecordBatch, chosen: Rows) -> list[pa.Table]:
        """The rows of some changes, whose own columns are given."""
        places = chosen.tolist()
        documents = [changes.documents[place] for place in places]
        return self.rows(documents, own.take(pa.array(chosen)), [changes.marks[place] for place in places])

    def rows(
        self, documents: Documents, own: pa.RecordBatch | pa.Table, marks: Sequence[Mark] | None = None
    ) -> list[pa.Table]:
        """The rows of some documents, with their own columns."""
        if self._columns.is_given:
            fitted = fit(documents, self._columns.layout)
            refused = [letter.row for letter in fitted.dead_letters]
            parts = [
                (fitted.columns, own.take(pa.array(fitted.rows))),
                (dead_letter_columns(fitted.dead_letters), own.take(pa.array(refused, pa.int64()))),
            ]
        else:
            converted = convert(documents, self._columns.layout, policy_of(self.kind), marks)
            self._columns = replace(self._columns, layout=converted.layout)
            self._shape.merge(converted.shape)
            parts = [(converted.columns, own)]
        return [
            pa.Table.from_arrays([*fields.columns, *owned.columns], schema=schema)
            for (fields, owned), schema in zip(parts, self.schemas, strict=True)
        ]

    def joined(self, tables: Sequence[pa.Table], part: int = 0) -> pa.Table:
        """Rows of a part one after another, all with the present columns."""
        schema = self.schemas[part]
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
