"""The fields of a document from its columns, and what they must be."""

import math
from decimal import Decimal
from typing import Any
from uuid import UUID

from bson import Binary, Code, DatetimeMS, Decimal128, Int64, ObjectId

from tailrace.bson import extjson
from tailrace.bson.dates import FIRST_DATE, LAST_DATE, milliseconds_of
from tailrace.bson.documents import decode_value
from tailrace.bson.values import Symbol
from tailrace.lake.columns.column_types import JSON, ColumnType, Layout, ListType, StructType


def expected(value: Any) -> Any:
    """A decoded value as it can be compared: numbers by value, without nulls in documents."""
    if isinstance(value, dict):
        return {name: expected(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [expected(item) for item in value]
    if isinstance(value, bool | None):
        return value
    if isinstance(value, Int64 | int):
        return Decimal(value)
    if isinstance(value, float):
        return "a NaN" if math.isnan(value) else Decimal(value)
    if isinstance(value, Decimal128):
        number = value.to_decimal()
        return "a NaN" if number.is_nan() else number
    if isinstance(value, ObjectId):
        return str(value)
    if isinstance(value, Binary) and value.subtype == 4 and len(value) == 16:
        return str(UUID(bytes=bytes(value)))
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, DatetimeMS):
        return "date", int(value)
    if isinstance(value, Symbol):
        return value.text
    if isinstance(value, Code):
        return "code", str(value), expected(value.scope) if value.scope is not None else None
    return value


def document_of(row: dict[str, Any], layout: Layout) -> dict[str, Any]:
    """The fields of a row, each from the one of its columns that is not null."""
    return _struct(row, layout.root)


def _struct(row: dict[str, Any], type_: StructType) -> dict[str, Any]:
    found = {}
    for field in type_.fields:
        values = [(branch, row[branch.column]) for branch in field.branches]
        present = [(branch, value) for branch, value in values if value is not None]
        assert len(present) <= 1, (field.name, present)
        for branch, value in present:
            found[field.name] = _value(value, branch.type)
    if type_.rest is not None and row[type_.rest] is not None:
        found.update(_value(row[type_.rest], JSON))
    return found


def _value(value: Any, type_: ColumnType) -> Any:
    if value is None:
        return None
    if isinstance(type_, StructType):
        return _struct(value, type_)
    if isinstance(type_, ListType):
        return [_value(item, type_.element) for item in value]
    if type_ == JSON:
        kind, encoded = extjson.loads_value(value)
        return expected(decode_value(encoded, kind, 0, len(encoded)))
    if type_.name in ("int", "long", "double"):
        return expected(value)
    if type_.name == "timestamp":
        assert FIRST_DATE <= milliseconds_of(value) <= LAST_DATE
        return "date", milliseconds_of(value)
    return value
