"""BSON values as relaxed Extended JSON: numbers, text and booleans as JSON has them, for queries.

Integers lose whether they have 32 or 64 bits, and text that is no UTF-8 is escaped.
"""

import math
import struct
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Final

from tailrace.bson import extjson
from tailrace.bson import raw as rawbson
from tailrace.bson.dates import LAST_DATE, iso_date
from tailrace.errors import BsonError

_read_int32 = rawbson.INT32_LE.unpack_from
_read_int64 = rawbson.INT64_LE.unpack_from
_read_double = struct.Struct("<d").unpack_from


def json_text(raw: bytes, kind: int = rawbson.DOCUMENT) -> str:
    """A value's bytes as JSON.

    >>> json_text(extjson.loads('{"n": {"$numberLong": "5"}, "at": {"$date": {"$numberLong": "0"}}}'))
    '{"n": 5, "at": {"$date": "1970-01-01T00:00:00.000Z"}}'
    """
    try:
        if kind == rawbson.DOCUMENT and _read_int32(raw, 0)[0] != len(raw):
            raise BsonError(f"a document of {len(raw)} bytes has another length")
        return _text(raw, kind, 0, len(raw))
    except RecursionError:
        raise BsonError("the document is nested too deeply") from None
    except (struct.error, IndexError):
        raise BsonError("a value runs past the end of its document") from None


def string_text(text: bytes) -> str:
    """A string's bytes as JSON."""
    return encode_basestring(text.decode(errors="backslashreplace"))


def object_text(elements: list[tuple[bytes, str]]) -> str:
    """Names and values that are JSON already, as an object."""
    return f"{{{', '.join(f'{string_text(name)}: {value}' for name, value in elements)}}}"


def _text(raw: bytes, kind: int, start: int, end: int) -> str:
    write = _WRITERS.get(kind)
    if write is not None:
        return write(raw, start, end)
    return _wrapped(raw[start:end], kind)


def _wrapped(value: bytes, kind: int) -> str:
    """A value as canonical Extended JSON has it."""
    try:
        text = extjson.dumps_canonical(rawbson.document(rawbson.element(kind, b"", value)))
    except BsonError:
        if kind == rawbson.BINARY:
            # A binary value of the old subtype that has no second length: its bytes are shown as they are.
            return _wrapped(value[:4] + b"\0" + value[5:], kind)
        # Text that is no UTF-8: bytes that are none are replaced as in `string_text`.
        return string_text(value)
    return text[len('{"": ') : -1]


def _document(raw: bytes, start: int, _end: int) -> str:
    # Of fields with the same name the last one counts, as in drivers.
    own = {name: _text(raw, kind, first, last) for kind, name, first, last in rawbson.elements(raw, start)}
    return object_text([*own.items()])


def _array(raw: bytes, start: int, _end: int) -> str:
    items = [_text(raw, kind, first, last) for kind, _, first, last in rawbson.elements(raw, start)]
    return f"[{', '.join(items)}]"


def _double(raw: bytes, start: int, end: int) -> str:
    number = _read_double(raw, start)[0]
    return repr(number) if math.isfinite(number) else _wrapped(raw[start:end], rawbson.DOUBLE)


def _date(raw: bytes, start: int, end: int) -> str:
    milliseconds = _read_int64(raw, start)[0]
    if 0 <= milliseconds <= LAST_DATE:
        return f'{{"$date": "{iso_date(milliseconds)}"}}'
    return _wrapped(raw[start:end], rawbson.DATE)


_WRITERS: Final[dict[int, Callable[[bytes, int, int], str]]] = {
    rawbson.DOCUMENT: _document,
    rawbson.ARRAY: _array,
    rawbson.STRING: lambda raw, start, end: string_text(raw[start + 4 : end - 1]),
    rawbson.INT32: lambda raw, start, _end: str(_read_int32(raw, start)[0]),
    rawbson.INT64: lambda raw, start, _end: str(_read_int64(raw, start)[0]),
    rawbson.DOUBLE: _double,
    rawbson.BOOL: lambda raw, start, _end: "true" if raw[start] else "false",
    rawbson.NULL: lambda _raw, _start, _end: "null",
    rawbson.DATE: _date,
}
