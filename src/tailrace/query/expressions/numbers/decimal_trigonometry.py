"""Trigonometric and hyperbolic functions of finite decimals, for the 34 digits of a decimal128.

Python's `decimal` has roots, exponential and logarithm; the other functions are computed here from series
after a reduction of the argument. Results have many more than 34 digits, and the caller rounds them once. The
caller also checks that the argument is in the function's domain. The operators of `Decimal`, also its signs,
are avoided: they round to the digits of the thread's context.
"""

from collections.abc import Callable, Iterator
from decimal import Context, Decimal
from functools import lru_cache
from itertools import count
from typing import Final

# 34 digits of the result, as many again for an argument next to a multiple of pi, and a margin.
_DIGITS: Final = 110
_CONTEXT: Final = Context(prec=_DIGITS, Emin=-99_999, Emax=99_999, traps=[])
_TINY: Final = Decimal("1E-30")
_ONE: Final = Decimal(1)
_HALVINGS: Final = 4


@lru_cache(maxsize=8)
def pi(digits: int = _DIGITS) -> Decimal:
    """Pi, by Machin's formula in integers.

    >>> str(pi(20))
    '3.1415926535897932385'
    """
    unit = 10 ** (digits + 10)
    scaled = 4 * (4 * _arctan_of_inverse(5, unit) - _arctan_of_inverse(239, unit))
    return Decimal(scaled).scaleb(-digits - 10, Context(prec=digits + 20)).normalize(Context(prec=digits))


def _arctan_of_inverse(n: int, unit: int) -> int:
    term = unit // n
    total = term
    for k in count(3, 2):
        term //= n * n
        if not term:
            break
        total += term // k if k % 4 == 1 else -(term // k)
    return total


def _series(terms: Iterator[Decimal]) -> Decimal:
    """The sum of decreasing terms, until they no longer change it."""
    total = next(terms)
    for term in terms:
        if not term or term.adjusted() < total.adjusted() - _DIGITS:
            break
        total = _CONTEXT.add(total, term)
    return total


def _powers(first: Decimal, step: Callable[[Decimal, int], Decimal], start: int) -> Iterator[Decimal]:
    term = first
    for k in count(start, 2):
        yield term
        term = step(term, k)


def _sine_series(x: Decimal, sign: int) -> Decimal:
    factor = _CONTEXT.multiply(x, x).copy_sign(Decimal(sign))
    return _series(
        _powers(x, lambda term, k: _CONTEXT.divide(_CONTEXT.multiply(term, factor), k * (k + 1)), 2)
    )


def _cosine_series(x: Decimal, sign: int) -> Decimal:
    factor = _CONTEXT.multiply(x, x).copy_sign(Decimal(sign))
    return _series(
        _powers(_ONE, lambda term, k: _CONTEXT.divide(_CONTEXT.multiply(term, factor), k * (k + 1)), 1)
    )


def _quadrant(x: Decimal) -> tuple[int, Decimal]:
    """The number of quarter turns in x, modulo 4, and the remainder, at most an eighth of a turn."""
    digits = _DIGITS + max(x.adjusted(), 0)
    context = Context(prec=digits, Emin=-99_999, Emax=99_999, traps=[])
    quarter = context.divide(pi(digits), 2)
    turns = context.divide(x, quarter).to_integral_value(context=context)
    return int(turns) % 4, _CONTEXT.plus(context.subtract(x, context.multiply(turns, quarter)))


def sin(x: Decimal) -> Decimal:
    quadrant, rest = _quadrant(x)
    value = _cosine_series(rest, -1) if quadrant % 2 else _sine_series(rest, -1)
    return value.copy_negate() if quadrant >= 2 else value


def cos(x: Decimal) -> Decimal:
    quadrant, rest = _quadrant(x)
    value = _sine_series(rest, -1) if quadrant % 2 else _cosine_series(rest, -1)
    return value.copy_negate() if quadrant in (1, 2) else value


def tan(x: Decimal) -> Decimal:
    return _CONTEXT.divide(sin(x), cos(x))


def atan(x: Decimal) -> Decimal:
    if x.copy_abs() > 1:
        quarter = _CONTEXT.divide(pi(), 2).copy_sign(x)
        return _CONTEXT.subtract(quarter, atan(_CONTEXT.divide(_ONE, x)))
    for _ in range(_HALVINGS):
        root = _CONTEXT.sqrt(_CONTEXT.fma(x, x, _ONE))
        x = _CONTEXT.divide(x, _CONTEXT.add(_ONE, root))
    factor = _CONTEXT.multiply(x, x).copy_negate()
    powers = _powers(x, lambda power, _: _CONTEXT.multiply(power, factor), 1)
    total = _series(_CONTEXT.divide(power, 2 * k + 1) for k, power in enumerate(powers))
    return _CONTEXT.multiply(total, 2**_HALVINGS)


def atan2(y: Decimal, x: Decimal) -> Decimal:
    """The angle of a point; infinite coordinates and signed zeros are handled as for doubles."""
    if x.is_infinite() and y.is_infinite():
        y, x = _ONE.copy_sign(y), _ONE.copy_sign(x)
    elif x.is_infinite():
        y, x = Decimal(0).copy_sign(y), _ONE.copy_sign(x)
    elif y.is_infinite():
        y, x = _ONE.copy_sign(y), Decimal(0)
    if not y:
        return pi().copy_sign(y) if x.is_signed() else y
    if not x:
        return _CONTEXT.divide(pi(), 2).copy_sign(y)
    angle = atan(_CONTEXT.divide(y, x))
    return _CONTEXT.add(angle, pi().copy_sign(y)) if x < 0 else angle


def asin(x: Decimal) -> Decimal:
    return atan2(x, _leg(x))


def acos(x: Decimal) -> Decimal:
    return atan2(_leg(x), x)


def _leg(x: Decimal) -> Decimal:
    return _CONTEXT.sqrt(_CONTEXT.multiply(_CONTEXT.subtract(_ONE, x), _CONTEXT.add(_ONE, x)))


def sinh(x: Decimal) -> Decimal:
    if x.copy_abs() < 1:
        return _sine_series(x, 1)
    growth = _CONTEXT.exp(x)
    return _CONTEXT.divide(_CONTEXT.subtract(growth, _CONTEXT.divide(_ONE, growth)), 2)


def cosh(x: Decimal) -> Decimal:
    growth = _CONTEXT.exp(x.copy_abs())
    return _CONTEXT.divide(_CONTEXT.add(growth, _CONTEXT.divide(_ONE, growth)), 2)


def tanh(x: Decimal) -> Decimal:
    if x.copy_abs() > _DIGITS:
        return _ONE.copy_sign(x)
    return _CONTEXT.divide(sinh(x), cosh(x))


def asinh(x: Decimal) -> Decimal:
    if x.copy_abs() < _TINY:
        return _CONTEXT.subtract(x, _CONTEXT.divide(_CONTEXT.power(x, 3), 6))
    root = _CONTEXT.sqrt(_CONTEXT.fma(x, x, _ONE))
    return _CONTEXT.ln(_CONTEXT.add(x.copy_abs(), root)).copy_sign(x)


def acosh(x: Decimal) -> Decimal:
    root = _CONTEXT.sqrt(_CONTEXT.multiply(_CONTEXT.subtract(x, _ONE), _CONTEXT.add(x, _ONE)))
    return _CONTEXT.ln(_CONTEXT.add(x, root))


def atanh(x: Decimal) -> Decimal:
    if x.copy_abs() == 1:
        return Decimal("Infinity").copy_sign(x)
    if x.copy_abs() < _TINY:
        return _CONTEXT.add(x, _CONTEXT.divide(_CONTEXT.power(x, 3), 3))
    ratio = _CONTEXT.divide(_CONTEXT.add(_ONE, x), _CONTEXT.subtract(_ONE, x))
    return _CONTEXT.divide(_CONTEXT.ln(ratio), 2)
