"""Columns of BSON, such as those of the history, as something that a query can look into.

Each function takes and returns Arrow, so that DuckDB can call it as a function, and Polars on a column.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tailrace.bson import raw as rawbson
from tailrace.errors import BsonError
from tailrace.lake.bulk.splicing import Bytes, Group, Piece, slices_of, spliced
from tailrace.lake.columns.bulk.alike import AlikeGroup, UnevenError, groups_of, padded_buffer
from tailrace.lake.columns.bulk.json_texts import write_json
from tailrace.lake.columns.bulk.pieces import written_groups
from tailrace.lake.columns.bulk.variants import write_variants
from tailrace.lake.columns.column_types import VARIANT_STORAGE, Layout
from tailrace.lake.columns.convert import batch_of, convert
from tailrace.lake.columns.evolve import Policy
from tailrace.lake.columns.json_text import json_text
from tailrace.lake.columns.variant import variant_of


def bson_to_json(column: Any) -> pa.Array:
    """A column of BSON documents as relaxed Extended JSON; null stays null.

    ``column`` is an Arrow array, or anything that becomes one. Raises `BsonError` if a document is damaged.

    >>> bson_to_json([bytes.fromhex("0c0000001061000100000000"), None]).to_pylist()
    ['{"a": 1}', None]
    """
    found = _binary(column)
    (texts,) = _written(
        found,
        lambda data, group: [write_json(data, group, relaxed=True)],
        lambda document: [json_text(document).encode()],
    )
    try:
        return texts.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise BsonError(f"a document has text that is not UTF-8: {error}") from None


def bson_to_variant(column: Any) -> pa.Array:
    """A column of BSON documents as Parquet stores a VARIANT, a struct of two byte strings; null stays null.

    Raises `BsonError` if a document is damaged.
    """
    found = _binary(column)
    value, metadata = _written(
        found, write_variants, lambda document: variant_of(document, rawbson.DOCUMENT, 0, len(document))
    )
    parts = [metadata.fill_null(b""), value.fill_null(b"")]
    return pa.StructArray.from_arrays(parts, fields=[*VARIANT_STORAGE], mask=found.is_null())


def _written(
    column: pa.Array,
    write: Callable[[Bytes, AlikeGroup], Sequence[Sequence[Piece]]],
    write_one: Callable[[bytes], Sequence[bytes]],
) -> list[pa.Array]:
    """What documents become, in one or more columns: those that are alike together, the others one by one."""
    present = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    documents = column.drop_null()
    data, offsets = padded_buffer(documents)
    try:
        groups, odd = groups_of(data, offsets[:-1], offsets[1:], in_depth=True)
        written, apart = written_groups(groups, lambda group: write(data, group))
    except UnevenError:
        written, apart, odd = [], [], np.arange(len(documents))
    parts = [[Group(present[rows], pieces) for pieces in columns] for rows, columns in written]
    single = np.concatenate([odd, *apart])
    if len(single):
        values = zip(*[write_one(documents[int(row)].as_py()) for row in single], strict=True)
        parts.append([Group(present[single], [slices_of(of_column)]) for of_column in values])
    count = len(write_one(rawbson.EMPTY))
    return [spliced(len(column), [part[place] for part in parts], pa.binary()) for place in range(count)]


def bson_to_columns(column: Any, conflicts: str = "branches") -> pa.Table:
    """A column of BSON documents as a table with a column for each field; a row for each document.

    A null is a row of nulls. ``conflicts`` is that of `Policy`. Raises `BsonError` if a document is damaged.
    """
    found = _binary(column)
    places = np.cumsum(found.is_valid().to_numpy(zero_copy_only=False)) - 1
    converted = convert(found.drop_null(), Layout(), Policy(conflicts)).columns
    if not converted.num_columns:
        return pa.Table.from_batches([batch_of([], Layout(), len(found))])
    taken = pa.array(places, mask=found.is_null().to_numpy(zero_copy_only=False))
    return pa.Table.from_batches([converted]).take(taken)


def _binary(column: Any) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if not isinstance(column, pa.Array):
        column = pa.array(column)
    return column.cast(pa.binary())
