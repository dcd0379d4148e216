"""MongoDB Extended JSON v2: BSON bytes to canonical text, and text to BSON bytes.

`dumps_canonical` writes directly from the bytes: field order, repeated keys and all types are preserved.
`loads` reads canonical and relaxed Extended JSON, and the older forms of `$date` and `$binary`. A round trip
gives the same bytes, with two exceptions that the format implies: the payload of a NaN, and a stored document
that looks like a type wrapper.

An object is a type wrapper if its *first* key is that of a wrapper; it must then have the wrapper's form, or
the text is refused. ``{"$regex": .., "$options": ..}`` stays a document: it occurs as a query operator in the
validators and view pipelines of an oplog, and has the same meaning in a query.

>>> raw = loads('{"n": 1, "at": {"$date": "1970-01-01T00:00:01Z"}}')
>>> dumps_canonical(raw)
'{"n": {"$numberInt": "1"}, "at": {"$date": {"$numberLong": "1000"}}}'
"""

import json
import struct
from base64 import b64encode
from collections.abc import Callable
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any, Final

from bson import Decimal128

from tailrace.bson import raw as rawbson
from tailrace.bson.extjson_wrappers import JsonObject, TypedValue, WrapperError, parse_wrapper
from tailrace.error_codes import ErrorCode
from tailrace.errors import BsonError, CommandError

_NESTED_TOO_DEEPLY: Final = "the document is nested too deeply"
_read_int32 = rawbson.INT32_LE.unpack_from
_read_int64 = rawbson.INT64_LE.unpack_from
_read_double = struct.Struct("<d").unpack_from
_read_timestamp = struct.Struct("<II").unpack_from


# Writing


def dumps_canonical(raw: bytes) -> str:
    """The document as one line of canonical Extended JSON; non-ASCII text is not escaped."""
    parts: list[str] = []
    try:
        _write_document(raw, 0, len(raw), parts.append)
    except (struct.error, IndexError, ValueError):
        raise BsonError("a value runs past the end of its document, or a string is not UTF-8") from None
    except RecursionError:
        raise BsonError(_NESTED_TOO_DEEPLY) from None
    return "".join(parts)


class _Heads(dict[bytes, tuple[int, str]]):
    """A cache from the BSON bytes of an element's type and name to the type and the text of the key.

    Documents of a collection repeat the same few names.
    """

    def __init__(self, *, named: bool) -> None:
        super().__init__()
        self._named = named

    def __missing__(self, head: bytes) -> tuple[int, str]:
        if len(self) >= _MAX_HEADS:
            self.clear()
        name = encode_basestring(head[1:].decode())
        found = self[head] = head[0], f"{name}: " if self._named else ""
        return found


_MAX_HEADS: Final = 8192
_FIELD_HEADS: Final = _Heads(named=True)
_ITEM_HEADS: Final = _Heads(named=False)


def _write_document(raw: bytes, start: int, stop: int, write: Callable[[str], Any]) -> None:
    write("{")
    _write_elements(raw, start, stop, write, _FIELD_HEADS)
    write("}")


def _write_array(raw: bytes, start: int, stop: int, write: Callable[[str], Any]) -> None:
    write("[")
    _write_elements(raw, start, stop, write, _ITEM_HEADS)
    write("]")


def _write_elements(raw: bytes, start: int, stop: int, write: Callable[[str], Any], heads: _Heads) -> None:
    end = stop - 1
    if _read_int32(raw, start)[0] != stop - start or end < start + 4 or raw[end]:
        raise BsonError(f"the document at byte {start} has a wrong length or no final NUL")
    index = raw.index
    separator = ""
    position = start + 4
    while position < end:
        value = index(0, position + 1, end)
        kind, key = heads[raw[position:value]]
        value += 1
        # The most frequent types are written here; the table has the others.
        if kind == rawbson.STRING:
            position = value + 4 + _read_int32(raw, value)[0]
            if position <= value + 4 or raw[position - 1]:
                raise BsonError(f"the string at byte {value} has a wrong length or no final NUL")
            write(f"{separator}{key}{encode_basestring(raw[value + 4 : position - 1].decode())}")
        elif kind == rawbson.INT32:
            position = value + 4
            write(f'{separator}{key}{{"$numberInt": "{_read_int32(raw, value)[0]}"}}')
        elif kind == rawbson.DOCUMENT:
            position = value + _read_int32(raw, value)[0]
            write(separator + key)
            _write_document(raw, value, position, write)
        elif kind == rawbson.ARRAY:
            position = value + _read_int32(raw, value)[0]
            write(separator + key)
            _write_array(raw, value, position, write)
        elif kind == rawbson.INT64:
            position = value + 8
            write(f'{separator}{key}{{"$numberLong": "{_read_int64(raw, value)[0]}"}}')
        else:
            position = rawbson.value_end(raw, kind, value)
            write(f"{separator}{key}{_WRITERS[kind](raw, value, position)}")
        separator = ", "
    if position != end:
        raise BsonError(f"a value runs past the end of the document at byte {start}")


def _double(raw: bytes, start: int, _stop: int) -> str:
    return f'{{"$numberDouble": "{double_text(_read_double(raw, start)[0])}"}}'


def double_text(number: float) -> str:
    """The digits of a double."""
    text = repr(number)
    return _SPECIAL_DOUBLES.get(text, text)


_SPECIAL_DOUBLES: Final = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}


def _binary(raw: bytes, start: int, stop: int) -> str:
    subtype = raw[start + 4]
    data = start + 5
    if subtype == rawbson.OLD_BINARY_SUBTYPE:
        # The old binary subtype repeats the length inside its payload; Extended JSON leaves that out.
        data += 4
        if _read_int32(raw, start + 5)[0] != stop - data:
            raise BsonError(f"the binary value at byte {start} contradicts itself about its length")
    encoded = b64encode(raw[data:stop]).decode()
    return f'{{"$binary": {{"base64": "{encoded}", "subType": "{subtype:02x}"}}}}'


def _regex(raw: bytes, start: int, stop: int) -> str:
    pattern, options, _ = raw[start:stop].split(b"\0")
    quoted = encode_basestring(pattern.decode()), encode_basestring(options.decode())
    return '{"$regularExpression": {"pattern": %s, "options": %s}}' % quoted  # noqa: UP031 - braces abound


def _db_pointer(raw: bytes, start: int, stop: int) -> str:
    namespace = encode_basestring(rawbson.string_value(raw, start, stop - 12))
    return f'{{"$dbPointer": {{"$ref": {namespace}, "$id": {_object_id(raw, stop - 12, stop)}}}}}'


def _object_id(raw: bytes, start: int, stop: int) -> str:
    return f'{{"$oid": "{raw[start:stop].hex()}"}}'


def _code_with_scope(raw: bytes, start: int, stop: int) -> str:
    scope = rawbson.scope_start(raw, start)
    parts: list[str] = []
    _write_document(raw, scope, stop, parts.append)
    code = encode_basestring(rawbson.string_value(raw, start + 4, scope))
    return f'{{"$code": {code}, "$scope": {"".join(parts)}}}'


def _timestamp(raw: bytes, start: int, _stop: int) -> str:
    increment, seconds = _read_timestamp(raw, start)
    return f'{{"$timestamp": {{"t": {seconds}, "i": {increment}}}}}'


_WRITERS: Final[dict[int, Callable[[bytes, int, int], str]]] = {
    rawbson.DOUBLE: _double,
    rawbson.BINARY: _binary,
    rawbson.UNDEFINED: lambda _raw, _start, _stop: '{"$undefined": true}',
    rawbson.OBJECT_ID: _object_id,
    rawbson.BOOL: lambda raw, start, _stop: "true" if raw[start] else "false",
    rawbson.DATE: lambda raw, start, _stop: f'{{"$date": {{"$numberLong": "{_read_int64(raw, start)[0]}"}}}}',
    rawbson.NULL: lambda _raw, _start, _stop: "null",
    rawbson.REGEX: _regex,
    rawbson.DB_POINTER: _db_pointer,
    rawbson.CODE: lambda raw, start, stop: (
        f'{{"$code": {encode_basestring(rawbson.string_value(raw, start, stop))}}}'
    ),
    rawbson.SYMBOL: lambda raw, start, stop: (
        f'{{"$symbol": {encode_basestring(rawbson.string_value(raw, start, stop))}}}'
    ),
    rawbson.CODE_WITH_SCOPE: _code_with_scope,
    rawbson.TIMESTAMP: _timestamp,
    rawbson.DECIMAL128: lambda raw, start, stop: (
        f'{{"$numberDecimal": "{Decimal128.from_bid(raw[start:stop])}"}}'
    ),
    rawbson.MIN_KEY: lambda _raw, _start, _stop: '{"$minKey": 1}',
    rawbson.MAX_KEY: lambda _raw, _start, _stop: '{"$maxKey": 1}',
}


# Reading


def loads(text: str) -> bytes:
    """The BSON of a document; raises `CommandError` FailedToParse for invalid text."""
    kind, value = loads_value(text)
    if kind != rawbson.DOCUMENT:
        raise CommandError(ErrorCode.FailedToParse, "expected a JSON object that is a document")
    return value


def loads_value(text: str) -> tuple[int, bytes]:
    """Type byte and value bytes of any Extended JSON value: document, array or scalar."""
    try:
        value = _DECODER.decode(text)
        return _ENCODERS[type(value)](value)
    except RecursionError:
        raise CommandError(ErrorCode.FailedToParse, _NESTED_TOO_DEEPLY) from None
    except UnicodeEncodeError:
        raise CommandError(ErrorCode.FailedToParse, "a string holds half of a surrogate pair") from None
    except ValueError as error:  # json.JSONDecodeError and WrapperError are ValueErrors
        raise CommandError(ErrorCode.FailedToParse, f"not Extended JSON: {error}") from None


def _from_pairs(pairs: list[tuple[str, Any]]) -> TypedValue | JsonObject:
    if pairs and pairs[0][0].startswith("$"):
        value = parse_wrapper(pairs, _document)
        if value is not None:
            return value
    return JsonObject(pairs)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_from_pairs, parse_constant=_no_constant)


def _document(pairs: list[tuple[str, Any]]) -> bytes:
    parts = []
    for name, value in pairs:
        kind, encoded = _ENCODERS[type(value)](value)
        parts.append(b"%c%b%b" % (kind, _name(name), encoded))
    return rawbson.document(*parts)


@lru_cache(maxsize=4096)
def _name(name: str) -> bytes:
    if "\0" in name:
        raise WrapperError(f"the field name {name!r} contains a NUL")
    return name.encode() + b"\0"


def _encode_array(items: list[Any]) -> tuple[int, bytes]:
    return rawbson.ARRAY, _document([(str(index), item) for index, item in enumerate(items)])


def _encode_string(text: str) -> tuple[int, bytes]:
    encoded = text.encode()
    return rawbson.STRING, b"%b%b\0" % (rawbson.INT32_LE.pack(len(encoded) + 1), encoded)


def _encode_int(number: int) -> tuple[int, bytes]:
    # A bare number has the smallest type that can hold it, as the specification requires.
    if -(2**31) <= number < 2**31:
        return rawbson.INT32, rawbson.INT32_LE.pack(number)
    if -(2**63) <= number < 2**63:
        return rawbson.INT64, rawbson.INT64_LE.pack(number)
    try:
        return _encode_float(float(number))
    except OverflowError:
        raise WrapperError("a number is too large for a double") from None


def _encode_float(number: float) -> tuple[int, bytes]:
    return rawbson.DOUBLE, struct.pack("<d", number)


_ENCODERS: Final[dict[type, Callable[[Any], tuple[int, bytes]]]] = {
    TypedValue: lambda value: value,
    JsonObject: lambda pairs: (rawbson.DOCUMENT, _document(pairs)),
    str: _encode_string,
    int: _encode_int,
    float: _encode_float,
    bool: lambda value: (rawbson.BOOL, b"\x01" if value else b"\x00"),
    type(None): lambda _value: (rawbson.NULL, b""),
    list: _encode_array,
}
