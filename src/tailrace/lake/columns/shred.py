"""Take documents apart: fields, and what is inside of nested documents and arrays."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from tailrace.bson import raw as rawbson
from tailrace.lake.bulk.splicing import Positions
from tailrace.lake.columns.bulk.alike import padded_buffer
from tailrace.lake.columns.elements import ElementReader
from tailrace.lake.columns.shredded import (
    ShreddedDocuments,
    ShreddedField,
    ShreddedItems,
    ShreddedValues,
    ValueRun,
)

Documents: TypeAlias = Sequence[bytes] | pa.Array | pa.ChunkedArray


def shred(documents: Documents) -> ShreddedDocuments:
    """Take documents apart, each field once; raises `BsonError` if one is damaged.

    Of fields with the same name the last one counts, as in drivers.
    """
    if isinstance(documents, pa.ChunkedArray):
        documents = documents.combine_chunks()
    column = documents if isinstance(documents, pa.Array) else pa.array(documents, pa.binary())
    fields = _shredded(column)
    if any(_are_repeated(fields)):
        fields = _shredded(pa.array([*map(without_repeats, column.to_pylist())], pa.binary()))
    return fields


def _shredded(column: pa.Array) -> ShreddedDocuments:
    data, offsets = padded_buffer(column)
    fields = ShreddedDocuments()
    fields.count = len(column)
    _fill(ElementReader(data), offsets[:-1], offsets[1:], fields)
    return fields


def _fill(reader: ElementReader, starts: Positions, ends: Positions, fields: ShreddedDocuments) -> None:
    found, _ = reader.read(starts, ends, are_arrays=False)
    for head, runs in found.items():
        values = ShreddedValues(reader.data, head[0], runs, fields.level)
        fields.by_name.setdefault(head[1:], ShreddedField()).by_kind[head[0]] = values
        _fill_inside(reader, values)


def _fill_inside(reader: ElementReader, values: ShreddedValues) -> None:
    inner = values.inner
    if isinstance(inner, ShreddedDocuments):
        inner.count = len(values.rows)
        _fill(reader, values.starts, values.ends, inner)
    elif inner is not None:
        found, inner.sizes = reader.read(values.starts, values.ends, are_arrays=True)
        inner.count = int(inner.sizes.sum())
        before = np.cumsum(inner.sizes) - inner.sizes
        for head, runs in found.items():
            # The items of an array follow each other.
            of_items = [
                ValueRun(before[run.rows] + run.places, run.starts, run.ends, run.places) for run in runs
            ]
            items = ShreddedValues(reader.data, head[0], of_items, inner.level)
            inner.field.by_kind[head[0]] = items
            _fill_inside(reader, items)


def _are_repeated(inner: ShreddedDocuments | ShreddedItems) -> Iterator[bool]:
    """Whether a document has a field twice, for each field, and for those inside."""
    if isinstance(inner, ShreddedDocuments):
        for field in inner.by_name.values():
            rows = np.concatenate([values.rows for values in field.by_kind.values()])
            yield len(rows) > inner.count or bool((np.bincount(rows, minlength=1) > 1).any())
    for values in inner.inside():
        if values.inner is not None:
            yield from _are_repeated(values.inner)


def without_repeats(raw: bytes, kind: int = rawbson.DOCUMENT) -> bytes:
    """The document with the last one of the fields that have the same name, as drivers read it."""
    own: dict[bytes | int, bytes] = {}
    for place, (inner, name, start, end) in enumerate(rawbson.elements(raw)):
        value = raw[start:end]
        if inner in (rawbson.DOCUMENT, rawbson.ARRAY):
            value = without_repeats(value, inner)
        # The items of an array have places, whatever their names are.
        key: bytes | int = name if kind == rawbson.DOCUMENT else place
        own.pop(key, None)
        own[key] = rawbson.element(inner, name, value)
    return rawbson.document(*own.values())
