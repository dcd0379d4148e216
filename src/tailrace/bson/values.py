"""BSON values that PyMongo's `bson` has no type for.

PyMongo turns a symbol into a `str`, undefined into `None` and a DBPointer into a `DBRef`, but a stream must
return the original bytes. All other types are PyMongo's; dates are `DatetimeMS`, so that every 64-bit date is
in range.
"""

from dataclasses import dataclass

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
