"""Format values as MongoDB's error messages show them: ``{ a: 1, b: "x" }``.

For messages only, which people and some applications read. Nothing parses this notation.
"""

from collections.abc import Iterator, Mapping
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
    return "".join(_parts(value))


def shell_beginning(value: Any, length: int) -> str:
    """The first characters of a value in shell notation, if it is longer; quick for a value of any size.

    >>> shell_beginning({"a": list(range(10**6))}, 20)
    '{ a: [ 0, 1, 2, 3...'
    """
    parts: list[str] = []
    size = 0
    for part in _parts(value):
        parts.append(part)
        size += len(part)
        if size > length:
            return "".join(parts)[: length - 3] + "..."
    return "".join(parts)


def _parts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield "{"
        for number, (name, item) in enumerate(value.items()):
            yield f"{', ' if number else ' '}{name}: "
            yield from _parts(item)
        yield " }" if value else "}"
    elif isinstance(value, list | tuple):
        yield "["
        for number, item in enumerate(value):
            yield ", " if number else " "
            yield from _parts(item)
        yield " ]" if value else "]"
    elif isinstance(value, Binary | bytes):
        yield _binary(value)
    elif isinstance(value, Code):
        yield str(value)
    elif isinstance(value, str):
        yield f'"{value if len(value) <= _LONGEST_TEXT else value[:_LONGEST_TEXT] + "..."}"'
    else:
        yield _scalar(value)


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
