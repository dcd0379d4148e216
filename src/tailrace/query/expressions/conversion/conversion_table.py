"""The table of conversions between types.

A conversion gets a value of its source type and the `ConversionOptions`. A value that cannot be converted
raises ``ConversionFailure``, the only error that ``onError`` of ``$convert`` replaces.
"""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal
from typing import Any, Final

from bson import DatetimeMS, Decimal128, Int64, ObjectId

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.query.expressions.dates.date_arguments import date_millis
from tailrace.query.expressions.dates.date_format import iso_string
from tailrace.query.expressions.dates.date_strings import read_date
from tailrace.query.expressions.numbers.number_types import (
    DECIMAL,
    decimal128,
    fits_int32,
    fits_int64,
    integral_value,
    real,
    to_decimal,
    to_double,
)
from tailrace.query.expressions.operands import is_truthy
from tailrace.query.expressions.strings.text import number_text

_DIGITS: Final = "0123456789ABCDEF"
_OBJECT_ID: Final = re.compile(r"[0-9a-fA-F]{24}")
# Without a sign, hexadecimal digits are refused.
_HEXADECIMAL: Final = re.compile(
    r"[+-]0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(?:p[+-]?\d+)?", re.ASCII | re.IGNORECASE
)
# Digits after the 34th are cut off.
_TRUNCATING: Final = DECIMAL.copy()
_TRUNCATING.rounding = ROUND_DOWN
_REAL: Final = re.compile(
    r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan)", re.ASCII | re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class ConversionOptions:
    """The options of a conversion beside its target type."""

    base: int | None = None
    format: str | None = None
    byte_order: str = "little"
    subtype: int = 0


Conversion = Callable[[Any, ConversionOptions], Any]


_MOST_DIGITS: Final = 64
"""Of an int64, in base 2."""


def failure(reason: str) -> CommandError:
    return CommandError(ErrorCode.ConversionFailure, f"{reason} in $convert with no onError value")


def _whole(value: Any) -> int:
    number = real(value)
    if number != number:
        raise failure("Attempt to convert NaN value to integer type")
    if number in (Decimal("Infinity"), Decimal("-Infinity")):
        raise failure("Attempt to convert infinity value to integer type")
    return int(number)


def _checked_int32(number: int) -> int:
    if not fits_int32(number):
        raise failure("Conversion would overflow target type")
    return number


def _checked_int64(number: int) -> Int64:
    if not fits_int64(number):
        raise failure("Conversion would overflow target type")
    return Int64(number)


def _to_int32(value: Any, _: ConversionOptions) -> int:
    return _checked_int32(_whole(value))


def _to_int64(value: Any, _: ConversionOptions) -> Int64:
    return _checked_int64(_whole(value))


def _to_date(value: Any, _: ConversionOptions) -> DatetimeMS:
    return DatetimeMS(int(_checked_int64(_whole(value))))


def _number_to_double(value: Any, _: ConversionOptions) -> float:
    result = to_double(value)
    if isinstance(value, Decimal128) and abs(result) == float("inf") and to_decimal(value).is_finite():
        raise failure(f"Conversion would overflow target type: {value}")
    return result


def _number_to_string(value: Any, options: ConversionOptions) -> str:
    if options.base is None:
        return number_text(value)
    number = integral_value(value)
    if number is None or not fits_int64(number):
        raise failure(f"{value} is not an integer, so it cannot be written in base {options.base}")
    digits, rest = "", abs(number)
    while rest or not digits:
        rest, digit = divmod(rest, options.base)
        digits = _DIGITS[digit] + digits
    return f"-{digits}" if number < 0 else digits


def _read_integer(text: str, options: ConversionOptions) -> int:
    base = options.base or 10
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits or any(digit not in _DIGITS[:base] for digit in digits.upper()):
        raise failure(f"Failed to parse number '{text}'")
    digits = digits.lstrip("0") or "0"
    if len(digits) > _MOST_DIGITS:  # Python refuses to read thousands of them
        raise failure(f"Failed to parse number '{text}': out of range")
    return int(digits, base) * (-1 if text[0] == "-" else 1)


def _string_to_int32(text: str, options: ConversionOptions) -> int:
    return _checked_int32(_read_integer(text, options))


def _string_to_int64(text: str, options: ConversionOptions) -> Int64:
    return _checked_int64(_read_integer(text, options))


def _string_to_double(text: str, options: ConversionOptions) -> float:
    if options.base is not None:
        return float(_string_to_int64(text, options))
    if not (_REAL.fullmatch(text) or _HEXADECIMAL.fullmatch(text)):
        raise failure(f"Failed to parse number '{text}'")
    if hexadecimal := _HEXADECIMAL.fullmatch(text):
        return float.fromhex(hexadecimal[0])
    result = float(text)
    is_subnormal = abs(result) < sys.float_info.min and Decimal(text) != 0
    if is_subnormal or (abs(result) == float("inf") and "inf" not in text.lower()):
        raise failure(f"Failed to parse number '{text}': out of range")
    return result


def _string_to_decimal(text: str, options: ConversionOptions) -> Decimal128:
    if options.base is not None:
        return Decimal128(Decimal(_string_to_int64(text, options)))
    if not _REAL.fullmatch(text):
        raise failure(f"Failed to parse number '{text}'")
    number = Decimal(text)
    rounded = _TRUNCATING.create_decimal(number)
    if number.is_finite() and (DECIMAL.plus(number).is_infinite() or bool(rounded) != bool(number)):
        raise failure(f"Failed to parse number '{text}': out of range")
    return decimal128(rounded)


def _string_to_object_id(text: str, _: ConversionOptions) -> ObjectId:
    if not _OBJECT_ID.fullmatch(text):
        raise failure(f"Failed to parse objectId '{text}': it takes 24 hexadecimal digits")
    return ObjectId(text)


def _string_to_date(text: str, _: ConversionOptions) -> DatetimeMS:
    return DatetimeMS(read_date(text))


def _unchanged(value: Any, _: ConversionOptions) -> Any:
    return value


_NUMBERS: Final[dict[str, Conversion]] = {
    "double": _number_to_double,
    "decimal": lambda value, _: decimal128(to_decimal(value)),
    "int": _to_int32,
    "long": _to_int64,
    "string": _number_to_string,
}

CONVERSIONS: Final[dict[str, dict[str, Conversion]]] = {
    "double": {**_NUMBERS, "double": _unchanged, "date": _to_date},
    "int": {**_NUMBERS, "int": _unchanged},
    "long": {**_NUMBERS, "long": _unchanged, "date": _to_date},
    "decimal": {**_NUMBERS, "decimal": _unchanged, "date": _to_date},
    "bool": {
        "double": lambda value, _: float(value),
        "decimal": lambda value, _: Decimal128(Decimal(int(value))),
        "int": lambda value, _: int(value),
        "long": lambda value, _: Int64(int(value)),
        "string": lambda value, _: "true" if value else "false",
    },
    "string": {
        "double": _string_to_double,
        "decimal": _string_to_decimal,
        "int": _string_to_int32,
        "long": _string_to_int64,
        "string": _unchanged,
        "objectId": _string_to_object_id,
        "date": _string_to_date,
    },
    "objectId": {
        "string": lambda value, _: str(value),
        "objectId": _unchanged,
        "date": lambda value, _: DatetimeMS(date_millis(value)),
    },
    "date": {
        "double": lambda value, _: float(int(value)),
        "decimal": lambda value, _: Decimal128(Decimal(int(value))),
        "long": lambda value, _: Int64(int(value)),
        "string": lambda value, _: iso_string(int(value)),
        "date": _unchanged,
    },
    "timestamp": {"date": lambda value, _: DatetimeMS(date_millis(value))},
}
"""By source type and target type; binary data is in `binary_conversions`, and everything converts to bool."""


def to_bool(value: Any, _: ConversionOptions) -> bool:
    return is_truthy(value)
