"""Values as text, for string operators and conversions."""

import math
from typing import Any

from bson import Code, DatetimeMS, Decimal128, Timestamp

from tailrace.bson.values import Symbol, is_string
from tailrace.errors import CommandError
from tailrace.query.expressions.dates import civil
from tailrace.query.expressions.dates.date_format import MONTHS, iso_string
from tailrace.query.expressions.operands import Number, is_nullish, is_number, type_name


def number_text(value: Number) -> str:
    """A number as text; a double with as many digits as it takes to read it back.

    >>> number_text(0.1 + 0.2), number_text(1e21), number_text(3.0), number_text(float("-inf"))
    ('0.30000000000000004', '1e+21', '3', '-Infinity')
    """
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        return repr(value).removesuffix(".0")
    return str(value) if isinstance(value, Decimal128) else str(int(value))


def _clock(seconds: int) -> str:
    """A time as month, day and time of day, without its year."""
    local = civil.local_time(seconds * 1000)
    month = MONTHS[local.month - 1][:3]
    return f"{month} {local.day:2} {local.hour:02}:{local.minute:02}:{local.second:02}"


def coerced_text(value: Any) -> str:
    """The text of a value, for operators that take any simple value; null is the empty string."""
    if is_string(value):
        return value
    if is_nullish(value):
        return ""
    if isinstance(value, float):
        return f"{value:g}"
    if is_number(value):
        return number_text(value)
    if isinstance(value, DatetimeMS):
        return iso_string(int(value))
    if isinstance(value, Symbol):
        return value.text
    if isinstance(value, Code) and value.scope is None:
        return str(value)
    if isinstance(value, Timestamp):
        return f"{_clock(value.time)}:{value.inc}"
    raise CommandError(16007, f"can't convert from BSON type {type_name(value)} to String")
