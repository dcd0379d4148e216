"""BSON values that PyMongo's `bson` has no type for.

PyMongo turns a symbol into a `str`, undefined into `None` and a DBPointer into a `DBRef`: fine for an
application, not for a stream that has to give back the bytes it was given. Everything else uses
PyMongo's own types; dates are `DatetimeMS`, so that no 64-bit date is out of range.
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
