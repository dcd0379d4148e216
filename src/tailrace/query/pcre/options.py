"""Options of a PCRE pattern. They can change inside the pattern."""

import re
from dataclasses import dataclass, replace
from typing import Final

from tailrace.query.pcre.reader import PatternError


@dataclass(frozen=True, slots=True)
class PatternOptions:
    """The options in force at one place of a pattern."""

    ignore_case: bool = False
    multi_line: bool = False
    dot_all: bool = False
    extended: bool = False
    extended_more: bool = False
    no_auto_capture: bool = False
    ungreedy: bool = False


_OPTIONS_BY_LETTER: Final = {
    "i": ("ignore_case",), "m": ("multi_line",), "s": ("dot_all",), "x": ("extended",),
    "xx": ("extended", "extended_more"), "n": ("no_auto_capture",), "U": ("ungreedy",),
}  # fmt: skip


def with_letters(options: PatternOptions, letters: str, value: bool) -> PatternOptions:
    """Return the options after ``(?letters)``, or after ``(?-letters)`` with a value of False."""
    for letter in re.findall("xx|.", letters):
        names = _OPTIONS_BY_LETTER.get("xx" if letter == "x" and not value else letter)
        if names is None:
            raise PatternError(f"unknown or unsupported kind of group or option {letter!r}")
        if letter == "x" and value:
            options = replace(options, extended_more=False)
        options = replace(options, **dict.fromkeys(names, value))
    return options
