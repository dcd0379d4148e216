"""Decimal128 as key bytes.

Decimals share the order of doubles, so a decimal is written as the next double below it in magnitude, plus
the difference: nothing if it equals the double, a marker if it is that double rounded up to 15 digits (the
usual case for short decimals), or else the *continuation*, its distance from a reference that both sides can
compute from the double. Where no double is near, the 128 bits themselves are written.

All arithmetic here is exact or rounded in a defined direction; only `up34` and similar functions round.
"""

import math
import sys
from decimal import MAX_EMAX, MIN_EMIN, ROUND_DOWN, ROUND_UP, Context, Decimal
from typing import Final

from tailrace.bson.decimal128 import BIAS, MAX_DIGITS
from tailrace.bson.keystring.layout import (
    ABOVE_15_DIGITS,
    BELOW_15_DIGITS,
    BELOW_ONE,
    EQUALS_15_DIGITS,
    LARGE,
)
from tailrace.bson.keystring.numbers import (
    SMALLEST_UNSCALED,
    TINY_SCALE,
    TWO_TO_63,
    WORD,
    Form,
    below_one_form,
    double_form,
    fraction_form,
    large_form,
    tiny_form,
    whole_form,
)

TWO_TO_53: Final = 2.0**53
SMALLEST_NORMAL: Final = sys.float_info.min

_LARGEST: Final = sys.float_info.max


def _context(precision: int, rounding: str) -> Context:
    return Context(prec=precision, rounding=rounding, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])


# Two operands differ by at most 34 digits in position, so 100 digits are exact.
EXACT: Final = _context(100, ROUND_DOWN)
_UP_34: Final = _context(MAX_DIGITS, ROUND_UP)
_DOWN_34: Final = _context(MAX_DIGITS, ROUND_DOWN)
_UP_15: Final = _context(15, ROUND_UP)

# 2**256 and 2**-256, both rounded down to 34 digits. They scale subnormal magnitudes into the range where a
# double has its full precision; the constants are part of the format.
_SCALE_UP: Final = Decimal("1157920892373161954235709850086879E44")
_SCALE_DOWN: Final = Decimal("8636168555094444625386351862800399E-111")


def up34(magnitude: float) -> Decimal:
    """A double rounded up to 34 digits: the reference of most continuations."""
    return _UP_34.plus(Decimal(magnitude))


def up15(magnitude: float) -> Decimal:
    """A double rounded up to 15 digits."""
    return _UP_15.plus(Decimal(magnitude))


def subnormal_reference(scaled: float) -> Decimal:
    """The reference of continuations where the double itself would be subnormal."""
    return _DOWN_34.multiply(_DOWN_34.plus(Decimal(scaled)), _SCALE_DOWN)


def round_toward_zero(magnitude: Decimal) -> float:
    """The largest finite double that is not above ``magnitude``."""
    nearest = float(magnitude)
    return math.nextafter(nearest, 0.0) if Decimal(nearest) > magnitude else nearest


def widest(magnitude: Decimal) -> tuple[int, int]:
    """Coefficient and exponent with as many trailing zeros as fit into a Decimal128.

    >>> widest(Decimal("1.5"))
    (1500000000000000000000000000000000, -33)
    """
    digits = len(magnitude.as_tuple().digits)
    exponent = magnitude.adjusted() - digits + 1
    room = min(MAX_DIGITS - digits, exponent + BIAS)
    return int(EXACT.scaleb(magnitude, room - exponent)), exponent - room


def decimal_form(magnitude: Decimal) -> Form:
    """The form of a finite decimal above zero."""
    double = round_toward_zero(magnitude)
    if double == magnitude:
        return double_form(double)
    if double == 0:
        return BELOW_ONE, _pattern(magnitude), 2 * WORD
    if double == _LARGEST:
        return LARGE, 1 << 127 | _pattern(magnitude), 2 * WORD
    if double >= TWO_TO_63:
        return _continued(large_form(double, 1), magnitude, up34(double))
    if double < SMALLEST_NORMAL:
        scaled = max(round_toward_zero(_DOWN_34.multiply(magnitude, _SCALE_UP)), double * TINY_SCALE)
        return _continued(tiny_form(scaled, 1), magnitude, subnormal_reference(scaled))
    if double < SMALLEST_UNSCALED:
        return _continued(tiny_form(double * TINY_SCALE, 1), magnitude, up34(double))
    if double >= TWO_TO_53:
        return _between_53_and_63_bits(magnitude)
    short = up15(double)
    form = below_one_form if double < 1 else fraction_form
    if magnitude == short:
        return form(double, EQUALS_15_DIGITS)
    marker = BELOW_15_DIGITS if magnitude < short else ABOVE_15_DIGITS
    return _continued(form(double, marker), magnitude, up34(double))


def _between_53_and_63_bits(magnitude: Decimal) -> Form:
    """In this range the integer part is written exactly, because a double could not hold it."""
    whole = int(magnitude)
    class_byte, doubled, size = whole_form(whole)
    if whole == magnitude:
        return class_byte, doubled, size
    payload = doubled | 1
    if size < WORD:
        payload = payload << 8 | ABOVE_15_DIGITS
    return _continued((class_byte, payload, WORD), magnitude, Decimal(whole))


def _continued(form: Form, magnitude: Decimal, reference: Decimal) -> Form:
    class_byte, payload, _ = form
    _, exponent = widest(reference)
    distance = int(EXACT.scaleb(EXACT.subtract(magnitude, reference), -exponent))
    return class_byte, payload << 64 | distance, 2 * WORD


def _pattern(magnitude: Decimal) -> int:
    coefficient, exponent = widest(magnitude)
    return (exponent + BIAS) << 113 | coefficient
