"""BSON documents to the columns of a table, many at a time; the table gets the columns that it needs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tailrace.lake.columns.assemble import Assembly
from tailrace.lake.columns.column_types import Layout
from tailrace.lake.columns.evolve import DEFAULT, Policy, SchemaChange, evolve
from tailrace.lake.columns.shape import FieldsShape, Mark, shape_of
from tailrace.lake.columns.shred import Documents, shred


@dataclass(frozen=True, slots=True)
class Converted:
    """Some documents as columns."""

    columns: pa.RecordBatch
    """One row for each document"""
    layout: Layout
    """The columns after the documents: those before, and what was added for them"""
    changes: list[SchemaChange]
    shape: FieldsShape
    """What values the documents have, for a driver that lets several tasks agree on columns"""


def infer(documents: Documents, marks: Sequence[Mark] | None = None) -> FieldsShape:
    """What values the documents have; raises `BsonError` if one is damaged.

    ``marks`` has the cluster time and the token of each document's event, for the records of schema changes.
    """
    return shape_of(shred(documents), marks)


def convert(
    documents: Documents,
    layout: Layout,
    policy: Policy = DEFAULT,
    marks: Sequence[Mark] | None = None,
) -> Converted:
    """Documents as columns, with new columns for what the layout has none for.

    Every value that is not null is in exactly one column. Raises `BsonError` if a document is damaged.
    """
    fields = shred(documents)
    shape = shape_of(fields, marks)
    after, changes = evolve(layout, shape, policy)
    assembly = Assembly()
    arrays = assembly.struct(fields, after.root, "", np.arange(fields.count))
    assert not assembly.misfits, assembly.misfits
    return Converted(batch_of(arrays, after, fields.count), after, changes, shape)


def batch_of(arrays: list[pa.Array], layout: Layout, count: int) -> pa.RecordBatch:
    """The columns of a layout; a batch without columns has rows, too."""
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=layout.arrow_schema())
    return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
