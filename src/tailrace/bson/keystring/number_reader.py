"""Key bytes to numbers of all four types.

The class byte and the payload give a magnitude; the type bits give its BSON type. Each function reads one
family of classes and returns (BSON type, value bytes). Type bits that do not fit the number raise MongoDB's
error codes.
"""

import math
from decimal import Decimal
from struct import Struct
from typing import Final, TypeAlias

from tailrace.bson import decimal128
from tailrace.bson import raw as rawbson
from tailrace.bson.keystring import layout, type_bits
from tailrace.bson.keystring.decimals import (
    EXACT,
    SMALLEST_NORMAL,
    TWO_TO_53,
    subnormal_reference,
    up15,
    up34,
    widest,
)
from tailrace.bson.keystring.numbers import (
    SECOND_BIT,
    TINY_SCALE,
    TOP_BIT,
    TWO_TO_63,
    WORD,
    WORD_MASK,
    double_of,
)
from tailrace.bson.keystring.reader import KeyReader
from tailrace.errors import KeyStringError

Value: TypeAlias = tuple[int, bytes]
"""(BSON type, value bytes)"""

_DOUBLE_LE: Final = Struct("<d")
_SMALLEST_INT64: Final = rawbson.INT64_LE.pack(-(1 << 63))


def read_nan(reader: KeyReader, _type_byte: int, _depth: int) -> Value:
    """NaN of a double or a decimal."""
    kind = reader.bits.read(2)
    if kind == type_bits.DOUBLE:
        return _double(math.nan)
    if kind == type_bits.DECIMAL:
        return rawbson.DECIMAL128, decimal128.NAN_BYTES
    raise KeyStringError(50819, "type bits give NaN an integer type")


def read_zero(reader: KeyReader, _type_byte: int, _depth: int) -> Value:
    """A zero; its type, sign and exponent are in the type bits."""
    which = reader.bits.read_zero()
    if which in (type_bits.INT32, type_bits.INT64):
        return _integer(0, which)
    if which == type_bits.DOUBLE:
        return _double(0.0)
    if which == type_bits.NEGATIVE_DOUBLE_ZERO:
        return _double(-0.0)
    low = reader.bits.read(type_bits.ZERO_EXPONENT_BITS)
    number = (which - type_bits.FIRST_DECIMAL_ZERO << type_bits.ZERO_EXPONENT_BITS) + low
    if number < 0:
        raise KeyStringError(50846, "type bits name a decimal zero that does not exist")
    negative, biased = divmod(number, decimal128.MAX_EXPONENT + decimal128.BIAS + 1)
    return rawbson.DECIMAL128, decimal128.join(bool(negative), 0, biased - decimal128.BIAS)


def read_whole(reader: KeyReader, type_byte: int, _depth: int) -> Value:
    """A number with an integer part of one to eight bytes, with or without a fraction."""
    kind = reader.bits.read(2)
    negative = type_byte < layout.ZERO
    size = abs(type_byte - layout.ZERO) - 1
    doubled = reader.magnitude(size, negative)
    if doubled & 1:
        return _read_fraction(reader, kind, negative, doubled >> 1, WORD - size)
    magnitude = doubled >> 1
    if kind in (type_bits.INT32, type_bits.INT64):
        return _integer(-magnitude if negative else magnitude, kind)
    if kind == type_bits.DOUBLE:
        return _double(float(-magnitude if negative else magnitude))
    return _decimal(reader, negative, Decimal(magnitude))


def _read_fraction(reader: KeyReader, kind: int, negative: bool, whole: int, size: int) -> Value:
    packed = whole << 8 * size | reader.magnitude(size, negative)
    # With eight bytes of integer part there is no room for a marker; only a decimal has that many.
    marker = packed & 3 if size else layout.ABOVE_15_DIGITS
    magnitude = float(packed & ~3) * 256.0**-size
    if kind == type_bits.DOUBLE:
        if marker != layout.EQUALS_DOUBLE:
            raise KeyStringError(50831, "type bits give a decimal the type double")
        return _double(-magnitude if negative else magnitude)
    if kind != type_bits.DECIMAL:
        raise KeyStringError(50810, "type bits give a number with a fraction an integer type")
    if marker in layout.CONTINUED and (size == 0 or whole > TWO_TO_53):
        return _decimal(reader, negative, _continue(reader, negative, Decimal(whole)))
    return _decimal(reader, negative, _apply_marker(reader, negative, magnitude, marker))


def read_below_one(reader: KeyReader, type_byte: int, _depth: int) -> Value:
    """A magnitude between zero and one; the two highest bits distinguish three ranges."""
    kind = reader.bits.read(2)
    negative = type_byte < layout.ZERO
    word = reader.magnitude(WORD, negative)
    top = word >> 62
    if top == 0:
        return _read_below_all_doubles(reader, kind, negative, word)
    if top < 3:
        return _read_tiny(reader, kind, negative, word)
    magnitude, marker = double_of(word >> 2), word & 3
    if kind == type_bits.DOUBLE:
        if marker != layout.EQUALS_DOUBLE:
            raise KeyStringError(50824, "type bits give a decimal below one the type double")
        return _double(-magnitude if negative else magnitude)
    if kind != type_bits.DECIMAL:
        raise KeyStringError(50825, "type bits give a number below one an integer type")
    return _decimal(reader, negative, _apply_marker(reader, negative, magnitude, marker))


def _read_below_all_doubles(reader: KeyReader, kind: int, negative: bool, word: int) -> Value:
    low = reader.magnitude(WORD, negative)
    if kind != type_bits.DECIMAL:
        raise KeyStringError(50823, "type bits deny that a number too small for a double is a decimal")
    return _stored_pattern(reader, negative, word, low)


def _read_tiny(reader: KeyReader, kind: int, negative: bool, word: int) -> Value:
    scaled, is_continued = double_of((word - SECOND_BIT) >> 1), word & 1
    if kind == type_bits.DOUBLE:
        if is_continued:
            raise KeyStringError(50822, "type bits give a tiny decimal the type double")
        magnitude = scaled / TINY_SCALE
        return _double(-magnitude if negative else magnitude)
    if kind != type_bits.DECIMAL or not is_continued:
        raise KeyStringError(50823, "type bits do not fit a number below 2**-255")
    is_subnormal = scaled < SMALLEST_NORMAL * TINY_SCALE
    reference = subnormal_reference(scaled) if is_subnormal else up34(scaled / TINY_SCALE)
    return _decimal(reader, negative, _continue(reader, negative, reference))


def read_large(reader: KeyReader, type_byte: int, _depth: int) -> Value:
    """A magnitude of 2**63 or more, infinity included."""
    kind = reader.bits.read(2)
    negative = type_byte < layout.ZERO
    word = reader.magnitude(WORD, negative)
    if word & TOP_BIT and word != WORD_MASK:
        low = reader.magnitude(WORD, negative)
        if kind != type_bits.DECIMAL:
            raise KeyStringError(50818, "type bits deny that a number too large for a double is a decimal")
        return _stored_pattern(reader, negative, word ^ TOP_BIT, low)
    is_infinite = word == WORD_MASK
    is_continued = word & 1 and not is_infinite
    magnitude = math.inf if is_infinite else double_of(word >> 1 | SECOND_BIT)
    if kind == type_bits.DOUBLE:
        if is_continued:
            raise KeyStringError(50831, "type bits give a large decimal the type double")
        return _double(-magnitude if negative else magnitude)
    if kind == type_bits.INT64:
        if not negative or magnitude != TWO_TO_63 or is_continued:
            raise KeyStringError(50821, "type bits give a number outside the 64-bit integers the type int64")
        return rawbson.INT64, _SMALLEST_INT64
    if kind == type_bits.INT32:
        raise KeyStringError(50826, "type bits give a large number the type int32")
    if not math.isfinite(magnitude):
        if is_continued:
            raise KeyStringError(50850, "a decimal continues a number that is not finite")
        special = decimal128.infinity(negative) if magnitude == math.inf else decimal128.NAN_BYTES
        return rawbson.DECIMAL128, special
    reference = up34(magnitude)
    return _decimal(reader, negative, _continue(reader, negative, reference) if is_continued else reference)


def _apply_marker(reader: KeyReader, negative: bool, magnitude: float, marker: int) -> Decimal:
    if marker == layout.EQUALS_15_DIGITS:
        return up15(magnitude)
    reference = up34(magnitude)
    return _continue(reader, negative, reference) if marker in layout.CONTINUED else reference


def _continue(reader: KeyReader, negative: bool, reference: Decimal) -> Decimal:
    distance = reader.magnitude(WORD, negative)
    _, exponent = widest(reference)
    total = EXACT.add(reference, EXACT.scaleb(Decimal(distance), exponent))
    if len(total.normalize(EXACT).as_tuple().digits) > decimal128.MAX_DIGITS:
        raise KeyStringError(50815, "a decimal would need more than 34 digits")
    return total


def _stored_pattern(reader: KeyReader, negative: bool, high: int, low: int) -> Value:
    pattern = (high << 64 | low).to_bytes(16, "little")
    parts = decimal128.split(pattern)
    if parts.is_nan:
        return rawbson.DECIMAL128, decimal128.NAN_BYTES
    if parts.is_infinite:
        return rawbson.DECIMAL128, decimal128.infinity(negative)
    return _decimal(reader, negative, Decimal(f"{parts.coefficient}E{parts.exponent}"))


def _decimal(reader: KeyReader, negative: bool, magnitude: Decimal) -> Value:
    """Of all representations of the number as a Decimal128, the one with the stored exponent bits."""
    if magnitude == 0:
        raise KeyStringError(50829, "a decimal that must not be zero is zero")
    coefficient, exponent = widest(magnitude.normalize(EXACT))
    if isinstance(reader.bits, type_bits.FreeTypeBits):
        return rawbson.DECIMAL128, decimal128.join(negative, coefficient, exponent)
    stored = reader.bits.read(type_bits.EXPONENT_BITS)
    steps = (stored - exponent - decimal128.BIAS) & type_bits.EXPONENT_MASK
    if steps >= decimal128.MAX_DIGITS:
        raise KeyStringError(50814, "no way to write the decimal has the stored exponent")
    shortened, rest = divmod(coefficient, 10**steps)
    if rest:
        raise KeyStringError(50813, "the decimal has too many digits for the stored exponent")
    if exponent + steps > decimal128.MAX_EXPONENT:
        raise KeyStringError(50845, "the stored exponent is out of range")
    return rawbson.DECIMAL128, decimal128.join(negative, shortened, exponent + steps)


def _double(value: float) -> Value:
    return rawbson.DOUBLE, _DOUBLE_LE.pack(value)


def _integer(value: int, kind: int) -> Value:
    # Without its type bits an int64 is read as an int32. Only the value matters for resuming, because event
    # identifiers are compared by value.
    if kind == type_bits.INT32 and -(1 << 31) <= value < 1 << 31:
        return rawbson.INT32, rawbson.INT32_LE.pack(value)
    return rawbson.INT64, rawbson.INT64_LE.pack(value)
