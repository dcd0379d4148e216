"""The kinds of fields that commands declare: which types they may have, and what null means.

MongoDB has two generations of parsers, and each field keeps the habits of the one that reads it. Generated
parsers take null and undefined for a field that is not given; hand-written ones refuse them. Some flags are
strict, others take numbers. Everything here was seen on 6.0.27.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bson import Binary, DatetimeMS, Decimal128, Int64, ObjectId, Timestamp

from tailrace.bson.compare import type_name
from tailrace.bson.values import Symbol, Undefined, is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.emulation.release import NEGATIVE_SIZES_ARE_BAD_VALUES, Release
from tailrace.pacing import ticking

if TYPE_CHECKING:
    from tailrace.mongod.server.dispatch.fields import Fields

_UUID_SUBTYPE: Final = 4
_UUID_SIZE: Final = 16
_NOT_AN_OBJECT: Final = 10065
_OUT_OF_RANGE: Final = 51024
LONG_MIN: Final = -(2**63)
LONG_MAX: Final = 2**63 - 1


def is_given(value: object) -> bool:
    """Whether a value is neither null nor undefined."""
    return value is not None and type(value) is not Undefined


def is_true(value: object) -> bool:
    """Whether a value counts as true where any type is allowed."""
    number = as_number(value)
    return is_given(value) and value is not False and number != 0


def as_number(value: object) -> int | float | None:
    """The value of a number of any type; None if it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, Decimal128):
        decimal = value.to_decimal()
        return math.nan if decimal.is_nan() else float(decimal)  # a signalling NaN has no float
    return value if isinstance(value, int | float) else None


def as_whole(value: object) -> int | None:
    """A number as the server converts it to a long; None if it is none.

    A double is cut off, a decimal is rounded to even, and both end at the ends of the range.
    """
    number = as_number(value)
    if number is None or isinstance(number, int):
        return number
    if math.isnan(number):
        return 0
    if number >= LONG_MAX:
        return LONG_MAX
    if number <= LONG_MIN:
        return LONG_MIN
    return round(number) if isinstance(value, Decimal128) else int(number)


def wrong_type(path: str, value: object, expected: str, code: int = ErrorCode.TypeMismatch) -> CommandError:
    """The error for a value of another type than ``expected``: one name, or several in brackets."""
    types = "types" if expected.startswith("[") else "type"
    found = type_name(value)
    return CommandError(
        code, f"BSON field '{path}' is the wrong type '{found}', expected {types} '{expected}'"
    )


@dataclass(frozen=True, slots=True)
class Kind:
    """What a field may be."""

    accepts: Callable[[Any], bool]
    expected: str
    """The name of the type, or several in brackets."""
    code: int = ErrorCode.TypeMismatch
    null_code: int | None = None
    """The code with which null and undefined are refused; None if they count as not given."""

    def check(self, path: str, name: str, value: Any, release: Release) -> None:
        """Raise if the value cannot be the field ``name`` of the document at ``path``."""
        if value is None or type(value) is Undefined:
            if self.null_code is not None:
                raise wrong_type(f"{path}.{name}", value, self.expected, self.null_code)
        elif not self.accepts(value):
            raise wrong_type(f"{path}.{name}", value, self.expected, self.code)
        else:
            self.look_inside(path, name, value, release)

    def look_inside(self, path: str, name: str, value: Any, release: Release) -> None:
        """Check a value of the right type further."""


@dataclass(frozen=True, slots=True)
class Number(Kind):
    """A number of any type, converted to a whole one, with bounds."""

    minimum: int = LONG_MIN
    maximum: int = LONG_MAX

    def look_inside(self, path: str, name: str, value: Any, release: Release) -> None:  # noqa: ARG002
        whole = as_whole(value)
        assert whole is not None
        if whole < self.minimum:
            reason = f"BSON field '{name}' value must be >= {self.minimum}, actual value '{whole}'"
        elif whole > self.maximum:
            reason = f"BSON field '{name}' value must be <= {self.maximum}, actual value '{whole}'"
        else:
            return
        raise CommandError(out_of_range_code(release), reason)


def out_of_range_code(release: Release) -> int:
    """The code for a number that is too small or too large."""
    return ErrorCode.BadValue if release.has(NEGATIVE_SIZES_ARE_BAD_VALUES) else _OUT_OF_RANGE


@dataclass(frozen=True, slots=True)
class Struct(Kind):
    """A document with declared fields."""

    fields: "Fields | None" = None

    def look_inside(self, path: str, name: str, value: Any, release: Release) -> None:
        if self.fields is not None:
            self.fields.check(f"{path}.{name}", value, release)


@dataclass(frozen=True, slots=True)
class ArrayOf(Kind):
    """An array; null items are left out."""

    items: Kind | None = None

    def look_inside(self, path: str, name: str, value: Any, release: Release) -> None:
        if self.items is not None:
            for number, item in enumerate(ticking(value)):
                self.items.check(f"{path}.{name}", str(number), item, release)


def _is_bool(value: object) -> bool:
    return value is True or value is False


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal128) and not isinstance(value, bool)


def _is_bool_or_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal128)


def is_text_or_symbol(value: object) -> bool:
    return is_string(value) or type(value) is Symbol


def is_uuid(value: object) -> bool:
    return isinstance(value, Binary) and value.subtype == _UUID_SUBTYPE


_NUMBERS: Final = "[long, int, decimal, double]"
_REFUSED: Final = ErrorCode.TypeMismatch

ANY: Final = Kind(lambda _: True, "any")
FLAG: Final = Kind(_is_bool, "bool")
"""True or false."""
GIVEN_FLAG: Final = Kind(_is_bool, "bool", null_code=_REFUSED)
LOOSE_FLAG: Final = Kind(_is_bool_or_number, "[bool, long, int, decimal, double]")
"""True, false or a number, which is true unless it is zero."""
GIVEN_LOOSE_FLAG: Final = Kind(_is_bool_or_number, "[bool, long, int, decimal, double]", null_code=_REFUSED)
NUMBER: Final = Number(_is_number, _NUMBERS)
GIVEN_NUMBER: Final = Number(_is_number, _NUMBERS, null_code=_REFUSED)
INT: Final = Kind(lambda value: type(value) is int, "int")
LONG: Final = Kind(lambda value: type(value) is Int64, "long")
TEXT: Final = Kind(is_string, "string")
GIVEN_TEXT: Final = Kind(is_string, "string", null_code=_REFUSED)
OBJECT: Final = Kind(lambda value: isinstance(value, dict), "object")
GIVEN_OBJECT: Final = Kind(lambda value: isinstance(value, dict), "object", null_code=_REFUSED)
ARRAY: Final = ArrayOf(lambda value: isinstance(value, list), "array", null_code=_NOT_AN_OBJECT)
DATE: Final = Kind(lambda value: isinstance(value, DatetimeMS), "date")
TIMESTAMP: Final = Kind(lambda value: isinstance(value, Timestamp), "timestamp")
GIVEN_TIMESTAMP: Final = Kind(lambda value: isinstance(value, Timestamp), "timestamp", null_code=_REFUSED)
OBJECT_ID: Final = Kind(lambda value: isinstance(value, ObjectId), "objectId")
UUID: Final = Kind(is_uuid, "binData")
DIGEST: Final = Kind(lambda value: isinstance(value, bytes), "binData")
HINT: Final = Kind(
    lambda value: is_string(value) or isinstance(value, dict),
    "[string, object]",
    code=ErrorCode.FailedToParse,
    null_code=ErrorCode.FailedToParse,
)
COLLECTION: Final = Kind(is_text_or_symbol, "string", code=ErrorCode.BadValue, null_code=ErrorCode.BadValue)
"""The name of a collection, as generated parsers read it."""
COLLECTION_OR_UUID: Final = Kind(
    lambda value: is_text_or_symbol(value) or is_uuid(value),
    "[string, binData]",
    code=ErrorCode.BadValue,
    null_code=ErrorCode.BadValue,
)
OLD_COLLECTION: Final = Kind(
    is_text_or_symbol, "string", code=ErrorCode.InvalidNamespace, null_code=ErrorCode.InvalidNamespace
)
"""The name of a collection, as hand-written parsers read it."""
OLD_COLLECTION_OR_UUID: Final = Kind(
    lambda value: is_text_or_symbol(value) or is_uuid(value),
    "[string, binData]",
    code=ErrorCode.InvalidNamespace,
    null_code=ErrorCode.InvalidNamespace,
)

COLLECTION_KINDS: Final = (COLLECTION, COLLECTION_OR_UUID, OLD_COLLECTION, OLD_COLLECTION_OR_UUID)


def at_least(minimum: int, maximum: int = LONG_MAX) -> Number:
    """A number with bounds."""
    return Number(_is_number, _NUMBERS, minimum=minimum, maximum=maximum)


def struct(fields: "Fields") -> Struct:
    """A document with declared fields; null counts as not given."""
    return Struct(OBJECT.accepts, OBJECT.expected, fields=fields)


def given_struct(fields: "Fields") -> Struct:
    """A document with declared fields; null is refused."""
    return Struct(OBJECT.accepts, OBJECT.expected, null_code=_REFUSED, fields=fields)


def array_of(items: Kind) -> ArrayOf:
    return ArrayOf(ARRAY.accepts, ARRAY.expected, null_code=_NOT_AN_OBJECT, items=items)


def given_array_of(items: Kind) -> ArrayOf:
    """An array that may not be null."""
    return ArrayOf(ARRAY.accepts, ARRAY.expected, null_code=_REFUSED, items=items)
