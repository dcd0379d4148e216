"""Put values that were taken apart into the columns of a layout."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa
from bson import Decimal128

from tailrace.bson import raw as rawbson
from tailrace.lake.columns.chunks import Chunk, Flags, Rows, chunks_of, exact_decimal
from tailrace.lake.columns.column_types import (
    VARIANT_STORAGE,
    Branch,
    ColumnType,
    FieldColumns,
    ListType,
    ScalarType,
    StructType,
    decode_name,
)
from tailrace.lake.columns.json_text import json_text, object_text, string_text
from tailrace.lake.columns.shredded import ShreddedDocuments, ShreddedField, ShreddedItems
from tailrace.lake.columns.variant import variant_of

_TEXTS: Final = (rawbson.STRING, rawbson.SYMBOL)
_INT32_END: Final = 2**31


@dataclass(frozen=True, slots=True)
class Misfit:
    """ShreddedValues that none of the columns of their field holds."""

    path: str
    of: str
    """Their class, or `missing` for a value that a given schema requires"""
    types: str
    """The columns' types"""
    rows: Rows
    """The documents, by their number"""
    values: list[str]
    """Their values as JSON"""


class Assembly:
    """Fills columns, and collects what does not fit."""

    def __init__(self, *, is_given: bool = False, refuses_others: bool = False) -> None:
        self.misfits: list[Misfit] = []
        self._is_given = is_given
        """Whether an array with an item that does not fit has no other column"""
        self._refuses_others = refuses_others
        """Whether a field without a column is a misfit"""

    def struct(self, fields: ShreddedDocuments, type_: StructType, path: str, roots: Rows) -> list[pa.Array]:
        """The columns of a struct; ``roots`` has the document of each row."""
        arrays: list[pa.Array] = []
        shredded = {decode_name(name): field for name, field in fields.by_name.items()}
        for field in type_.fields:
            inner = f"{path}.{field.name}" if path else field.name
            found = shredded.pop(field.name, None) or ShreddedField()
            arrays += self._field(found, field, fields.count, inner, roots)
        if type_.rest is not None:
            arrays.append(_rest(shredded, fields.count))
        elif self._refuses_others:
            for name, found in shredded.items():
                for values in found.by_kind.values():
                    rows = roots[values.rows]
                    inner = f"{path}.{name}" if path else name
                    shown = [_json(values.kind, value) for value in values.slices()]
                    self.misfits.append(Misfit(inner, "unknown", "no such field", rows, shown))
        return arrays

    def _field(
        self, found: ShreddedField, columns: FieldColumns, count: int, path: str, roots: Rows
    ) -> list[pa.Array]:
        placed, left = self.place(found, columns.branches, count, path, roots)
        types = ", ".join(branch.type.ddl for branch in columns.branches)
        for chunk in left:
            self.misfits.append(Misfit(path, chunk.of, types, roots[chunk.rows], _texts_of(chunk)))
        for branch, array in zip(columns.branches, placed, strict=True):
            if branch.required and array.null_count:
                missing = np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))
                self.misfits.append(Misfit(path, "missing", types, roots[missing], [""] * len(missing)))
        return placed

    def place(
        self, found: ShreddedField, branches: Sequence[Branch], count: int, path: str, roots: Rows
    ) -> tuple[list[pa.Array], list[Chunk]]:
        """Each value in the first column that holds it; and those that none holds."""
        pending = [chunk for values in found.by_kind.values() for chunk in chunks_of(values)]
        arrays = []
        for branch in branches:
            rows: list[Rows] = []
            parts: list[pa.Array] = []
            left: list[Chunk] = []
            for chunk in pending:
                array, fits = self._fitted(branch.type, chunk, path, roots)
                if array is None or fits is not None:
                    left.append(chunk if fits is None else chunk.chosen(~fits))
                if array is not None and len(array):
                    rows.append(chunk.rows if fits is None else chunk.rows[fits])
                    parts.append(array)
            pending = left
            arrays.append(_spread(rows, parts, count, branch.type.arrow))
        return arrays, pending

    def _fitted(
        self, type_: ColumnType, chunk: Chunk, path: str, roots: Rows
    ) -> tuple[pa.Array | None, Flags | None]:
        """The values that fit as an array of a type, and which these are.

        No array: none fits. An array without flags: all fit.
        """
        if isinstance(type_, StructType):
            inner = chunk.values.inner
            if chunk.of != "struct" or not isinstance(inner, ShreddedDocuments):
                return None, None
            columns = self.struct(inner, type_, path, roots[chunk.rows])
            return pa.StructArray.from_arrays(columns, fields=[*type_.arrow]), None
        if isinstance(type_, ListType):
            inner = chunk.values.inner
            if chunk.of != "array" or not isinstance(inner, ShreddedItems):
                return None, None
            return self._lists(type_, inner, path, roots[chunk.rows])
        fit = _FITS.get((type_.name, chunk.of)) or _FITS.get((type_.name, "*"))
        return (None, None) if fit is None else fit(chunk, type_)

    def _lists(
        self, type_: ListType, items: ShreddedItems, path: str, roots: Rows
    ) -> tuple[pa.Array, Flags | None]:
        sizes = items.sizes
        owners = np.repeat(np.arange(len(sizes)), sizes)
        branch = Branch("element", type_.element)
        (array,), left = self.place(items.field, [branch], items.count, f"{path}[]", roots[owners])
        fits: Flags | None = None
        if left:
            fits = np.ones(len(sizes), np.bool_)
            for chunk in left:
                fits[owners[chunk.rows]] = False
                if self._is_given:
                    of_items = roots[owners[chunk.rows]]
                    shown = _texts_of(chunk)
                    self.misfits.append(Misfit(f"{path}[]", chunk.of, type_.element.ddl, of_items, shown))
            array = array.filter(pa.array(fits[owners]))
            sizes = sizes[fits]
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), array, type=type_.arrow), fits


def _spread(rows: list[Rows], parts: list[pa.Array], count: int, type_: pa.DataType) -> pa.Array:
    """ShreddedValues at their rows, null elsewhere."""
    if not parts:
        return pa.nulls(count, type_)
    array = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
    taken = rows[0] if len(rows) == 1 else np.concatenate(rows)
    if len(taken) == count and (taken == np.arange(count)).all():
        return array
    places = np.full(count, -1, np.int64)
    places[taken] = np.arange(len(taken))
    return array.take(pa.array(places, mask=places < 0))


def _rest(fields: dict[str, ShreddedField], count: int) -> pa.Array:
    """The fields that have no column, as one object of JSON for each document."""
    found: dict[int, list[tuple[bytes, str]]] = {}
    for name, field in fields.items():
        for values in field.by_kind.values():
            for row, value in zip(values.rows.tolist(), values.slices(), strict=True):
                found.setdefault(row, []).append((name.encode(), _json(values.kind, value)))
    return pa.array([object_text(found[row]) if row in found else None for row in range(count)], pa.string())


def _json(kind: int, value: bytes) -> str:
    return string_text(value) if kind in _TEXTS else json_text(value, kind)


_Fitted = tuple[pa.Array | None, Flags | None]


def _as_is(chunk: Chunk, _type: ScalarType) -> _Fitted:
    return chunk.array, None


def _cast(chunk: Chunk, type_: ScalarType) -> _Fitted:
    assert chunk.array is not None
    return chunk.array.cast(type_.arrow), None


def _as_int(chunk: Chunk, _type: ScalarType) -> _Fitted:
    assert chunk.array is not None
    numbers = chunk.array.to_numpy()
    fits = (numbers >= -_INT32_END) & (numbers < _INT32_END)
    if fits.all():
        return pa.array(numbers.astype(np.int32)), None
    return pa.array(numbers[fits].astype(np.int32)), fits


def _as_decimal(chunk: Chunk, type_: ScalarType) -> _Fitted:
    if chunk.kind == rawbson.DECIMAL128:
        found = [Decimal128.from_bid(value).to_decimal() for value in chunk.slices()]
    else:
        assert chunk.array is not None
        found = [Decimal(number) for number in chunk.array.to_pylist()]
    numbers = [exact_decimal(number, type_.scale, type_.precision) for number in found]
    fits = np.array([number is not None for number in numbers])
    array = pa.array([number for number in numbers if number is not None], type_.arrow)
    return array, None if fits.all() else fits


def _texts_of(chunk: Chunk) -> list[str]:
    return [_json(chunk.kind, value) for value in chunk.slices()]


def _as_json(chunk: Chunk, _type: ScalarType) -> _Fitted:
    return pa.array(_texts_of(chunk), pa.string()), None


def _as_variant(chunk: Chunk, _type: ScalarType) -> _Fitted:
    pairs = []
    for value in chunk.slices():
        whole = rawbson.framed(value) if chunk.kind in _TEXTS else value
        encoded, metadata = variant_of(whole, chunk.kind, 0, len(whole))
        pairs.append({"metadata": metadata, "value": encoded})
    return pa.array(pairs, VARIANT_STORAGE), None


_FITS: Final[dict[tuple[str, str], Callable[[Chunk, ScalarType], _Fitted]]] = {
    ("boolean", "boolean"): _as_is,
    **{("int", of): _as_int for of in ("int", "whole")},
    **{("long", of): _as_is for of in ("int", "wide")},
    ("long", "whole"): _cast,
    **{("double", of): _as_is for of in ("whole", "fraction")},
    ("double", "int"): _cast,
    **{("decimal", of): _as_decimal for of in ("int", "wide", "whole", "decimal", "far_decimal")},
    ("string", "string"): _as_is,
    **{("text", of): _as_is for of in ("string", "objectid", "uuid")},
    ("objectid", "objectid"): _as_is,
    ("uuid", "uuid"): _as_is,
    **{("binary", of): _as_is for of in ("binary", "bytes")},
    ("timestamp", "date"): _as_is,
    ("json", "*"): _as_json,
    ("variant", "*"): _as_variant,
}
"""How the values of a class become those of a type; `*` is every class"""
