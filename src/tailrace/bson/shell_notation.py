"""Format values as MongoDB's error messages show them: ``{ a: 1, b: "x" }``.

For messages only, which people and some applications read. Nothing parses this notation.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from bson import Binary, Code, DatetimeMS, Decimal128, MaxKey, MinKey, ObjectId, Regex, Timestamp

from tailrace.bson.values import DBPointer, Symbol, Undefined

_UUID_SUBTYPE = 4
_LONGEST_TEXT = 150


def shell(value: Any) -> str:
    """A value in shell notation.

    >>> shell({"a": 1, "b": ["x", None], "c": 1.0}), shell({})
    ('{ a: 1, b: [ "x", null ], c: 1.0 }', '{}')
    """
    if isinstance(value, Mapping):
        return _list("{", "}", (f"{name}: {shell(item)}" for name, item in value.items()))
    if isinstance(value, list | tuple):
        return _list("[", "]", (shell(item) for item in value))
    if isinstance(value, Binary | bytes):
        return _binary(value)
    if isinstance(value, Code):
        return str(value)
    if isinstance(value, str):
        return f'"{value if len(value) <= _LONGEST_TEXT else value[:_LONGEST_TEXT] + "..."}"'
    return _scalar(value)


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, ObjectId):
        return f"ObjectId('{value}')"
    if isinstance(value, DatetimeMS):
        return f"new Date({int(value)})"
    if isinstance(value, Timestamp):
        return f"Timestamp({value.time}, {value.inc})"
    if isinstance(value, Decimal128):
        return f'NumberDecimal("{value}")'
    if isinstance(value, Regex):
        return f"/{value.pattern if isinstance(value.pattern, str) else value.pattern.decode()}/"
    if isinstance(value, Symbol):
        return f'"{value.text}"'
    if isinstance(value, Undefined):
        return "undefined"
    if isinstance(value, DBPointer):
        return f"DBRef('{value.namespace}',{value.id})"
    if isinstance(value, MinKey | MaxKey):
        return type(value).__name__
    return str(value)


def _binary(value: Binary | bytes) -> str:
    subtype = value.subtype if isinstance(value, Binary) else 0
    if subtype == _UUID_SUBTYPE and len(value) == 16:
        return f'UUID("{UUID(bytes=bytes(value))}")'
    return f"BinData({subtype}, {value.hex().upper()})"


def _list(start: str, end: str, items: Any) -> str:
    text = ", ".join(items)
    return f"{start} {text} {end}" if text else start + end
