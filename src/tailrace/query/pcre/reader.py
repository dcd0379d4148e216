"""Read a PCRE pattern from left to right, with its escapes for characters and sets of characters."""

import re
from typing import Final

from tailrace.query.pcre import charsets
from tailrace.query.pcre.charsets import CharSet, complement

_OCTAL: Final = re.compile(r"[0-7]{1,3}")
_OCTAL_AFTER_ZERO: Final = re.compile(r"[0-7]{0,2}")
_HEX: Final = re.compile(r"[0-9A-Fa-f]{0,2}")
_BRACED_HEX: Final = re.compile(r"\{([0-9A-Fa-f]+)\}")
_BRACED_OCTAL: Final = re.compile(r"\{([0-7]+)\}")
_CODE_POINT: Final = re.compile(r"\{U\+([0-9A-Fa-f]+)\}")
_BRACED_PROPERTY: Final = re.compile(r"\{\s*(\^?)([^{}]*)\}")

_SIMPLE_ESCAPES: Final = {"a": "\a", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ASCII_SETS: Final = {
    "d": charsets.DIGIT, "w": charsets.WORD, "s": charsets.SPACE,
    "h": charsets.HORIZONTAL, "v": charsets.VERTICAL,
}  # fmt: skip
_UNICODE_SETS: Final = {"d": "Nd", "w": "Xwd", "s": "Xps"}


class PatternError(Exception):
    """The pattern is invalid, or uses something that Python's `re` cannot do."""


class Reader:
    """A position in a pattern; the `take` methods move it."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.position = 0
        self.unicode_properties = False
        """Whether ``(*UCP)`` makes ``\\w`` and similar sets cover all of Unicode"""

    def at_end(self) -> bool:
        """Return whether everything was read."""
        return self.position >= len(self.pattern)

    def next_is(self, *texts: str) -> bool:
        """Return whether one of the texts follows."""
        return self.pattern.startswith(texts, self.position)

    def take(self, text: str) -> bool:
        """Skip a text if it follows."""
        if not self.next_is(text):
            return False
        self.position += len(text)
        return True

    def take_char(self, missing: str) -> str:
        """Return the next character; raise an error with the given message at the end."""
        if self.at_end():
            raise PatternError(missing)
        self.position += 1
        return self.pattern[self.position - 1]

    def take_match(self, regex: re.Pattern[str]) -> re.Match[str] | None:
        """Skip what a Python regex matches here."""
        match = regex.match(self.pattern, self.position)
        if match is not None:
            self.position = match.end()
        return match

    def take_until(self, text: str, missing: str) -> str:
        """Return everything before a text, and skip that text too."""
        end = self.pattern.find(text, self.position)
        if end < 0:
            raise PatternError(missing)
        found = self.pattern[self.position : end]
        self.position = end + len(text)
        return found

    def character_escape(self) -> str | None:
        """Return the character that the escape means; None, without moving, for any other escape.

        The position is after the backslash.
        """
        start = self.position
        letter = self.take_char("a pattern must not end with a backslash")
        if letter in _SIMPLE_ESCAPES:
            return _SIMPLE_ESCAPES[letter]
        if letter == "c":
            control = self.take_char("\\c needs a character")
            if not " " <= control <= "~":
                raise PatternError("\\c needs a printable ASCII character")
            return chr(ord(control.upper()) ^ 0x40)
        if letter == "0":
            return chr(int("0" + self._matched(_OCTAL_AFTER_ZERO), 8))
        if letter == "o":
            return self._code_point(_BRACED_OCTAL, 8, "\\o needs octal digits in braces")
        if letter == "x":
            if self.next_is("{"):
                return self._code_point(_BRACED_HEX, 16, "\\x{ needs hexadecimal digits and a brace")
            return chr(int("0" + self._matched(_HEX), 16))
        if letter == "N" and self.next_is("{U+"):
            return self._code_point(_CODE_POINT, 16, "\\N{U+ needs hexadecimal digits and a brace")
        if not (letter.isascii() and letter.isalnum()):
            return letter
        self.position = start
        return None

    def octal_escape(self) -> str | None:
        """Return the character with a code of up to three octal digits."""
        match = self.take_match(_OCTAL)
        return None if match is None else chr(int(match[0], 8))

    def set_escape(self) -> CharSet | None:
        """Return the set that the escape means; None, without moving, for any other escape."""
        if self.at_end():
            return None
        letter = self.pattern[self.position]
        name = letter.lower()
        if name in _ASCII_SETS:
            self.position += 1
            found = _ASCII_SETS[name]
            if self.unicode_properties and name in _UNICODE_SETS:
                found = charsets.unicode_property(_UNICODE_SETS[name]) or found
            return complement(found) if letter.isupper() else found
        return self._property(letter) if name == "p" else None

    def _property(self, letter: str) -> CharSet:
        self.position += 1
        match = self.take_match(_BRACED_PROPERTY)
        caret, name = match.groups() if match else ("", self.take_char(f"\\{letter} needs a property"))
        found = charsets.unicode_property(name)
        if found is None:
            raise PatternError(f"unknown Unicode property {name!r}")
        return complement(found) if (letter == "P") != (caret == "^") else found

    def _matched(self, regex: re.Pattern[str]) -> str:
        match = self.take_match(regex)
        return match[0] if match else ""

    def _code_point(self, regex: re.Pattern[str], base: int, missing: str) -> str:
        match = self.take_match(regex)
        if match is None:
            raise PatternError(missing)
        code = int(match[1], base)
        if code > charsets.LAST or 0xD800 <= code <= 0xDFFF:
            raise PatternError(f"{code:#x} is not a character")
        return chr(code)
