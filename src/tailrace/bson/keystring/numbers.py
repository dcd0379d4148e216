"""Integers and doubles as key bytes.

A magnitude has a *form*: class byte, payload, and size of the payload in bytes. `append_form` writes it,
mirrored for negative numbers. Decimals use the same forms with marker bits set, and with sixteen bytes
instead of eight where a double is not exact enough.

============ ============================ ===================================================================
class        magnitude                    payload
============ ============================ ===================================================================
`ZERO` + 1   below 2**-255                bits of the double times 2**256, shifted by one, plus 2**62
`ZERO` + 1   below 1                      bits of the double, shifted by two
`ZERO` + 1+k whole, below 2**63           twice the number in k bytes
`ZERO` + 1+k with a fraction              twice the integer part plus one in k bytes, the fraction in 8 - k
`LARGE`      from 2**63                   bits of the double, shifted by one, the highest left out
============ ============================ ===================================================================
"""

import math
from struct import Struct
from typing import Final, TypeAlias

from tailrace.bson.keystring.layout import BELOW_ONE, LARGE, NAN, ZERO

Form: TypeAlias = tuple[int, int, int]
"""(class byte of the positive number, payload, payload size in bytes)"""

WORD: Final = 8
WORD_MASK: Final = (1 << 64) - 1
TOP_BIT: Final = 1 << 63
SECOND_BIT: Final = 1 << 62
TWO_TO_63: Final = 2.0**63
SMALLEST_UNSCALED: Final = 2.0**-255
"""Below this a double is scaled by `TINY_SCALE`, which makes subnormals normal"""
TINY_SCALE: Final = 2.0**256

_DOUBLE_BE: Final = Struct(">d")


def bits_of(value: float) -> int:
    """The IEEE 754 pattern of a double."""
    return int.from_bytes(_DOUBLE_BE.pack(value), "big")


def double_of(bits: int) -> float:
    """The double with this IEEE 754 pattern."""
    value: float = _DOUBLE_BE.unpack(bits.to_bytes(WORD, "big"))[0]
    return value


def append_int(out: bytearray, value: int) -> None:
    """Append an integer in the int64 range.

    >>> out = bytearray()
    >>> append_int(out, 1000); append_int(out, -1); out.hex()
    '2c07d027fd'
    """
    if value > 0:
        doubled = value << 1
        size = (doubled.bit_length() + 7) >> 3
        out.append(BELOW_ONE + size)
        out += doubled.to_bytes(size, "big")
    elif value == 0:
        out.append(ZERO)
    else:
        append_form(out, True, double_form(TWO_TO_63) if value == -(1 << 63) else whole_form(-value))


def append_double(out: bytearray, value: float) -> None:
    """Append any double.

    >>> out = bytearray()
    >>> append_double(out, -5.5); out.hex()
    '27f47fffffffffffff'
    """
    if value == 0:
        out.append(ZERO)
    elif value != value:
        out.append(NAN)
    else:
        append_form(out, value < 0, double_form(abs(value)))


def append_form(out: bytearray, negative: bool, form: Form) -> None:
    """Append a magnitude with its sign."""
    class_byte, payload, size = form
    if negative:
        class_byte = 2 * ZERO - class_byte
        payload ^= (1 << 8 * size) - 1
    out.append(class_byte)
    out += payload.to_bytes(size, "big")


def double_form(magnitude: float) -> Form:
    """The form of a double above zero, infinity included."""
    if magnitude >= TWO_TO_63:
        return large_form(magnitude) if magnitude != math.inf else (LARGE, WORD_MASK, WORD)
    if magnitude < 1:
        return (
            below_one_form(magnitude) if magnitude >= SMALLEST_UNSCALED else tiny_form(magnitude * TINY_SCALE)
        )
    return whole_form(int(magnitude)) if magnitude.is_integer() else fraction_form(magnitude)


def whole_form(magnitude: int) -> Form:
    """A whole number from 1 to 2**63 - 1."""
    doubled = magnitude << 1
    size = (doubled.bit_length() + 7) >> 3
    return BELOW_ONE + size, doubled, size


def fraction_form(magnitude: float, marker: int = 0) -> Form:
    """A double from 1 to 2**53, written with a fraction even if that is zero."""
    whole = int(magnitude)
    size = (whole.bit_length() + 8) >> 3
    rest = WORD - size
    fraction = int((magnitude - whole) * 256.0**rest)
    return BELOW_ONE + size, (whole << 1 | 1) << 8 * rest | fraction | marker, WORD


def below_one_form(magnitude: float, marker: int = 0) -> Form:
    """A double from 2**-255 to 1."""
    return BELOW_ONE, bits_of(magnitude) << 2 | marker, WORD


def tiny_form(scaled: float, continued: int = 0) -> Form:
    """A double below 2**-255, given multiplied by `TINY_SCALE`."""
    return BELOW_ONE, (bits_of(scaled) << 1 | continued) + SECOND_BIT, WORD


def large_form(magnitude: float, continued: int = 0) -> Form:
    """A finite double from 2**63 on; its highest exponent bit is always set and therefore not stored."""
    return LARGE, (bits_of(magnitude) << 1 | continued) & ~TOP_BIT, WORD
