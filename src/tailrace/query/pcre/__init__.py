r"""MongoDB's regular expressions (PCRE2, UTF mode) run by Python's `re`.

>>> bool(compile_pattern(r"^\h*(?i)tail\Z", "").search(" TAIL\n"))
True

The two dialects share most of their syntax but not its meaning, so a pattern is translated. What cannot be
translated is refused with MongoDB's code for an invalid pattern, 51091. Two differences remain: Unicode
scripts in ``\p{...}`` are derived from character names, and a search is limited by time, not by steps
(`limits.py`).

PCRE2 itself is not used, because its search cannot be stopped: `docs/architecture.md` has the measurements.
The tests compare this translation with PCRE2.
"""

import re
from functools import lru_cache
from typing import Final

from tailrace.errors import CommandError
from tailrace.query.pcre.limits import SearchPattern, compile_limited
from tailrace.query.pcre.options import PatternOptions
from tailrace.query.pcre.reader import PatternError
from tailrace.query.pcre.translate import Translator

INVALID_PATTERN: Final = 51091
INVALID_OPTION: Final = 51108

_MAX_PATTERN_BYTES: Final = 32764
_LONG_REFERENCE: Final = re.compile(r"\\[1-9][0-9]")
_OPTION_LETTERS: Final = {
    "i": "ignore_case", "m": "multi_line", "s": "dot_all", "x": "extended", "u": None,
}  # fmt: skip


def compile_pattern(pattern: str, options: str) -> SearchPattern:
    """Return a Python pattern that finds what PCRE would find.

    Raises `CommandError` 51091 for an invalid pattern and 51108 for an unknown option.

    >>> compile_pattern("[b-a]", "")
    Traceback (most recent call last):
    ...
    tailrace.errors.CommandError: Regular expression is invalid: '[b-a]': invalid range (51091 Location51091)
    """
    return _compile(pattern, options)


@lru_cache(maxsize=1024)
def _compile(pattern: str, options: str) -> SearchPattern:
    chosen = set()
    for letter in options:
        if letter not in _OPTION_LETTERS:
            raise CommandError(INVALID_OPTION, f"invalid flag in regex options: {letter!r}")
        chosen.add(_OPTION_LETTERS[letter])
    initial = PatternOptions(**{name: True for name in chosen if name is not None})
    try:
        if len(pattern.encode()) > _MAX_PATTERN_BYTES:
            raise PatternError(f"the pattern is longer than {_MAX_PATTERN_BYTES} bytes")
        return compile_limited(_translate(pattern, initial), re.IGNORECASE if initial.ignore_case else 0)
    except (PatternError, re.error, OverflowError, RecursionError) as error:
        shown = pattern if len(pattern) <= 100 else pattern[:100] + "..."
        message = f"Regular expression is invalid: {shown!r}: {error}"
        raise CommandError(INVALID_PATTERN, message) from None


def _translate(pattern: str, options: PatternOptions) -> str:
    translator = Translator(pattern)
    translated = translator.translate(options)
    if translator.groups > 9 and _LONG_REFERENCE.search(pattern):
        # \12 refers to the twelfth group if there is one, else it is an octal number.
        translated = Translator(pattern, translator.groups).translate(options)
    return translated
