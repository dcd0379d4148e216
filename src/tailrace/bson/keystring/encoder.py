"""Encode BSON values as a key.

Values are raw BSON: a type byte and the offsets of the bytes. An appender writes one value to the end of the
key and its type bits to the end of the type bits; `_APPENDERS` has one for each BSON type.
"""

from collections.abc import Callable
from decimal import Decimal
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from tailrace.bson import raw as rawbson
from tailrace.bson.decimal128 import BIAS, MAX_EXPONENT, split
from tailrace.bson.keystring import layout, type_bits
from tailrace.bson.keystring.decimals import decimal_form
from tailrace.bson.keystring.numbers import append_double, append_form, append_int, double_form
from tailrace.bson.keystring.type_bits import TypeBits
from tailrace.errors import BsonError

Appender: TypeAlias = Callable[[bytearray, TypeBits, bytes, int, int, int], None]
"""(key so far, type bits so far, BSON, value start, value end, nesting depth of the value)"""

_INT32: Final = rawbson.INT32_LE.unpack_from
_INT64: Final = rawbson.INT64_LE.unpack_from
_UINT64: Final = rawbson.UINT64_LE.unpack_from
_DOUBLE: Final = Struct("<d").unpack_from
_POSITIVE_ZERO: Final = bytes(8)


class KeyString(NamedTuple):
    """A key and its type bits, the latter empty when none is set."""

    data: bytes
    type_bits: bytes


def encode(raw_document: bytes) -> KeyString:
    """The top-level values of a document as one key, without the names."""
    out, bits = bytearray(), TypeBits()
    for kind, _, start, end in rawbson.elements(raw_document):
        append_value(out, bits, raw_document, kind, start, end)
    out.append(layout.END)
    return KeyString(bytes(out), bits.serialize())


def append_value(out: bytearray, bits: TypeBits, raw: bytes, kind: int, start: int, end: int) -> None:
    """Append the BSON value of type ``kind`` in ``raw[start:end]``."""
    appender = _APPENDERS.get(kind)
    if appender is None:
        raise BsonError(f"unknown BSON type byte 0x{kind:02x}")
    appender(out, bits, raw, start, end, 1)


def _constant(type_byte: int) -> Appender:
    def append(out: bytearray, _b: TypeBits, _raw: bytes, _start: int, _end: int, _depth: int) -> None:
        out.append(type_byte)

    return append


def _append_int32(out: bytearray, bits: TypeBits, raw: bytes, start: int, _end: int, _depth: int) -> None:
    bits.skip(2)
    append_int(out, _INT32(raw, start)[0])


def _append_int64(out: bytearray, bits: TypeBits, raw: bytes, start: int, _end: int, _depth: int) -> None:
    bits.append(type_bits.INT64, 2)
    append_int(out, _INT64(raw, start)[0])


def _append_double(out: bytearray, bits: TypeBits, raw: bytes, start: int, end: int, _depth: int) -> None:
    value = _DOUBLE(raw, start)[0]
    if value == 0 and raw[start:end] != _POSITIVE_ZERO:
        bits.append(type_bits.NEGATIVE_DOUBLE_ZERO, 5)
    else:
        bits.append(type_bits.DOUBLE, 2)
    append_double(out, value)


def _append_decimal(out: bytearray, bits: TypeBits, raw: bytes, start: int, end: int, _depth: int) -> None:
    pattern = raw[start:end]
    negative, coefficient, exponent, is_nan, is_infinite = split(pattern)
    biased = exponent + BIAS
    if is_nan:
        bits.append(type_bits.DECIMAL, 2)
        out.append(layout.NAN)
    elif is_infinite:
        bits.append(type_bits.DECIMAL, 2)
        append_form(out, negative, double_form(float("inf")))
    elif coefficient == 0:
        which = biased + (MAX_EXPONENT + BIAS + 1 if negative else 0)
        low = type_bits.ZERO_EXPONENT_BITS
        bits.append((type_bits.FIRST_DECIMAL_ZERO << low) + which, 5 + low)
        out.append(layout.ZERO)
    else:
        bits.append(type_bits.DECIMAL, 2)
        bits.append(biased & type_bits.EXPONENT_MASK, type_bits.EXPONENT_BITS)
        append_form(out, negative, decimal_form(Decimal(f"{coefficient}E{exponent}")))


def _append_text(out: bytearray, text: bytes) -> None:
    out += text.replace(b"\0", b"\0\xff") if b"\0" in text else text
    out.append(0)


def _append_string(out: bytearray, bits: TypeBits, raw: bytes, start: int, end: int, _depth: int) -> None:
    bits.skip(1)
    out.append(layout.STRING)
    _append_text(out, raw[start + 4 : end - 1])


def _append_symbol(out: bytearray, bits: TypeBits, raw: bytes, start: int, end: int, _depth: int) -> None:
    bits.append(1, 1)
    out.append(layout.STRING)
    _append_text(out, raw[start + 4 : end - 1])


def _append_code(out: bytearray, _b: TypeBits, raw: bytes, start: int, end: int, _depth: int) -> None:
    out.append(layout.CODE)
    _append_text(out, raw[start + 4 : end - 1])


def _append_code_with_scope(
    out: bytearray, bits: TypeBits, raw: bytes, start: int, _end: int, depth: int
) -> None:
    scope = rawbson.scope_start(raw, start)
    out.append(layout.CODE_WITH_SCOPE)
    _append_text(out, raw[start + 8 : scope - 1])
    _append_fields(out, bits, raw, scope, depth + 1)


def _append_object(out: bytearray, bits: TypeBits, raw: bytes, start: int, _end: int, depth: int) -> None:
    out.append(layout.OBJECT)
    _append_fields(out, bits, raw, start, depth)


def _append_fields(out: bytearray, bits: TypeBits, raw: bytes, start: int, depth: int) -> None:
    layout.check_depth(depth)
    generic, appenders = layout.GENERIC, _APPENDERS
    for kind, name, value_start, value_end in rawbson.elements(raw, start):
        out.append(generic[kind])
        out += name
        out.append(0)
        appenders[kind](out, bits, raw, value_start, value_end, depth + 1)
    out.append(0)


def _append_array(out: bytearray, bits: TypeBits, raw: bytes, start: int, _end: int, depth: int) -> None:
    layout.check_depth(depth)
    out.append(layout.ARRAY)
    for kind, _, value_start, value_end in rawbson.elements(raw, start):
        _APPENDERS[kind](out, bits, raw, value_start, value_end, depth + 1)
    out.append(0)


def _append_binary(out: bytearray, _b: TypeBits, raw: bytes, start: int, end: int, _depth: int) -> None:
    length = end - start - 5
    out.append(layout.BINARY)
    if length < layout.LONG_BINARY:
        out.append(length)
    else:
        out.append(layout.LONG_BINARY)
        out += length.to_bytes(4, "big")
    # In BSON the subtype is directly before the bytes, as here.
    out += raw[start + 4 : end]


def _append_object_id(out: bytearray, _b: TypeBits, raw: bytes, start: int, end: int, _depth: int) -> None:
    out.append(layout.OBJECT_ID)
    out += raw[start:end]


def _append_bool(out: bytearray, _b: TypeBits, raw: bytes, start: int, _end: int, _depth: int) -> None:
    out.append(layout.TRUE if raw[start] else layout.FALSE)


def _append_date(out: bytearray, _b: TypeBits, raw: bytes, start: int, _end: int, _depth: int) -> None:
    out.append(layout.DATE)
    out += (_UINT64(raw, start)[0] ^ layout.DATE_OFFSET).to_bytes(8, "big")


def _append_timestamp(out: bytearray, _b: TypeBits, raw: bytes, start: int, end: int, _depth: int) -> None:
    out.append(layout.TIMESTAMP)
    out += raw[start:end][::-1]


def _append_regex(out: bytearray, _b: TypeBits, raw: bytes, start: int, end: int, _depth: int) -> None:
    out.append(layout.REGEX)
    out += raw[start:end]


def _append_db_pointer(out: bytearray, _b: TypeBits, raw: bytes, start: int, end: int, _depth: int) -> None:
    namespace = raw[start + 4 : end - 13]
    out.append(layout.DB_POINTER)
    out += len(namespace).to_bytes(4, "big")
    out += namespace
    out += raw[end - 12 : end]


_APPENDERS: Final[dict[int, Appender]] = {
    rawbson.DOUBLE: _append_double,
    rawbson.STRING: _append_string,
    rawbson.DOCUMENT: _append_object,
    rawbson.ARRAY: _append_array,
    rawbson.BINARY: _append_binary,
    rawbson.UNDEFINED: _constant(layout.UNDEFINED),
    rawbson.OBJECT_ID: _append_object_id,
    rawbson.BOOL: _append_bool,
    rawbson.DATE: _append_date,
    rawbson.NULL: _constant(layout.NULL),
    rawbson.REGEX: _append_regex,
    rawbson.DB_POINTER: _append_db_pointer,
    rawbson.CODE: _append_code,
    rawbson.SYMBOL: _append_symbol,
    rawbson.CODE_WITH_SCOPE: _append_code_with_scope,
    rawbson.INT32: _append_int32,
    rawbson.TIMESTAMP: _append_timestamp,
    rawbson.INT64: _append_int64,
    rawbson.DECIMAL128: _append_decimal,
    rawbson.MAX_KEY: _constant(layout.MAX_KEY),
    rawbson.MIN_KEY: _constant(layout.MIN_KEY),
}
