"""BSON values that PyMongo's `bson` has no type for.

PyMongo turns a symbol into a `str`, undefined into `None` and a DBPointer into a `DBRef`, but a stream must
return the original bytes. All other types are PyMongo's; dates are `DatetimeMS`, so that every 64-bit date is
in range.
"""

from dataclasses import dataclass
from typing import TypeGuard

from bson import ObjectId


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
