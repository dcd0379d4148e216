"""What values the fields of some documents have: enough to choose columns, and small enough to send.

Shapes of parts of a collection are merged in any order with the same result.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from tailrace.lake.columns.chunks import Rows, chunks_of
from tailrace.lake.columns.column_types import decode_name
from tailrace.lake.columns.shredded import ShreddedDocuments, ShreddedField, ShreddedItems

Mark: TypeAlias = tuple[int, str]
"""The event that a document is from: its cluster time and its resume token"""


@dataclass(slots=True)
class Seen:
    """How many values of one class there are, and the first event that has one."""

    count: int
    first: Mark
    place: int = 0
    """Which of the fields of that document it is, for the order of columns"""


@dataclass(slots=True)
class FieldShape:
    """The values of a field, or of the items of an array."""

    classes: dict[str, Seen] = field(default_factory=dict)
    """By the classes of `chunks.py`; `nulls` are not among them"""
    struct: "FieldsShape | None" = None
    items: "FieldShape | None" = None

    def merge(self, other: "FieldShape") -> None:
        for name, seen in other.classes.items():
            own = self.classes.get(name)
            if own is None:
                self.classes[name] = Seen(seen.count, seen.first, seen.place)
            else:
                own.count += seen.count
                own.first, own.place = min((own.first, own.place), (seen.first, seen.place))
        if other.struct is not None:
            self.struct = self.struct or FieldsShape()
            self.struct.merge(other.struct)
        if other.items is not None:
            self.items = self.items or FieldShape()
            self.items.merge(other.items)


@dataclass(slots=True)
class FieldsShape:
    """The fields of documents; a field that is only null is in none."""

    fields: dict[str, FieldShape] = field(default_factory=dict)

    def merge(self, other: "FieldsShape") -> None:
        """Add what other documents have."""
        for name, shape in other.fields.items():
            self.fields.setdefault(name, FieldShape()).merge(shape)

    def to_json(self) -> str:
        return json.dumps(_plain_fields(self), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "FieldsShape":
        return _read_fields(json.loads(text))


def shape_of(shredded: ShreddedDocuments, marks: Sequence[Mark] | None = None) -> FieldsShape:
    """The shape of documents that were taken apart; ``marks`` has the event of each."""
    if marks is None:
        marks = [(row, "") for row in range(shredded.count)]
    return _fields_shape(shredded, np.arange(shredded.count), marks)


def _fields_shape(fields: ShreddedDocuments, roots: Rows, marks: Sequence[Mark]) -> FieldsShape:
    found = FieldsShape()
    for name, inner in fields.by_name.items():
        shape = _field_shape(inner, roots, marks)
        if shape.classes:
            found.fields[decode_name(name)] = shape
    return found


def _field_shape(inner: ShreddedField, roots: Rows, marks: Sequence[Mark]) -> FieldShape:
    shape = FieldShape()
    for values in inner.by_kind.values():
        for chunk in chunks_of(values):
            of_documents = roots[chunk.rows]
            earliest = int(of_documents.argmin())
            place = int(chunk.of_values(values.places)[earliest])
            seen = Seen(len(chunk.rows), marks[int(of_documents[earliest])], place)
            shape.merge(FieldShape({chunk.of: seen}))
        if isinstance(values.inner, ShreddedDocuments):
            shape.struct = _fields_shape(values.inner, roots[values.rows], marks)
        elif isinstance(values.inner, ShreddedItems):
            of_items = np.repeat(roots[values.rows], values.inner.sizes)
            shape.items = _field_shape(values.inner.field, of_items, marks)
    return shape


def _plain_fields(shape: FieldsShape) -> dict[str, Any]:
    return {name: _plain(inner) for name, inner in shape.fields.items()}


def _plain(shape: FieldShape) -> dict[str, Any]:
    classes = {name: [seen.count, *seen.first, seen.place] for name, seen in shape.classes.items()}
    plain: dict[str, Any] = {"is": classes}
    if shape.struct is not None:
        plain["struct"] = _plain_fields(shape.struct)
    if shape.items is not None:
        plain["items"] = _plain(shape.items)
    return plain


def _read_fields(plain: dict[str, Any]) -> FieldsShape:
    return FieldsShape({name: _read(inner) for name, inner in plain.items()})


def _read(plain: dict[str, Any]) -> FieldShape:
    return FieldShape(
        {
            name: Seen(count, (time, token), place)
            for name, (count, time, token, place) in plain["is"].items()
        },
        _read_fields(plain["struct"]) if "struct" in plain else None,
        _read(plain["items"]) if "items" in plain else None,
    )
