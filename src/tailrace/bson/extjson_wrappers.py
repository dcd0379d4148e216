"""Parse the type wrappers of Extended JSON, such as ``{"$oid": ..}`` and ``{"$date": ..}``.

The table at the end has a parser for each wrapper. A parser gets the value of the wrapper's key, in which
nested wrappers are typed values already, and returns a typed value or raises.
"""

import re
import struct
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import DecimalException
from typing import Any, Final, NamedTuple
from uuid import UUID

from bson import Decimal128

from tailrace.bson import raw as rawbson


class TypedValue(NamedTuple):
    """A BSON value: its type byte and its bytes."""

    kind: int
    encoded: bytes


class JsonObject(list[tuple[str, Any]]):
    """A JSON object that is not a type wrapper: its fields in order, repeated names included."""

    __slots__ = ()


class WrapperError(ValueError):
    """A type wrapper has the wrong form."""


EncodeDocument = Callable[[JsonObject], bytes]

_INTEGER: Final = re.compile(r"-?[0-9]+")
_DECIMAL: Final = re.compile(
    r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?|nan)", re.IGNORECASE | re.ASCII
)
_DOUBLE: Final = re.compile(r"-?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|-?Infinity|NaN")
_HEX_BYTE: Final = re.compile(r"[0-9a-fA-F]{1,2}")
_OBJECT_ID: Final = re.compile(r"[0-9a-fA-F]{24}")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ISO_DATE: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(?:Z|([+-])(\d\d):?(\d\d)?)", re.ASCII
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_wrapper(pairs: list[tuple[str, Any]], encode_document: EncodeDocument) -> TypedValue | None:
    """The typed value of an object whose first key starts with ``$``; None if it is a document."""
    name, value = pairs[0]
    parser = _PARSERS.get(name)
    try:
        if len(pairs) == 1:
            return None if parser is None else parser(value)
        names = {name for name, _ in pairs}
        if names == {"$code", "$scope"}:
            code, scope = _fields(pairs, "$code", "$scope")
            return _code_with_scope(code, scope, encode_document)
        if names == {"$binary", "$type"}:
            return _binary_value(*_fields(pairs, "$binary", "$type"))
    except (WrapperError, struct.error, OverflowError, Base64Error, DecimalException):
        raise WrapperError(f"{name} does not have the form of its type wrapper") from None
    if parser is not None:
        raise WrapperError(f"{name} shares its object with other keys")
    return None


def _fields(value: Any, *names: str) -> list[Any]:
    """The values of an object that has exactly these fields."""
    fields = dict(value)
    if len(value) != len(names) or fields.keys() != set(names):
        raise WrapperError
    return [fields[name] for name in names]


def _nested(value: Any, *names: str) -> list[Any]:
    if type(value) is not JsonObject:
        raise WrapperError
    return _fields(value, *names)


def _text(value: Any) -> str:
    if type(value) is not str:
        raise WrapperError
    return value


def _matching(pattern: re.Pattern[str], value: Any) -> str:
    if type(value) is not str or not pattern.fullmatch(value):
        raise WrapperError
    return value


def _whole(value: Any) -> int:
    if type(value) is not int:  # a bool is not a number here
        raise WrapperError
    return value


def _c_string(value: Any) -> bytes:
    encoded = _text(value).encode()
    if b"\0" in encoded:
        raise WrapperError
    return encoded + b"\0"


def _object_id(value: Any) -> TypedValue:
    return TypedValue(rawbson.OBJECT_ID, bytes.fromhex(_matching(_OBJECT_ID, value)))


def _symbol(value: Any) -> TypedValue:
    return TypedValue(rawbson.SYMBOL, rawbson.framed(_text(value).encode()))


def _number_int(value: Any) -> TypedValue:
    return TypedValue(rawbson.INT32, rawbson.INT32_LE.pack(int(_matching(_INTEGER, value))))


def _number_long(value: Any) -> TypedValue:
    return TypedValue(rawbson.INT64, rawbson.INT64_LE.pack(int(_matching(_INTEGER, value))))


def _number_double(value: Any) -> TypedValue:
    return TypedValue(rawbson.DOUBLE, struct.pack("<d", float(_matching(_DOUBLE, value))))


def _number_decimal(value: Any) -> TypedValue:
    return TypedValue(rawbson.DECIMAL128, Decimal128(_matching(_DECIMAL, value)).bid)


def _binary(value: Any) -> TypedValue:
    return _binary_value(*_nested(value, "base64", "subType"))


def _binary_value(base64: Any, subtype_text: Any) -> TypedValue:
    data = b64decode(_text(base64), validate=True)
    subtype = int(_matching(_HEX_BYTE, subtype_text), base=16)
    if subtype == rawbson.OLD_BINARY_SUBTYPE:
        data = rawbson.INT32_LE.pack(len(data)) + data
    return TypedValue(rawbson.BINARY, b"%b%c%b" % (rawbson.INT32_LE.pack(len(data)), subtype, data))


def _uuid(value: Any) -> TypedValue:
    data = UUID(_matching(_UUID, value)).bytes
    return TypedValue(rawbson.BINARY, b"\x10\0\0\0\x04" + data)


def _code(value: Any) -> TypedValue:
    return TypedValue(rawbson.CODE, rawbson.framed(_text(value).encode()))


def _code_with_scope(code: Any, scope: Any, encode_document: EncodeDocument) -> TypedValue:
    if type(scope) is not JsonObject:
        raise WrapperError
    value = rawbson.framed(_text(code).encode()) + encode_document(scope)
    return TypedValue(rawbson.CODE_WITH_SCOPE, rawbson.INT32_LE.pack(len(value) + 4) + value)


def _timestamp(value: Any) -> TypedValue:
    seconds, increment = _nested(value, "t", "i")
    return TypedValue(rawbson.TIMESTAMP, struct.pack("<II", _whole(increment), _whole(seconds)))


def _regular_expression(value: Any) -> TypedValue:
    pattern, options = _nested(value, "pattern", "options")
    return TypedValue(rawbson.REGEX, _c_string(pattern) + _c_string(options))


def _db_pointer(value: Any) -> TypedValue:
    namespace, identifier = _nested(value, "$ref", "$id")
    if type(identifier) is not TypedValue or identifier.kind != rawbson.OBJECT_ID:
        raise WrapperError
    return TypedValue(rawbson.DB_POINTER, rawbson.framed(_text(namespace).encode()) + identifier.encoded)


def _date(value: Any) -> TypedValue:
    if type(value) is TypedValue:
        if value.kind != rawbson.INT64:
            raise WrapperError
        return TypedValue(rawbson.DATE, value.encoded)
    milliseconds = value if type(value) is int else _iso_milliseconds(_text(value))
    return TypedValue(rawbson.DATE, rawbson.INT64_LE.pack(milliseconds))


def _iso_milliseconds(text: str) -> int:
    found = _ISO_DATE.fullmatch(text)
    if found is None:
        raise WrapperError
    *calendar, fraction, sign, zone_hours, zone_minutes = found.groups()
    year, month, day, hour, minute, second = (int(part or 0) for part in calendar)
    offset = timedelta(hours=int(zone_hours or 0), minutes=int(zone_minutes or 0))
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        raise WrapperError from None
    since_epoch = moment - _EPOCH + (offset if sign == "-" else -offset)
    return since_epoch // timedelta(milliseconds=1) + int((fraction or "0").ljust(3, "0")[:3])


def _undefined(value: Any) -> TypedValue:
    if value is not True:
        raise WrapperError
    return TypedValue(rawbson.UNDEFINED, b"")


def _min_key(value: Any) -> TypedValue:
    return _extreme(value, rawbson.MIN_KEY)


def _max_key(value: Any) -> TypedValue:
    return _extreme(value, rawbson.MAX_KEY)


def _extreme(value: Any, kind: int) -> TypedValue:
    if _whole(value) != 1:
        raise WrapperError
    return TypedValue(kind, b"")


_PARSERS: Final[dict[str, Callable[[Any], TypedValue]]] = {
    "$binary": _binary,
    "$code": _code,
    "$date": _date,
    "$dbPointer": _db_pointer,
    "$maxKey": _max_key,
    "$minKey": _min_key,
    "$numberDecimal": _number_decimal,
    "$numberDouble": _number_double,
    "$numberInt": _number_int,
    "$numberLong": _number_long,
    "$oid": _object_id,
    "$regularExpression": _regular_expression,
    "$symbol": _symbol,
    "$timestamp": _timestamp,
    "$undefined": _undefined,
    "$uuid": _uuid,
}
