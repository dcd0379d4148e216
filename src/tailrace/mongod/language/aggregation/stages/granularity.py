"""Series of preferred numbers for the boundaries of `$bucketAuto`.

A series repeats in every power of ten: 1, 1.6, 2.5, 4, 6.3, 10, 16... The Renard series divide a decade into
equal ratios, the E series are those of electronic components, 1-2-5 that of coins.
"""

import math
from bisect import bisect_left, bisect_right
from decimal import Decimal, localcontext
from typing import Final, Protocol

from tailrace.errors import CommandError

_SERIES: Final[dict[str, str]] = {
    "R5": "10 16 25 40 63",
    "R10": "100 125 160 200 250 315 400 500 630 800",
    "R20": "100 112 125 140 160 180 200 224 250 280 315 355 400 450 500 560 630 710 800 900",
    "R40": "100 106 112 118 125 132 140 150 160 170 180 190 200 212 224 236 250 265 280 300 315 335 355 375 "
    "400 425 450 475 500 530 560 600 630 670 710 750 800 850 900 950",
    "R80": "103 109 115 122 128 136 145 155 165 175 185 195 206 218 230 243 258 272 290 307 325 345 365 387 "
    "412 437 462 487 515 545 575 615 650 690 730 775 825 875 925 975",
    "1-2-5": "10 20 50",
    "E6": "10 15 22 33 47 68",
    "E12": "10 12 15 18 22 27 33 39 47 56 68 82",
    "E24": "10 11 12 13 15 16 18 20 22 24 27 30 33 36 39 43 47 51 56 62 68 75 82 91",
}
_FINE_E_SERIES: Final = {"E48": 48, "E96": 96, "E192": 192}


class Granularity(Protocol):
    """Rounds non-negative numbers to a series."""

    def round_up(self, value: float) -> float:
        """The lowest number of the series above a value; zero stays zero."""

    def round_down(self, value: float) -> float:
        """The highest number of the series below a value; zero stays zero."""


class _PreferredNumbers:
    def __init__(self, mantissas: list[Decimal]) -> None:
        self._mantissas = sorted(mantissas)
        self._digits = max(len(mantissa.as_tuple().digits) for mantissa in mantissas)

    def round_up(self, value: float) -> float:
        if value == 0:
            return 0.0
        exponent = _power_of_ten(value)
        numbers = self._decade(exponent)
        position = bisect_right(numbers, value)
        return numbers[position] if position < len(numbers) else self._decade(exponent + 1)[0]

    def round_down(self, value: float) -> float:
        if value == 0:
            return 0.0
        exponent = _power_of_ten(value)
        numbers = self._decade(exponent)
        position = bisect_left(numbers, value)
        return numbers[position - 1] if position else self._decade(exponent - 1)[-1]

    def _decade(self, exponent: int) -> list[float]:
        return [self._number(mantissa, exponent) for mantissa in self._mantissas]

    def _number(self, mantissa: Decimal, exponent: int) -> float:
        """A number of the series as a mongod computes it, with the rounding error of a product."""
        return float(mantissa.scaleb(self._digits - 1)) * 10.0 ** (exponent - self._digits + 1)


def _power_of_ten(value: float) -> int:
    """The greatest power of ten that is not above a value."""
    return Decimal(repr(value)).adjusted()


class _PowersOfTwo:
    def round_up(self, value: float) -> float:
        return 0.0 if value == 0 else math.ldexp(1.0, math.frexp(value)[1])

    def round_down(self, value: float) -> float:
        if value == 0:
            return 0.0
        mantissa, exponent = math.frexp(value)
        return math.ldexp(1.0, exponent - 2 if mantissa == 0.5 else exponent - 1)


def _decade(count: int) -> list[Decimal]:
    """An E series of three digits: ``count`` numbers with equal ratios, rounded."""
    with localcontext() as context:
        context.prec = 30
        ratio = Decimal(10).ln() / count
        numbers = [(ratio * step).exp() for step in range(count)]
    rounded = [number.quantize(Decimal("0.01")) for number in numbers]
    if count == 192:
        # The only number of the standard that differs from the rounded one.
        rounded[rounded.index(Decimal("9.19"))] = Decimal("9.20")
    return rounded


def granularity(name: str) -> Granularity:
    """The series of a name.

    >>> granularity("E6").round_up(1.2), granularity("E6").round_down(1000)
    (1.5, 680.0)
    >>> granularity("POWERSOF2").round_up(8)
    16.0
    """
    if name == "POWERSOF2":
        return _PowersOfTwo()
    if name in _FINE_E_SERIES:
        return _PreferredNumbers(_decade(_FINE_E_SERIES[name]))
    if name in _SERIES:
        numbers = [Decimal(text) for text in _SERIES[name].split()]
        return _PreferredNumbers([number.scaleb(-number.adjusted()) for number in numbers])
    raise CommandError(40257, f"Unknown rounding granularity '{name}'")
