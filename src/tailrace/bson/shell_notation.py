"""Format values as MongoDB's error messages show them: ``{ a: 1, b: "x" }``.

For messages only, which people and some applications read. Nothing parses this notation.
"""

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from bson import Binary, Code, DatetimeMS, MaxKey, MinKey, ObjectId, Regex, Timestamp

from tailrace.bson.regex_parts import regex_options, regex_pattern
from tailrace.bson.values import DBPointer, Symbol, Undefined

_UUID_SUBTYPE = 4
_SHORTENED_FROM, _SHOWN = 160, 150


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
        yield str(value) if value.scope is None else f"CodeWScope( {value}, {shell(value.scope)})"
    elif isinstance(value, str):
        yield f'"{value if len(value) < _SHORTENED_FROM else value[:_SHOWN] + "..."}"'
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
    if isinstance(value, float):
        return _double(value)
    if isinstance(value, Regex):
        return f"/{regex_pattern(value)}/{regex_options(value)}"
    if isinstance(value, Symbol):
        return f'"{value.text}"'
    if isinstance(value, Undefined):
        return "undefined"
    if isinstance(value, DBPointer):
        return f"DBRef('{value.namespace}',{value.id})"
    if isinstance(value, MinKey | MaxKey):
        return type(value).__name__
    return str(value)


def _double(value: float) -> str:
    """Sixteen digits, and always a point: also ``nan.0`` and ``1e+300.0``, as a server shows them."""
    text = f"{value:.16g}"
    return text if "." in text else f"{text}.0"


def _binary(value: Binary | bytes) -> str:
    subtype = value.subtype if isinstance(value, Binary) else 0
    if subtype == _UUID_SUBTYPE and len(value) == 16:
        return f'UUID("{UUID(bytes=bytes(value))}")'
    return f"BinData({subtype}, {value.hex().upper()})"
