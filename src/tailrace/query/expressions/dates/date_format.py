"""`$dateToString`: a date as text, by a format with ``%`` specifiers."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

from tailrace.bson.values import is_string
from tailrace.errors import CommandError
from tailrace.query.expressions.arguments import named_specs
from tailrace.query.expressions.dates import civil
from tailrace.query.expressions.dates.civil import LocalTime
from tailrace.query.expressions.dates.date_arguments import date_millis, parse_zone
from tailrace.query.expressions.dates.timezones import UTC, TimeZone, checked_zone
from tailrace.query.expressions.operands import is_nullish, type_name
from tailrace.query.expressions.scope import Environment, Expression, ExpressionScope, OperatorParser

MONTHS: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip

_ISO_LOCAL: Final = "%Y-%m-%dT%H:%M:%S.%L"
_ISO_UTC: Final = _ISO_LOCAL + "Z"
_MAX_YEAR: Final = 9999


class _Moment(NamedTuple):
    local: LocalTime
    offset: int


def _year(year: int) -> str:
    if not 0 <= year <= _MAX_YEAR:
        raise CommandError(
            18537, f"$dateToString is only defined on year 0-{_MAX_YEAR}, tried to use year {year}"
        )
    return f"{year:04}"


def _offset(offset: int) -> str:
    hours, minutes = divmod(abs(offset) // civil.MINUTE, 60)
    return f"{'-' if offset < 0 else '+'}{hours:02}{minutes:02}"


_SPECIFIERS: Final[dict[str, Callable[[_Moment], str]]] = {
    "%": lambda _: "%",
    "b": lambda moment: MONTHS[moment.local.month - 1][:3],
    "B": lambda moment: MONTHS[moment.local.month - 1],
    "d": lambda moment: f"{moment.local.day:02}",
    "G": lambda moment: _year(civil.iso_week(moment.local.days)[0]),
    "H": lambda moment: f"{moment.local.hour:02}",
    "j": lambda moment: f"{civil.day_of_year(moment.local.days):03}",
    "L": lambda moment: f"{moment.local.millisecond:03}",
    "m": lambda moment: f"{moment.local.month:02}",
    "M": lambda moment: f"{moment.local.minute:02}",
    "S": lambda moment: f"{moment.local.second:02}",
    "u": lambda moment: str(civil.iso_weekday(moment.local.days)),
    "U": lambda moment: f"{civil.week_of_year(moment.local.days):02}",
    "V": lambda moment: f"{civil.iso_week(moment.local.days)[1]:02}",
    "w": lambda moment: str(civil.iso_weekday(moment.local.days) % 7 + 1),
    "Y": lambda moment: _year(moment.local.year),
    "z": lambda moment: _offset(moment.offset),
    "Z": lambda moment: str(moment.offset // civil.MINUTE),
}


@lru_cache(maxsize=256)
def split_format(format_text: str, specifiers: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """The format as pairs of a literal text and the specifier after it, "" at the end."""
    parts = []
    literal = ""
    position = 0
    while position < len(format_text):
        char = format_text[position]
        position += 1
        if char != "%":
            literal += char
            continue
        if position == len(format_text):
            raise CommandError(18535, "Unmatched '%' at end of format string")
        specifier = format_text[position]
        position += 1
        if specifier not in specifiers:
            raise CommandError(18536, f"Invalid format character '%{specifier}' in format string")
        parts.append((literal, specifier))
        literal = ""
    return (*parts, (literal, ""))


_SPECIFIER_NAMES: Final = frozenset(_SPECIFIERS)


def check_format(name: str, format_text: Any, specifiers: frozenset[str], *, not_string: int) -> None:
    """Refuse a malformed format; null is none."""
    if is_nullish(format_text):
        return
    if not is_string(format_text):
        raise CommandError(
            not_string, f"{name} requires that 'format' be a string, found: {type_name(format_text)}"
        )
    split_format(format_text, specifiers)


def format_date(millis: int, format_text: str, zone: TimeZone) -> str:
    """A time as text.

    >>> format_date(0, "%Y-%m-%d %z", UTC)
    '1970-01-01 +0000'
    """
    offset = zone.offset(millis)
    moment = _Moment(civil.local_time(millis + offset), offset)
    return "".join(
        literal + (_SPECIFIERS[specifier](moment) if specifier else "")
        for literal, specifier in split_format(format_text, _SPECIFIER_NAMES)
    )


def iso_string(millis: int) -> str:
    """The time in UTC, in the format of conversions to string."""
    return format_date(millis, _ISO_UTC, UTC)


def _parse_date_to_string(name: str, spec: Any, scope: ExpressionScope) -> Expression:
    specs = named_specs(
        name,
        spec,
        required={"date": 18628},
        optional=("format", "timezone", "onNull"),
        not_object=18629,
        unknown=18534,
    )
    source, zone_argument = scope.parse(specs["date"]), parse_zone(specs, scope)
    format_argument = scope.parse(specs["format"]) if "format" in specs else None
    on_null = scope.parse(specs.get("onNull"))

    def apply(env: Environment) -> Any:
        value, zone_name = source(env), zone_argument(env)
        format_text = _ISO_LOCAL if format_argument is None else format_argument(env)
        check_format(name, format_text, _SPECIFIER_NAMES, not_string=18533)
        if is_nullish(value):
            return on_null(env)
        if is_nullish(zone_name):
            return None
        zone = checked_zone(zone_name)
        if is_nullish(format_text):
            return None
        if format_argument is None and zone == UTC:
            format_text = _ISO_UTC
        return format_date(date_millis(value), format_text, zone)

    return apply


OPERATORS: Final[dict[str, OperatorParser]] = {"$dateToString": _parse_date_to_string}
