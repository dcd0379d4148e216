"""Parse dates from text, with or without a format.

Without a format, text is parsed as by MongoDB's date library: piece by piece, each a date, a time or a zone.
Supported are ISO 8601, with and without separators, by week and by day of the year; dates with month names;
American ``m/d/y`` and European ``d-m-y`` and ``d.m.y``; times with seconds, fractions, am and pm; offsets,
zone abbreviations and the letters of military zones. Text with an unknown piece is refused, and so is a time
without a date.
"""

import re
from dataclasses import dataclass
from typing import Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.query.expressions.dates import civil
from tailrace.query.expressions.dates.date_format import MONTHS, split_format
from tailrace.query.expressions.dates.timezones import UTC, TimeZone

_MONTH_NAMES: Final = {
    **{name.lower(): number for number, name in enumerate(MONTHS, 1)},
    **{name[:3].lower(): number for number, name in enumerate(MONTHS, 1)},
    "sept": 9,
}
_MONTH: Final = "|".join(sorted(_MONTH_NAMES, key=len, reverse=True))
_ABBREVIATIONS: Final = {
    "utc": 0, "gmt": 0, "wet": 0, "west": 60, "bst": 60, "ist": 330, "cet": 60, "cest": 120, "eet": 120,
    "eest": 180, "msk": 180, "est": -300, "edt": -240, "cst": -360, "cdt": -300, "mst": -420, "mdt": -360,
    "pst": -480, "pdt": -420, "akst": -540, "akdt": -480, "hst": -600, "jst": 540, "kst": 540, "sgt": 480,
    "awst": 480, "acst": 570, "acdt": 630, "aest": 600, "aedt": 660, "nzst": 720, "nzdt": 780,
}  # fmt: skip
# Military letters: A to M without J run east, N to Y west, Z is UTC.
_MILITARY: Final = {
    **{letter: number * 60 for number, letter in enumerate("abcdefghiklm", 1)},
    **{letter: -number * 60 for number, letter in enumerate("nopqrstuvwxy", 1)},
    "z": 0,
}

_OFFSET: Final = r"(?P<sign>[+-])(?P<oh>\d{1,2})(?::?(?P<om>\d{2}))?"
_ZONE: Final = rf"\s*(?:(?:(?:gmt|utc)\s?)?{_OFFSET}|(?P<abbreviation>[a-z]{{1,4}}))(?![a-z/])"

_DATES: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?P<y>\d{4})-?W(?P<week>\d{2})(?:-?(?P<weekday>[0-7]))?(?!\d)",
        r"(?P<y>\d{4})-(?P<m>\d{1,2})-(?P<d>\d{1,2})(?!\d)",
        r"(?P<y>\d{4})/(?P<m>\d{1,2})/(?P<d>\d{1,2})(?!\d)",
        r"(?P<y>\d{4})(?P<yday>\d{3})(?!\d)",
        r"(?P<y>\d{4})(?P<m>\d{2})(?P<d>\d{2})(?!\d)",
        r"(?P<m>\d{1,2})/(?P<d>\d{1,2})/(?P<y>\d{4}|\d{2})(?!\d)",
        r"(?P<d>\d{1,2})[-.](?P<m>\d{1,2})[-.](?P<y>\d{4})(?!\d)",
        r"(?P<y>\d{4})-(?P<m>\d{1,2})(?!\d)",
        rf"(?P<y>\d{{4}})[-. ]*(?P<month>{_MONTH})[-. ]*(?P<d>\d{{1,2}})(?!\d)",
        rf"(?P<d>\d{{1,2}})(?:st|nd|rd|th)?[-. ]*(?P<month>{_MONTH})[-., ]*(?P<y>\d{{4}})(?!\d)",
        rf"(?P<month>{_MONTH})[-. ]*(?P<d>\d{{1,2}})(?:st|nd|rd|th)?[-., ]+(?P<y>\d{{4}})(?!\d)",
        rf"(?P<month>{_MONTH})[-. ]*(?P<y>\d{{4}})(?!\d)",
    )
)
_WEEKDAY: Final = re.compile(
    r"(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?\b,?", re.IGNORECASE
)
_TIMES: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"T?(?P<h>\d{1,2})[:.](?P<i>\d{2})(?:[:.](?P<s>\d{2})(?:[.,:](?P<f>\d+))?)?(?:\s*(?P<half>[ap])\.?m\.?)?(?!\d)",
        r"T?(?P<h>\d{1,2})\s*(?P<half>[ap])\.?m\.?(?![a-z])",
        r"T(?P<h>\d{2})(?P<i>\d{2})(?:(?P<s>\d{2})(?:[.,](?P<f>\d+))?)?(?!\d)",
        r"T(?P<h>\d{2})(?!\d)",
        r"(?P<word>noon|midnight|today)",
    )
)
_EPOCH_SECONDS: Final = re.compile(r"@(-?\d{1,15})")
_ZONE_PATTERN: Final = re.compile(_ZONE, re.IGNORECASE)
_SEPARATORS: Final = re.compile(r"[\s,]+")


@dataclass(slots=True)
class _Reading:
    """The parts read so far."""

    days: int | None = None
    time: int | None = None
    offset: int | None = None

    def millis(self, text: str, zone: TimeZone | None) -> int:
        if self.days is None:
            raise _failure(text, "an incomplete date/time string has been found, with elements missing")
        local = self.days * civil.DAY + (self.time or 0)
        if self.offset is None:
            return (zone or UTC).to_utc(local)
        if zone is not None:
            raise _failure(text, "it has a time zone already, and a timezone argument was given")
        return local - self.offset * civil.MINUTE


def _failure(text: str, reason: str) -> CommandError:
    return CommandError(ErrorCode.ConversionFailure, f"Error parsing date string '{text}'; {reason}")


def read_date(text: str, zone: TimeZone | None = None) -> int:
    """The time of a text, in milliseconds; local to `zone`, or with an offset in the text, but not both.

    >>> read_date("1970-01-01T00:00:01.5Z"), read_date("Jan 2nd, 1970 1am")
    (1500, 90000000)
    """
    if match := _EPOCH_SECONDS.fullmatch(text):
        return int(match[1]) * 1000
    reading = _Reading()
    position = 0
    while position < len(text):
        if match := _SEPARATORS.match(text, position):
            position = match.end()
            continue
        end = _read_piece(text, position, reading)
        if end is None:
            raise _failure(text, f"unexpected character at {position}: '{text[position]}'")
        position = end
    return reading.millis(text, zone)


def _read_piece(text: str, position: int, reading: _Reading) -> int | None:
    if reading.days is None:
        for pattern in _DATES:
            if match := pattern.match(text, position):
                reading.days = _days(text, match.groupdict())
                return match.end()
    if reading.time is None:
        for pattern in _TIMES:
            if match := pattern.match(text, position):
                reading.time = _time(text, match.groupdict())
                return match.end()
    if match := _WEEKDAY.match(text, position):
        return match.end()
    if reading.offset is None and reading.time is not None and (match := _ZONE_PATTERN.match(text, position)):
        reading.offset = _offset(match.groupdict())
        if reading.offset is not None:
            return match.end()
    return None


def _days(text: str, groups: dict[str, str | None]) -> int:
    year = int(groups["y"] or 0)
    if len(groups["y"] or "") == 2:
        year += 2000 if year < 70 else 1900
    if week := groups.get("week"):
        return civil.days_of_iso_week(year, int(week), int(groups.get("weekday") or 1))
    if day_of_year := groups.get("yday"):
        return civil.days_since_epoch(year, 1, int(day_of_year))
    name = groups.get("month")
    month = _MONTH_NAMES[name.lower()] if name else int(groups["m"] or 1)
    return _checked_days(text, year, month, int(groups.get("d") or 1))


def _checked_days(text: str, year: int, month: int, day: int) -> int:
    if not (1 <= month <= 12 and 1 <= day <= civil.month_length(year, month)):
        raise _failure(text, "the parsed date was invalid")
    return civil.days_since_epoch(year, month, day)


def _time(text: str, groups: dict[str, str | None]) -> int:
    if word := groups.get("word"):
        return 12 * civil.HOUR if word.lower() == "noon" else 0
    hour, minute, second = (int(groups.get(key) or 0) for key in "his")
    if half := groups.get("half"):
        if not 1 <= hour <= 12:
            raise _failure(text, "the hour does not fit am or pm")
        hour = hour % 12 + (12 if half.lower() == "p" else 0)
    return _checked_time(text, hour, minute, second, groups.get("f") or "")


def _checked_time(text: str, hour: int, minute: int, second: int, fraction: str) -> int:
    if hour > 23 or minute > 59 or second > 60:
        raise _failure(text, "the parsed time was invalid")
    millis = int((fraction + "000")[:3])
    return hour * civil.HOUR + minute * civil.MINUTE + second * civil.SECOND + millis


def _offset(groups: dict[str, str | None]) -> int | None:
    """Minutes east of UTC; None for an unknown abbreviation."""
    if abbreviation := groups["abbreviation"]:
        key = abbreviation.lower()
        return _ABBREVIATIONS.get(key, _MILITARY.get(key))
    minutes = int(groups["oh"] or 0) * 60 + int(groups["om"] or 0)
    return -minutes if groups["sign"] == "-" else minutes


_NUMBERS: Final = {
    "Y": r"\d{1,4}", "G": r"\d{1,4}", "m": r"\d{1,2}", "d": r"\d{1,2}", "H": r"\d{1,2}", "M": r"\d{1,2}",
    "S": r"\d{1,2}", "L": r"\d{1,3}", "j": r"\d{1,3}", "V": r"\d{1,2}", "u": r"\d", "Z": r"[+-]?\d{1,4}",
}  # fmt: skip
FORMAT_SPECIFIERS: Final = frozenset({*_NUMBERS, "b", "B", "z", "%"})
_PATTERNS: Final = {
    **{key: re.compile(pattern, re.ASCII) for key, pattern in _NUMBERS.items()},
    "b": re.compile(_MONTH, re.IGNORECASE),
    "B": re.compile(_MONTH, re.IGNORECASE),
    "z": _ZONE_PATTERN,
    "%": re.compile("%"),
}


def read_date_by_format(text: str, format_text: str, zone: TimeZone | None = None) -> int:
    """The time of a text in a given format, in milliseconds.

    >>> read_date_by_format("31.12.1969", "%d.%m.%Y")
    -86400000
    """
    found: dict[str, str] = {}
    offset: int | None = None
    position = 0
    for literal, specifier in split_format(format_text, FORMAT_SPECIFIERS):
        if not text.startswith(literal, position):
            raise _failure(text, f"'{literal}' of the format was not found at {position}")
        position += len(literal)
        if not specifier:
            break
        match = _PATTERNS[specifier].match(text, position)
        if match is None:
            raise _failure(text, f"nothing fits %{specifier} at {position}")
        position = match.end()
        found[specifier] = match.group()
        if specifier == "z":
            offset = _offset(match.groupdict())
            if offset is None:
                raise _failure(text, f"unknown time zone abbreviation '{match.group().strip()}'")
        elif specifier == "Z":
            offset = int(match.group())
    if position < len(text):
        raise _failure(text, f"trailing data at {position}")
    hour, minute, second = (int(found.get(key, 0)) for key in "HMS")
    time = _checked_time(text, hour, minute, second, found.get("L", ""))
    return _Reading(_days_by_format(text, found), time, offset).millis(text, zone)


def _days_by_format(text: str, found: dict[str, str]) -> int | None:
    natural, iso = found.keys() & {"Y", "m", "d", "j", "b", "B"}, found.keys() & {"G", "V", "u"}
    if natural and iso:
        raise _failure(text, "mixing of ISO dates with natural dates is not allowed")
    if iso:
        if "G" not in found:
            raise _failure(text, "the parsed date was invalid: a week or a weekday needs its year")
        week, weekday = int(found.get("V", 1)), int(found.get("u", 1))
        return civil.days_of_iso_week(int(found["G"]), week, weekday)
    if "Y" in found and "j" in found:
        return civil.days_since_epoch(int(found["Y"]), 1, int(found["j"]))
    name = found.get("b") or found.get("B")
    month = _MONTH_NAMES[name.lower()] if name else int(found.get("m", 0))
    if "Y" not in found or not month or "d" not in found:
        return None
    return _checked_days(text, int(found["Y"]), month, int(found["d"]))
