"""The two parts of a BSON regular expression as text: its pattern and its options."""

import re
from typing import Any, Final

from bson import Regex

_FLAG_LETTERS: Final = (
    (re.IGNORECASE, "i"), (re.LOCALE, "l"), (re.MULTILINE, "m"), (re.DOTALL, "s"), (re.UNICODE, "u"),
    (re.VERBOSE, "x"),
)  # fmt: skip


def regex_pattern(regex: Regex[Any]) -> str:
    """Return the pattern of a BSON regex as text."""
    pattern = regex.pattern
    return pattern.decode() if isinstance(pattern, bytes) else pattern


def regex_options(regex: Regex[Any]) -> str:
    """Return the options of a BSON regex as the letters that BSON stores.

    >>> regex_options(Regex("a", "xi"))
    'ix'
    """
    return "".join([letter for flag, letter in _FLAG_LETTERS if regex.flags & flag])
