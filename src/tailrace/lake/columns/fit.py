"""Documents in the columns of a given schema; those that do not fit are dead letters, with the reason."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from tailrace.errors import BsonError
from tailrace.lake.columns.assemble import Assembly, Misfit
from tailrace.lake.columns.chunks import Flags, Rows
from tailrace.lake.columns.column_types import STRING, Branch, FieldColumns, Layout, StructType
from tailrace.lake.columns.convert import batch_of
from tailrace.lake.columns.shred import Documents, shred

DEAD_LETTERS: Final = Layout(StructType(tuple(
    FieldColumns(name, (Branch(name, STRING, required=True),)) for name in ("_path", "_reason")
)))  # fmt: skip
"""The columns that a table of dead letters has in place of those of the fields"""

_MAX_SHOWN: Final = 80
_WORDS: Final = {
    "boolean": "a boolean",
    "int": "a whole number",
    "wide": "a whole number above 2^53",
    "whole": "a double",
    "fraction": "a double with a fraction",
    "decimal": "a decimal",
    "far_decimal": "a decimal out of range",
    "string": "a string",
    "bytes": "a string that is no UTF-8",
    "objectid": "an ObjectId",
    "uuid": "a UUID",
    "binary": "binary data",
    "date": "a date",
    "far_date": "a date out of range",
    "struct": "a document",
    "array": "an array",
    "deep": "a value that is nested too deeply",
    "other": "a value of a type that only JSON and VARIANT have",
}


@dataclass(frozen=True, slots=True)
class RefusedDocument:
    """A document that is not in the table, and why."""

    row: int
    """Which of the documents"""
    path: str
    """The first field that does not fit"""
    reason: str


def dead_letter_columns(letters: Sequence[RefusedDocument]) -> pa.RecordBatch:
    """The columns of some dead letters."""
    arrays = [
        pa.array([letter.path for letter in letters], pa.string()),
        pa.array([letter.reason for letter in letters], pa.string()),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=DEAD_LETTERS.arrow_schema())


@dataclass(frozen=True, slots=True)
class Fitted:
    """Documents in the columns of a given schema."""

    columns: pa.RecordBatch
    rows: Rows
    """Which document each row is"""
    dead_letters: list[RefusedDocument]


def fit(documents: Documents, layout: Layout, *, refuse_other_fields: bool = False) -> Fitted:
    """Documents in the columns of a given layout, and the ones that do not fit.

    A field that the layout does not have is only in the document's BSON, unless ``refuse_other_fields``. Dead
    letters are replayed by another call, after the schema was changed.
    """
    raws: Sequence[bytes] = documents.to_pylist() if hasattr(documents, "to_pylist") else documents
    reasons: dict[int, tuple[str, str]] = {}
    try:
        fields, sound = shred(raws), np.arange(len(raws))
    except BsonError:
        sound = _sound(raws, reasons)
        fields = shred([raws[row] for row in sound.tolist()])
    assembly = Assembly(is_given=True, refuses_others=refuse_other_fields)
    batch = batch_of(assembly.struct(fields, layout.root, "", np.arange(fields.count)), layout, fields.count)
    fits: Flags = np.ones(fields.count, np.bool_)
    for misfit in assembly.misfits:
        fits[misfit.rows] = False
        for row, value in zip(misfit.rows.tolist(), misfit.values, strict=True):
            reasons.setdefault(int(sound[row]), (misfit.path, _reason(misfit, value)))
    letters = [RefusedDocument(row, *reasons[row]) for row in sorted(reasons)]
    return Fitted(batch.filter(pa.array(fits)), sound[fits], letters)


def _sound(raws: Sequence[bytes], reasons: dict[int, tuple[str, str]]) -> Rows:
    """The documents that are BSON."""
    for row, raw in enumerate(raws):
        try:
            shred([raw])
        except BsonError as error:
            reasons[row] = "", f"the document is no BSON: {error}"
    return np.array([row for row in range(len(raws)) if row not in reasons], np.int64)


def _reason(misfit: Misfit, value: str) -> str:
    if misfit.of == "missing":
        return f"the schema has {misfit.types} that is not null, the document has no value"
    shown = value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]}..."
    found = f"{_WORDS.get(misfit.of, 'one')}: {shown}"
    return f"the schema has {misfit.types}, the document has {found}"
