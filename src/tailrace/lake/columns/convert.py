"""BSON documents to the columns of a table, many at a time; the table gets the columns that it needs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from tailrace.bson import raw as rawbson
from tailrace.errors import BsonError
from tailrace.lake.columns.assemble import Assembly
from tailrace.lake.columns.column_types import Layout
from tailrace.lake.columns.evolve import DEFAULT, Policy, SchemaChange, evolve
from tailrace.lake.columns.shape import FieldsShape, Mark, shape_of
from tailrace.lake.columns.shred import ShreddedDocuments, ShreddedItems, ShreddedValues, shred

Documents: TypeAlias = Sequence[bytes] | pa.Array | pa.ChunkedArray


@dataclass(frozen=True, slots=True)
class Converted:
    """Some documents as columns."""

    columns: pa.RecordBatch
    """One row for each document"""
    layout: Layout
    """The columns after the documents: those before, and what was added for them"""
    changes: list[SchemaChange]


def infer(documents: Documents, marks: Sequence[Mark] | None = None) -> FieldsShape:
    """What values the documents have; raises `BsonError` if one is damaged.

    ``marks`` has the cluster time and the token of each document's event, for the records of schema changes.
    """
    return shape_of(shredded(listed(documents)), marks)


def convert(
    documents: Documents,
    layout: Layout,
    policy: Policy = DEFAULT,
    marks: Sequence[Mark] | None = None,
) -> Converted:
    """Documents as columns, with new columns for what the layout has none for.

    Every value that is not null is in exactly one column. Raises `BsonError` if a document is damaged:
    `is_damaged` finds it.
    """
    fields = shredded(listed(documents))
    after, changes = evolve(layout, shape_of(fields, marks), policy)
    assembly = Assembly()
    arrays = assembly.struct(fields, after.root, "", np.arange(fields.count))
    assert not assembly.misfits, assembly.misfits
    return Converted(batch_of(arrays, after, fields.count), after, changes)


def is_damaged(document: bytes) -> bool:
    """Whether a document is no BSON, and so has no columns."""
    try:
        shred([document])
    except BsonError:
        return True
    return False


def batch_of(arrays: list[pa.Array], layout: Layout, count: int) -> pa.RecordBatch:
    """The columns of a layout; a batch without columns has rows, too."""
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=layout.arrow_schema())
    return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))


def listed(documents: Documents) -> Sequence[bytes]:
    """Documents as a sequence of their bytes."""
    found: Sequence[bytes] = (
        documents.to_pylist() if isinstance(documents, pa.Array | pa.ChunkedArray) else documents
    )
    return found


def shredded(documents: Sequence[bytes]) -> ShreddedDocuments:
    """Documents taken apart, each of their fields once; raises `BsonError` if one is damaged."""
    fields = shred(documents)
    if _has_repeats(fields):
        fields = shred(without_repeats(document) for document in documents)
    return fields


def _has_repeats(inner: ShreddedDocuments | ShreddedItems | None) -> bool:
    """Whether a document has two fields with the same name."""
    if inner is None:
        return False
    if isinstance(inner, ShreddedDocuments):
        for field in inner.by_name.values():
            rows = np.concatenate([np.array(values.rows, np.int64) for values in field.by_kind.values()])
            if len(rows) > len(np.unique(rows)):
                return True
        found: Iterable[ShreddedValues] = (
            values for field in inner.by_name.values() for values in field.by_kind.values()
        )
    else:
        found = inner.field.by_kind.values()
    return any(_has_repeats(values.inner) for values in found)


def without_repeats(raw: bytes) -> bytes:
    """The document with the last one of the fields that have the same name, as drivers read it."""
    own: dict[bytes, bytes] = {}
    for kind, name, start, end in rawbson.elements(raw):
        own.pop(name, None)
        value = raw[start:end]
        if kind == rawbson.DOCUMENT:
            value = without_repeats(value)
        elif kind == rawbson.ARRAY:
            value = _each_without_repeats(value)
        own[name] = rawbson.element(kind, name, value)
    return rawbson.document(*own.values())


def _each_without_repeats(raw: bytes) -> bytes:
    items = []
    for kind, name, start, end in rawbson.elements(raw):
        value = raw[start:end]
        if kind == rawbson.DOCUMENT:
            value = without_repeats(value)
        elif kind == rawbson.ARRAY:
            value = _each_without_repeats(value)
        items.append(rawbson.element(kind, name, value))
    return rawbson.document(*items)
