r"""Character classes: read ``[a-z\d[:punct:]]`` as sets of code points, and write them for Python's `re`.

A character or a range in a class follows the case option. A named set (``\w``, a POSIX name, a property) does
not. So the other cases are added here, and the result is written as a class that respects case.
"""

import re
from functools import lru_cache
from typing import Final

from tailrace.query.pcre import charsets
from tailrace.query.pcre.charsets import CharSet, complement, union, with_other_cases
from tailrace.query.pcre.reader import PatternError, Reader

_POSIX_NAME: Final = re.compile(r"\[:(\^?)([a-z]+):\]")
_ODD_POSIX: Final = re.compile(r"\[[.=][^\]]*[.=]\]")
_NO_MEANING_IN_CLASS: Final = frozenset("BRXN")


@lru_cache(maxsize=256)
def write_set(ranges: CharSet, ignore_case: bool) -> str:
    """Return a Python character class for exactly these characters, also if the pattern ignores case."""
    if not ranges:
        return "(?!)"
    others = complement(ranges)
    if not others:
        return "(?s:.)"
    body = f"[^{_write_ranges(others)}]" if len(others) < len(ranges) else f"[{_write_ranges(ranges)}]"
    return f"(?-i:{body})" if ignore_case else body


def read_class(reader: Reader, *, ignore_case: bool, ignore_blanks: bool) -> str:
    """Translate the class that follows; the position is after its opening bracket."""
    negated = reader.take("^")
    characters, sets = _read_items(reader, ignore_blanks)
    written = union(characters)
    everything = union(with_other_cases(written) if ignore_case else written, *sets)
    return write_set(complement(everything) if negated else everything, ignore_case)


def _read_items(reader: Reader, ignore_blanks: bool) -> tuple[list[tuple[int, int]], list[CharSet]]:
    characters: list[tuple[int, int]] = []
    sets: list[CharSet] = []
    quoted = False
    first = True
    while True:
        if quoted:
            if reader.take("\\E"):
                quoted = False
                continue
        elif reader.take("\\Q"):
            quoted = True
            continue
        elif reader.take("\\E"):
            continue
        elif not first and reader.take("]"):
            return characters, sets
        elif ignore_blanks and reader.next_is(" ", "\t"):
            reader.position += 1
            continue
        first = False
        item = reader.take_char("missing ] of a character class") if quoted else _read_item(reader)
        ranged = not quoted and reader.next_is("-") and not reader.next_is("-]")
        if not ranged:
            if isinstance(item, str):
                characters.append((ord(item), ord(item)))
            else:
                sets.append(item)
            continue
        reader.position += 1
        last = _read_item(reader)
        if not (isinstance(item, str) and isinstance(last, str)) or last < item:
            raise PatternError("invalid range")
        characters.append((ord(item), ord(last)))


def _read_item(reader: Reader) -> str | CharSet:
    if reader.next_is("["):
        posix = reader.take_match(_POSIX_NAME)
        if posix is not None:
            found = charsets.posix(posix[2], reader.unicode_properties)
            if found is None:
                raise PatternError(f"unknown POSIX class name {posix[2]!r}")
            return complement(found) if posix[1] else found
        if _ODD_POSIX.match(reader.pattern, reader.position):
            raise PatternError("POSIX collating elements are not supported")
    char = reader.take_char("missing ] of a character class")
    if char != "\\":
        return char
    escaped = reader.character_escape()
    if escaped is None and reader.take("b"):
        escaped = "\b"
    if escaped is None:
        escaped = reader.octal_escape()
    if escaped is not None:
        return escaped
    found = reader.set_escape()
    if found is None:
        letter = reader.take_char("a pattern must not end with a backslash")
        what = "not allowed" if letter in _NO_MEANING_IN_CLASS else "unknown"
        raise PatternError(f"\\{letter} is {what} in a character class")
    return found


def _write_ranges(ranges: CharSet) -> str:
    return "".join(_write(low) if low == high else f"{_write(low)}-{_write(high)}" for low, high in ranges)


def _write(code: int) -> str:
    char = chr(code)
    if char.isascii() and char.isalnum():
        return char
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
