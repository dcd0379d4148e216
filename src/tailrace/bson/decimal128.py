"""Split a Decimal128 into its exact parts.

PyMongo's `decimal.Decimal` values are right for well-formed numbers. But a pattern whose coefficient is too
large counts as zero in BSON, and comparison and KeyString need that rule, the exponent of a zero and all
signs; so they read the 128 bits through `split`.

The layout has a binary integer coefficient: sign, 14 bits of exponent, 113 bits of coefficient,
little-endian. Patterns that start with 11 are NaN, infinity, or a coefficient that is always too large.
"""

from decimal import Decimal
from typing import Final, NamedTuple

BIAS: Final = 6176
"""Added to an exponent to store it"""
MAX_EXPONENT: Final = 6111
MAX_DIGITS: Final = 34
"""The most decimal digits of a coefficient"""

_COEFFICIENT_LIMIT: Final = 10**MAX_DIGITS
_EXPONENT_SHIFT: Final = 113
_COEFFICIENT_MASK: Final = (1 << _EXPONENT_SHIFT) - 1
_SIGN_BIT: Final = 1 << 127

NAN_BYTES: Final = (0x7C << 120).to_bytes(16, "little")


class Decimal128Parts(NamedTuple):
    """A finite number ``(-1)**negative * coefficient * 10**exponent``, or a special value."""

    negative: bool
    coefficient: int
    exponent: int
    is_nan: bool = False
    is_infinite: bool = False


def split(pattern: bytes) -> Decimal128Parts:
    """The parts of the 16 bytes of a BSON value.

    >>> from bson import Decimal128
    >>> split(Decimal128("-1.20").bid)
    Decimal128Parts(negative=True, coefficient=120, exponent=-2, is_nan=False, is_infinite=False)
    """
    bits = int.from_bytes(pattern, "little")
    negative = bits >= _SIGN_BIT
    if (bits >> 125) & 3 == 3:
        special = (bits >> 122) & 0x1F
        if special == 0x1F:
            return Decimal128Parts(negative, 0, 0, is_nan=True)
        if special == 0x1E:
            return Decimal128Parts(negative, 0, 0, is_infinite=True)
        # The second format shifts the exponent by two bits; its coefficient starts at 2**113 > 10**34.
        return Decimal128Parts(negative, 0, ((bits >> 111) & 0x3FFF) - BIAS)
    coefficient = bits & _COEFFICIENT_MASK
    if coefficient >= _COEFFICIENT_LIMIT:
        coefficient = 0
    return Decimal128Parts(negative, coefficient, ((bits >> _EXPONENT_SHIFT) & 0x3FFF) - BIAS)


def join(negative: bool, coefficient: int, exponent: int) -> bytes:
    """The 16 bytes of a finite number; the inverse of `split`."""
    bits = (exponent + BIAS) << _EXPONENT_SHIFT | coefficient
    return (bits | _SIGN_BIT if negative else bits).to_bytes(16, "little")


def infinity(negative: bool) -> bytes:
    """The 16 bytes of an infinity."""
    return ((0xF8 if negative else 0x78) << 120).to_bytes(16, "little")


def exact(pattern: bytes) -> Decimal | None:
    """The value as a `Decimal` that compares exactly with every int and float; None for NaN."""
    parts = split(pattern)
    if parts.is_nan:
        return None
    if parts.is_infinite:
        return Decimal("-Infinity" if parts.negative else "Infinity")
    # From text, because that is exact for any precision of the current decimal context.
    return Decimal(f"{'-' if parts.negative else ''}{parts.coefficient}E{parts.exponent}")
