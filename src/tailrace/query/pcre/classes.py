r"""Character classes: ``[a-z\d[:punct:]]`` read as sets of code points and written for Python's `re`.

What is written as a character or a range follows the case option; what stands for a set (``\w``, a POSIX
name, a property) does not. A caseless class with both is written as an alternation of the two parts.
"""

import re
from typing import Final

from tailrace.query.pcre import charsets
from tailrace.query.pcre.charsets import CharSet, complement, union
from tailrace.query.pcre.reader import PatternError, Reader

_POSIX_NAME: Final = re.compile(r"\[:(\^?)([a-z]+):\]")
_ODD_POSIX: Final = re.compile(r"\[[.=][^\]]*[.=]\]")
_NO_MEANING_IN_CLASS: Final = frozenset("BRXN")


def write_set(ranges: CharSet, ignore_case: bool) -> str:
    """A set as a Python character class, the same whether case counts or not."""
    if not ranges:
        return "(?!)"
    body = f"[{_write_ranges(ranges)}]"
    return f"(?-i:{body})" if ignore_case else body


def read_class(reader: Reader, *, ignore_case: bool, ignore_blanks: bool) -> str:
    """The class that starts behind the reader's position, translated."""
    negated = reader.take("^")
    characters, sets = _read_items(reader, ignore_blanks)
    if not (ignore_case and sets):
        everything = union(characters, *sets)
        # Negation is left to `re`, because without case it covers the other case of each character too.
        if not everything:
            return "(?s:.)" if negated else "(?!)"
        return f"[{'^' if negated else ''}{_write_ranges(everything)}]"
    fixed = write_set(union(*sets), ignore_case)
    if not characters:
        return write_set(complement(union(*sets)), ignore_case) if negated else fixed
    body = _write_ranges(union(characters))
    return f"(?:(?!{fixed})[^{body}])" if negated else f"(?:[{body}]|{fixed})"


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
