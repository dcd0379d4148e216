"""Convert BSON documents to Spark's VARIANT: two byte strings, a dictionary of field names and a value.

Variant has types for most of what BSON stores. An ObjectId and a UUID become their text, because that is what
a query compares them with; a decimal that fits into 38 digits becomes a decimal, a date a timestamp. A value
that Variant has no type for becomes the object that canonical Extended JSON has for it, such as
``{"$timestamp": {"t": 1, "i": 2}}``. Of fields with the same name the last one counts, as in drivers.

The format is Apache Parquet's: an object lists the ids of its names sorted by name, then the offsets of its
values, then the values in any order; here in that of the document.
"""

import json
from array import array
from collections.abc import Callable
from itertools import accumulate
from struct import error
from typing import Any, Final
from uuid import UUID

from bson import Decimal128

from tailrace.bson import extjson
from tailrace.bson import raw as rawbson
from tailrace.bson.dates import FIRST_DATE, LAST_DATE
from tailrace.errors import BsonError
from tailrace.events.memo import remember

_VERSION: Final = 1
_MAX_SHORT_STRING: Final = 63
_MAX_DECIMAL_DIGITS: Final = 38
# Header bytes of scalars: the type in the upper six bits, 0 for "primitive" in the lower two.
NULL, TRUE, FALSE = b"\x00", b"\x04", b"\x08"
_INT32, _INT64, _DOUBLE = b"\x14", b"\x18", b"\x1c"
TIMESTAMP, _BINARY, _LONG_STRING = b"\x30", b"\x3c", b"\x40"
_DECIMALS: Final = ((9, 4, b"\x20"), (18, 8, b"\x24"), (_MAX_DECIMAL_DIGITS, 16, b"\x28"))
_OBJECT: Final = 2
_ARRAY: Final = 3
_UUID_SUBTYPE: Final = 4
_UUID_SIZE: Final = 4 + 1 + 16
"""Length, subtype, bytes."""
_SHORT_STRINGS: Final = [bytes((size << 2 | 1,)) for size in range(_MAX_SHORT_STRING + 1)]
_read_int32 = rawbson.INT32_LE.unpack_from
_pack_int32 = rawbson.INT32_LE.pack

Names = dict[bytes, int]


def variant_of(raw: bytes, kind: int, start: int, end: int) -> tuple[bytes, bytes]:
    """Convert one BSON value to ``(value, metadata)``."""
    names: Names = {}
    try:
        value = _value(raw, kind, start, end, names)
    except RecursionError:
        raise BsonError("the document is nested too deeply") from None
    except error:
        raise BsonError("a document is shorter than its length field") from None
    return value, metadata_of(tuple(names))


def uuid_text(raw: bytes, start: int, end: int) -> str | None:
    """Return the text of a binary value that is a UUID; None if it is none."""
    if raw[start + 4] != _UUID_SUBTYPE or end - start != _UUID_SIZE:
        return None
    return str(UUID(bytes=raw[start + 5 : end]))


def metadata_of(names: tuple[bytes, ...]) -> bytes:
    """The dictionary; the documents of a collection have few different ones."""
    known = _METADATA.get(names)
    if known is not None:
        return known
    offsets = [*accumulate(map(len, names), initial=0)]
    width = width_of(max(offsets[-1], len(names)))
    header = bytes((_VERSION | (width - 1) << 6,))
    found = b"".join((header, _integers([len(names)], width), _integers(offsets, width), *names))
    return remember(_METADATA, names, found)


_METADATA: Final[dict[tuple[bytes, ...], bytes]] = {}


def _value(raw: bytes, kind: int, start: int, end: int, names: Names) -> bytes:
    if kind == rawbson.STRING:
        return _text(raw[start + 4 : end - 1])
    if kind == rawbson.INT32:
        return _INT32 + raw[start:end]
    if kind == rawbson.DOCUMENT:
        return _object(raw, start, names)
    if kind == rawbson.ARRAY:
        items = [
            _value(raw, item, first, last, names) for item, _, first, last in rawbson.elements(raw, start)
        ]
        return _array(items)
    return _SCALARS[kind](raw, start, end, names)


def _object(raw: bytes, start: int, names: Names) -> bytes:
    # `rawbson.elements` and the most frequent types are inlined: a task spends its time here.
    end = start + _read_int32(raw, start)[0] - 1
    if not start + 4 <= end < len(raw) or raw[end]:
        raise BsonError(f"the document at byte {start} has a wrong length or no final NUL")
    own: list[bytes] = []
    values: list[bytes] = []
    keep = values.append
    position = start + 4
    while position < end:
        kind = raw[position]
        try:
            value = raw.index(0, position + 1, end) + 1
        except ValueError:
            raise BsonError(f"a field name at byte {position + 1} has no end") from None
        name = raw[position + 1 : value - 1]
        own.append(name)
        if name not in names:
            names[name] = len(names)
        if kind == rawbson.STRING:
            size = _read_int32(raw, value)[0] - 1
            if size < 0:
                raise BsonError(f"impossible length {size + 1} at byte {value}")
            position = value + 5 + size
            if size <= _MAX_SHORT_STRING:
                keep(_SHORT_STRINGS[size] + raw[value + 4 : position - 1])
            else:
                keep(_LONG_STRING + _pack_int32(size) + raw[value + 4 : position - 1])
        elif kind == rawbson.INT32:
            position = value + 4
            keep(_INT32 + raw[value:position])
        elif kind == rawbson.OBJECT_ID:
            position = value + 12
            keep(_SHORT_STRINGS[24] + raw[value:position].hex().encode())
        else:
            position = rawbson.value_end(raw, kind, value)
            keep(_value(raw, kind, value, position, names))
        if position > end:
            raise BsonError(f"a value that starts at byte {value} runs past the end of its document")
    return _framed_object(own, values, names)


def _framed_object(own: list[bytes], values: list[bytes], names: Names) -> bytes:
    shape = tuple(own)
    order = _ORDERS.get(shape)
    if order is None:
        last = {name: index for index, name in enumerate(own)}
        if len(last) < len(own):
            return _framed_object(list(last), [values[index] for index in last.values()], names)
        order = remember(_ORDERS, shape, [last[name] for name in sorted(last)])
    offsets = [*accumulate(map(len, values), initial=0)]
    lead, width = object_lead([names[own[index]] for index in order], offsets[-1])
    return b"".join((
        lead,
        _integers([*[offsets[index] for index in order], offsets[-1]], width),
        *values,
    ))  # fmt: skip


def object_lead(ids: list[int], size: int) -> tuple[bytes, int]:
    """What comes before the offsets of an object with ``size`` bytes of values, and an offset's width."""
    id_width = width_of(max(ids, default=0))
    offset_width = width_of(size)
    is_large = len(ids) > 0xFF
    header = _OBJECT | (is_large << 4 | (id_width - 1) << 2 | (offset_width - 1)) << 2
    count = _integers([len(ids)], 4 if is_large else 1)
    return bytes((header,)) + count + _integers(ids, id_width), offset_width


_ORDERS: Final[dict[tuple[bytes, ...], list[int]]] = {}
"""The places of an object's names, sorted by name; the documents of a collection have few different ones."""


def _array(items: list[bytes]) -> bytes:
    offsets = [*accumulate(map(len, items), initial=0)]
    lead, width = array_lead(len(items), offsets[-1])
    return b"".join((lead, _integers(offsets, width), *items))


def array_lead(count: int, size: int) -> tuple[bytes, int]:
    """The same for an array of ``count`` items."""
    offset_width = width_of(size)
    is_large = count > 0xFF
    header = _ARRAY | (is_large << 2 | (offset_width - 1)) << 2
    return bytes((header,)) + _integers([count], 4 if is_large else 1), offset_width


def width_of(largest: int) -> int:
    """Bytes for each of some numbers. Three would suffice for some, but four are faster to write."""
    return 1 if largest <= 0xFF else 2 if largest <= 0xFFFF else 4


def most_of(width: int) -> int:
    """The largest number that `width_of` gives a width below four."""
    return (1 << 8 * width) - 1


def short_lead(size: int) -> bytes:
    """What comes before a text of up to 63 bytes."""
    return _SHORT_STRINGS[size]


def _integers(numbers: list[int], width: int) -> bytes:
    if width == 1:
        return bytes(numbers)
    return array("H" if width == 2 else "I", numbers).tobytes()


def _text(encoded: bytes) -> bytes:
    if len(encoded) <= _MAX_SHORT_STRING:
        return _SHORT_STRINGS[len(encoded)] + encoded
    return _LONG_STRING + _pack_int32(len(encoded)) + encoded


def _binary(raw: bytes, start: int, end: int, _names: Names) -> bytes:
    text = uuid_text(raw, start, end)
    if text is not None:
        return _text(text.encode())
    payload = raw[start + 5 : end]
    return _BINARY + _pack_int32(len(payload)) + payload


def _date(raw: bytes, start: int, end: int, names: Names) -> bytes:
    milliseconds = rawbson.INT64_LE.unpack_from(raw, start)[0]
    if not FIRST_DATE <= milliseconds <= LAST_DATE:
        return _wrapped(rawbson.DATE, raw[start:end], names)
    return TIMESTAMP + rawbson.INT64_LE.pack(milliseconds * 1000)


def _decimal(raw: bytes, start: int, end: int, names: Names) -> bytes:
    sign, digits, exponent = Decimal128.from_bid(raw[start:end]).to_decimal().as_tuple()
    if isinstance(exponent, int):
        unscaled = int("".join(map(str, digits)) or "0")
        if exponent > 0 and len(digits) + exponent <= _MAX_DECIMAL_DIGITS:
            unscaled *= 10**exponent
            exponent = 0
        count = len(str(unscaled))
        if exponent <= 0 and max(count, -exponent) <= _MAX_DECIMAL_DIGITS:
            limit = max(count, -exponent)
            _, width, header = next(kind for kind in _DECIMALS if limit <= kind[0])
            number = -unscaled if sign else unscaled
            return header + bytes((-exponent,)) + number.to_bytes(width, "little", signed=True)
    return _wrapped(rawbson.DECIMAL128, raw[start:end], names)


def _wrapped(kind: int, value: bytes, names: Names) -> bytes:
    """A value as the object that canonical Extended JSON has for it."""
    text = extjson.dumps_canonical(rawbson.document(rawbson.element(kind, b"v", value)))
    return _of_json(json.loads(text)["v"], names)


def _of_json(value: Any, names: Names) -> bytes:
    if isinstance(value, dict):
        own = [name.encode() for name in value]
        for name in own:
            names.setdefault(name, len(names))
        return _framed_object(own, [_of_json(item, names) for item in value.values()], names)
    if isinstance(value, bool):
        return TRUE if value else FALSE
    if isinstance(value, int):
        return _INT64 + rawbson.INT64_LE.pack(value)
    if isinstance(value, list):
        return _array([_of_json(item, names) for item in value])
    return NULL if value is None else _text(str(value).encode())


def _other(kind: int) -> Callable[[bytes, int, int, Names], bytes]:
    return lambda raw, start, end, names: _wrapped(kind, raw[start:end], names)


_SCALARS: Final[dict[int, Callable[[bytes, int, int, Names], bytes]]] = {
    rawbson.DOUBLE: lambda raw, start, end, _: _DOUBLE + raw[start:end],
    rawbson.BINARY: _binary,
    rawbson.OBJECT_ID: lambda raw, start, end, _: _text(raw[start:end].hex().encode()),
    rawbson.BOOL: lambda raw, start, _end, _: TRUE if raw[start] else FALSE,
    rawbson.DATE: _date,
    rawbson.NULL: lambda _raw, _start, _end, _: NULL,
    rawbson.INT64: lambda raw, start, end, _: _INT64 + raw[start:end],
    rawbson.DECIMAL128: _decimal,
    **{
        kind: _other(kind)
        for kind in (
            rawbson.UNDEFINED, rawbson.REGEX, rawbson.DB_POINTER, rawbson.CODE, rawbson.SYMBOL,
            rawbson.CODE_WITH_SCOPE, rawbson.TIMESTAMP, rawbson.MIN_KEY, rawbson.MAX_KEY,
        )
    },
}  # fmt: skip
