"""Decode a key to BSON values.

`_READERS` has a reader for each type byte, which consumes the value's bytes and type bits and returns the
BSON type and the value's bytes. Invalid bytes always raise `KeyStringError`.

Decoding is as lenient as MongoDB's: the final `END` may be missing, bytes after it are ignored, one search
mark before a value is skipped, and the generic type byte before a field name is not compared with the type of
the value.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from tailrace.bson import raw as rawbson
from tailrace.bson.column import SUBTYPE as COLUMN_SUBTYPE
from tailrace.bson.column import is_column
from tailrace.bson.keystring import layout
from tailrace.bson.keystring.number_reader import (
    Value,
    read_below_one,
    read_large,
    read_nan,
    read_whole,
    read_zero,
)
from tailrace.bson.keystring.reader import KeyReader
from tailrace.bson.keystring.type_bits import DECIMAL, DOUBLE, INT32, INT64, FreeTypeBits
from tailrace.errors import KeyStringError

Reader: TypeAlias = Callable[[KeyReader, int, int], Value]
"""(source, type byte, nesting depth of the value)"""
_NUMBER_READERS: Final = frozenset({read_below_one, read_large, read_nan, read_whole, read_zero})


def decode(data: bytes, type_bits: bytes = b"") -> list[Value]:
    """The values of a key, each as (BSON type, value bytes)."""
    return list(_values(KeyReader(data, type_bits)))


def decode_value(data: bytes) -> Value:
    """A value that has a key whose type bits are not known: it compares equal to the one that was encoded.

    >>> [decode_value(bytes.fromhex(key))[0] for key in ("2b1004", "2b058000000000000004")]
    [16, 1]
    """
    reader = KeyReader(data, b"")
    reader.bits = FreeTypeBits()
    (value,) = _values(reader)
    return value


def decode_prefix(data: bytes) -> tuple[list[Value], int]:
    """The complete values in a truncated key, and the end of the last of them.

    >>> values, end = decode_prefix(bytes.fromhex("2b0a3c61"))
    >>> [kind for kind, value in values], end
    ([16], 2)
    """
    reader = KeyReader(data, b"")
    values, end = [], 0
    try:
        for value in _values(reader):
            values.append(value)
            end = reader.position
    except KeyStringError:
        pass  # this value is truncated
    return values, end


def _values(reader: KeyReader) -> Iterator[Value]:
    while reader.position < len(reader.data):
        type_byte = reader.byte()
        if type_byte in (layout.LESS, layout.GREATER):
            type_byte = reader.byte()
        if type_byte == layout.END:
            break
        yield _read_value(reader, type_byte, 1)


def _read_value(reader: KeyReader, type_byte: int, depth: int) -> Value:
    read = _READERS.get(type_byte)
    if read is None:
        raise KeyStringError(50811, f"0x{type_byte:02X} is not a type byte")
    if read in _NUMBER_READERS and isinstance(reader.bits, FreeTypeBits):
        return _read_number(read, reader, reader.bits, type_byte, depth)
    return read(reader, type_byte, depth)


def _read_number(read: Reader, reader: KeyReader, bits: FreeTypeBits, type_byte: int, depth: int) -> Value:
    """A number of the first type that can have these bytes."""
    start = reader.position
    for bits.kind in (INT32, INT64, DOUBLE):
        try:
            return read(reader, type_byte, depth)
        except KeyStringError:
            reader.position = start
    bits.kind = DECIMAL
    return read(reader, type_byte, depth)


def _constant(kind: int, value: bytes = b"") -> Reader:
    def read(_reader: KeyReader, _type_byte: int, _depth: int) -> Value:
        return kind, value

    return read


def _read_string(reader: KeyReader, _type_byte: int, _depth: int) -> Value:
    kind = rawbson.SYMBOL if reader.bits.read(1) else rawbson.STRING
    return kind, rawbson.framed(reader.text())


def _read_code(reader: KeyReader, _type_byte: int, _depth: int) -> Value:
    return rawbson.CODE, rawbson.framed(reader.text())


def _read_code_with_scope(reader: KeyReader, _type_byte: int, depth: int) -> Value:
    content = rawbson.framed(reader.text()) + _read_fields(reader, depth + 1)
    return rawbson.CODE_WITH_SCOPE, rawbson.INT32_LE.pack(len(content) + 4) + content


def _read_object(reader: KeyReader, _type_byte: int, depth: int) -> Value:
    return rawbson.DOCUMENT, _read_fields(reader, depth)


def _read_fields(reader: KeyReader, depth: int) -> bytes:
    layout.check_depth(depth)
    parts = []
    while reader.byte():
        name = reader.name()
        kind, value = _read_value(reader, reader.byte(), depth + 1)
        parts.append(rawbson.element(kind, name, value))
    return rawbson.document(*parts)


def _read_array(reader: KeyReader, _type_byte: int, depth: int) -> Value:
    layout.check_depth(depth)
    parts: list[bytes] = []
    while type_byte := reader.byte():
        kind, value = _read_value(reader, type_byte, depth + 1)
        parts.append(rawbson.element(kind, b"%d" % len(parts), value))
    return rawbson.ARRAY, rawbson.document(*parts)


def _read_binary(reader: KeyReader, _type_byte: int, _depth: int) -> Value:
    length = reader.byte()
    if length == layout.LONG_BINARY:
        length = int.from_bytes(reader.take(4), "big")
    subtype = reader.byte()
    content = reader.take(length)
    if subtype == COLUMN_SUBTYPE and not is_column(content):
        raise KeyStringError(50833, "BinData of subtype 7 does not hold a column")
    return rawbson.BINARY, rawbson.INT32_LE.pack(length) + bytes((subtype,)) + content


def _read_object_id(reader: KeyReader, _type_byte: int, _depth: int) -> Value:
    return rawbson.OBJECT_ID, reader.take(12)


def _read_date(reader: KeyReader, _type_byte: int, _depth: int) -> Value:
    return rawbson.DATE, rawbson.UINT64_LE.pack(int.from_bytes(reader.take(8), "big") ^ layout.DATE_OFFSET)


def _read_timestamp(reader: KeyReader, _type_byte: int, _depth: int) -> Value:
    return rawbson.TIMESTAMP, reader.take(8)[::-1]


def _read_regex(reader: KeyReader, _type_byte: int, _depth: int) -> Value:
    return rawbson.REGEX, b"%b\0%b\0" % (reader.name(), reader.name())


def _read_db_pointer(reader: KeyReader, _type_byte: int, _depth: int) -> Value:
    namespace = reader.take(int.from_bytes(reader.take(4), "big"))
    return rawbson.DB_POINTER, rawbson.framed(namespace) + reader.take(12)


_READERS: Final[dict[int, Reader]] = {
    layout.MIN_KEY: _constant(rawbson.MIN_KEY),
    layout.UNDEFINED: _constant(rawbson.UNDEFINED),
    layout.NULL: _constant(rawbson.NULL),
    layout.NAN: read_nan,
    **dict.fromkeys((layout.LARGE, 2 * layout.ZERO - layout.LARGE), read_large),
    **dict.fromkeys(range(2 * layout.ZERO - layout.LARGE + 1, layout.LARGE), read_whole),
    **dict.fromkeys((layout.BELOW_ONE, 2 * layout.ZERO - layout.BELOW_ONE), read_below_one),
    layout.ZERO: read_zero,
    layout.STRING: _read_string,
    layout.OBJECT: _read_object,
    layout.ARRAY: _read_array,
    layout.BINARY: _read_binary,
    layout.OBJECT_ID: _read_object_id,
    layout.FALSE: _constant(rawbson.BOOL, b"\0"),
    layout.TRUE: _constant(rawbson.BOOL, b"\1"),
    layout.DATE: _read_date,
    layout.TIMESTAMP: _read_timestamp,
    layout.REGEX: _read_regex,
    layout.DB_POINTER: _read_db_pointer,
    layout.CODE: _read_code,
    layout.CODE_WITH_SCOPE: _read_code_with_scope,
    layout.MAX_KEY: _constant(rawbson.MAX_KEY),
}
