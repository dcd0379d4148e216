"""Times, spans and sizes for people."""

from datetime import UTC, datetime
from typing import Final

_SPANS: Final = ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes"))
_SIZES: Final = ((1 << 40, "TB"), (1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB"))
_YEAR: Final = 365 * 86400.0


def span(seconds: float) -> str:
    """A length of time.

    >>> span(5), span(90), span(7200), span(1e9), span(-1)
    ('5 s', '1.5 minutes', '2.0 hours', 'more than a year', '0 s')
    """
    if seconds > _YEAR:
        return "more than a year"
    for unit, name in _SPANS:
        if seconds >= unit:
            return f"{seconds / unit:.1f} {name}"
    return f"{max(seconds, 0):.0f} s"


def size(amount: float) -> str:
    """A number of bytes.

    >>> size(12), size(1536)
    ('12 B', '1.5 kB')
    """
    for unit, name in _SIZES:
        if amount >= unit:
            return f"{amount / unit:.1f} {name}"
    return f"{amount:.0f} B"


def counted(number: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "file"), counted(1200, "file")
    ('1 file', '1,200 files')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def moment(seconds: float) -> str:
    """A time of day in UTC.

    >>> moment(0)
    '1970-01-01T00:00:00Z'
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
