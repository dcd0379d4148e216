"""BSON values that PyMongo's `bson` has no type for.

PyMongo turns a symbol into a `str`, undefined into `None` and a DBPointer into a `DBRef`, but a stream must
return the original bytes. All other types are PyMongo's; dates are `DatetimeMS`, so that every 64-bit date is
in range.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import Final, TypeGuard

from bson import Decimal128, ObjectId

_FAR: Final = 2**63


@dataclass(frozen=True, slots=True)
class Symbol:
    """BSON type 0x0E; compares like a string."""

    text: str


@dataclass(frozen=True, slots=True)
class Undefined:
    """BSON type 0x06."""


@dataclass(frozen=True, slots=True)
class DBPointer:
    """BSON type 0x0C."""

    namespace: str
    id: ObjectId


def is_string(value: object) -> TypeGuard[str]:
    """Whether a value is a string.

    JavaScript is not, though `bson.Code` is a subclass of `str`: ask here, not with `isinstance`, wherever a
    client gives the value.
    """
    return type(value) is str


def whole_number(value: float | Decimal128) -> int | None:
    """A number as a whole one, as the server converts it; None for NaN.

    A double is cut off, a decimal is rounded to even; beyond 64 bits it is only known to be there.

    >>> whole_number(2.9), whole_number(Decimal128("2.5")), whole_number(Decimal128("sNaN"))
    (2, 2, None)
    """
    number = value.to_decimal() if isinstance(value, Decimal128) else value
    if number.is_nan() if isinstance(number, Decimal) else number != number:
        return None
    if not -_FAR < number < _FAR:
        return _FAR if number > 0 else -_FAR
    return int(number.to_integral_value()) if isinstance(number, Decimal) else int(number)
