r"""Sets of characters that PCRE has names for: ``\w``, ``\h``, ``[:alpha:]``, ``\p{Lu}``, ``\p{Greek}``.

A set is a sorted tuple of inclusive code point ranges. Python's `re` has few of these sets, and some with
another meaning (PCRE's ``\w`` is ASCII unless ``(*UCP)`` is given), so all of them are written as ranges.

General categories come from `unicodedata` and are exact for its Unicode version. The standard library has no
scripts: they are derived from the first words of the character names, for letters, marks and numbers. That is
right for nearly every letter, but it is not the Unicode script property.
"""

import sys
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from typing import Final, TypeAlias

CharSet: TypeAlias = tuple[tuple[int, int], ...]

LAST: Final = sys.maxunicode


def char_set(*items: str | tuple[str, str]) -> CharSet:
    """Make a set from characters and ranges of them.

    >>> char_set("_", ("a", "c"), "b")
    ((95, 95), (97, 99))
    """
    return union([(ord(item[0]), ord(item[-1])) for item in items])


def union(*sets: Iterable[tuple[int, int]]) -> CharSet:
    """Return the characters of all the sets."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(pair for ranges in sets for pair in ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def complement(ranges: CharSet) -> CharSet:
    """Return the characters that are not in the set.

    >>> complement(((0, 9), (20, LAST)))
    ((10, 19),)
    """
    gaps = []
    start = 0
    for low, high in ranges:
        if start < low:
            gaps.append((start, low - 1))
        start = high + 1
    if start <= LAST:
        gaps.append((start, LAST))
    return tuple(gaps)


DIGIT: Final = char_set(("0", "9"))
SPACE: Final = char_set(("\t", "\r"), " ")
WORD: Final = char_set(("0", "9"), ("A", "Z"), ("a", "z"), "_")
HORIZONTAL: Final = char_set(
    "\t", " ", "\xa0", "\u1680", "\u180e", ("\u2000", "\u200a"), "\u202f", "\u205f", "\u3000"
)
VERTICAL: Final = char_set(("\n", "\r"), "\x85", "\u2028", "\u2029")

_POSIX: Final[dict[str, CharSet]] = {
    "alnum": char_set(("0", "9"), ("A", "Z"), ("a", "z")),
    "alpha": char_set(("A", "Z"), ("a", "z")),
    "ascii": char_set(("\0", "\x7f")),
    "blank": char_set("\t", " "),
    "cntrl": char_set(("\0", "\x1f"), "\x7f"),
    "digit": DIGIT,
    "graph": char_set(("!", "~")),
    "lower": char_set(("a", "z")),
    "print": char_set((" ", "~")),
    "punct": char_set(("!", "/"), (":", "@"), ("[", "`"), ("{", "~")),
    "space": SPACE,
    "upper": char_set(("A", "Z")),
    "word": WORD,
    "xdigit": char_set(("0", "9"), ("A", "F"), ("a", "f")),
}
# Properties that (*UCP) replaces POSIX names with; the other names keep their ASCII meaning.
_POSIX_UCP: Final = {
    "alnum": "Xan", "alpha": "L", "digit": "Nd", "lower": "Ll", "space": "Xps", "upper": "Lu", "word": "Xwd",
}  # fmt: skip


def posix(name: str, unicode_properties: bool) -> CharSet | None:
    """Return the set that ``[:name:]`` means; None if there is no such name."""
    if unicode_properties:
        if name == "blank":
            return HORIZONTAL
        if name in _POSIX_UCP:
            return unicode_property(_POSIX_UCP[name])
    return _POSIX.get(name)


_LAST_WITH_CASE: Final = 0x1E943
_NO_OTHER_CASE: Final = frozenset("\u0130\u0131")


@cache
def _other_cases() -> dict[int, tuple[int, ...]]:
    """Map each character that has a case to all characters that differ from it in case only."""
    groups: dict[str, set[int]] = {}
    for code in range(_LAST_WITH_CASE + 1):
        char = chr(code)
        upper = char.upper()
        lower = (upper if len(upper) == 1 else char).lower()
        if (upper != char or lower != char) and char not in _NO_OTHER_CASE:
            groups.setdefault(lower, set()).add(code)
    return {code: tuple(group) for group in groups.values() for code in group}


@lru_cache(maxsize=256)
def with_other_cases(ranges: CharSet) -> CharSet:
    """Return the set with the other cases of its characters, as PCRE has them.

    >>> [chr(code) for pair in with_other_cases(char_set("k")) for code in pair]
    ['K', 'K', 'k', 'k', '\u212a', '\u212a']
    """
    others = [
        (other, other)
        for code, group in _other_cases().items()
        if any(low <= code <= high for low, high in ranges)
        for other in group
    ]
    return union(ranges, others)


@cache
def _categories() -> dict[str, CharSet]:
    starts: dict[str, list[tuple[int, int]]] = {}
    current, start = unicodedata.category("\0"), 0
    for code in range(1, LAST + 2):
        category = unicodedata.category(chr(code)) if code <= LAST else ""
        if category != current:
            starts.setdefault(current, []).append((start, code - 1))
            current, start = category, code
    return {name: tuple(ranges) for name, ranges in starts.items()}


def _category_group(prefix: str) -> CharSet:
    return union(*(ranges for name, ranges in _categories().items() if name.startswith(prefix)))


_IGNORED_IN_NAMES: Final = str.maketrans("", "", " -_")
_CATEGORY_GROUPS: Final = frozenset("CLMNPSZ")
_SPECIAL_PROPERTIES: Final[dict[str, Callable[[], CharSet]]] = {
    "Any": lambda: ((0, LAST),),
    "Xan": lambda: union(_category_group("L"), _category_group("N")),
    "Xps": lambda: union(_category_group("Z"), SPACE, char_set("\x85")),
    "Xsp": lambda: union(_category_group("Z"), SPACE, char_set("\x85")),
    "Xwd": lambda: union(_category_group("L"), _category_group("N"), char_set("_")),
}

_SCRIPTS: Final[dict[str, tuple[str, ...]]] = {
    "Latin": ("LATIN ", "FULLWIDTH LATIN ", "FEMININE ORDINAL", "MASCULINE ORDINAL", "KELVIN ", "ANGSTROM "),
    "Greek": ("GREEK ", "OHM SIGN"),
    "Cyrillic": ("CYRILLIC ", "COMBINING CYRILLIC "),
    "Han": ("CJK UNIFIED IDEOGRAPH", "CJK COMPATIBILITY IDEOGRAPH", "IDEOGRAPHIC NUMBER", "HANGZHOU NUM"),
    "Hangul": ("HANGUL ", "HALFWIDTH HANGUL "),
    "Hiragana": ("HIRAGANA ",),
    "Katakana": ("KATAKANA ", "HALFWIDTH KATAKANA "),
    "Bopomofo": ("BOPOMOFO ",),
    **{
        name: (f"{name.upper()} ",)
        for name in (
            "Arabic", "Armenian", "Bengali", "Cherokee", "Devanagari", "Ethiopic", "Georgian", "Gujarati",
            "Gurmukhi", "Hebrew", "Kannada", "Khmer", "Lao", "Malayalam", "Mongolian", "Myanmar", "Ogham",
            "Oriya", "Runic", "Sinhala", "Syriac", "Tamil", "Telugu", "Thaana", "Thai", "Tibetan",
        )
    },
}  # fmt: skip


@cache
def _script(name: str) -> CharSet:
    prefixes = _SCRIPTS[name]
    candidates = union(*(_category_group(kind) for kind in "LMN"))
    return union(
        (code, code)
        for low, high in candidates
        for code in range(low, high + 1)
        if unicodedata.name(chr(code), "").startswith(prefixes)
    )


@cache
def unicode_property(name: str) -> CharSet | None:
    r"""Return the set that ``\p{name}`` means; None if there is no such name.

    Case, spaces, hyphens and underscores in a name are ignored.

    >>> unicode_property("Zl"), unicode_property(" z_L")
    (((8232, 8232),), ((8232, 8232),))
    """
    loose = name.translate(_IGNORED_IN_NAMES).title()
    if loose in ("L&", "Lc"):
        return union(*(_categories()[kind] for kind in ("Lu", "Ll", "Lt")))
    if loose in _SPECIAL_PROPERTIES:
        return _SPECIAL_PROPERTIES[loose]()
    if loose in _SCRIPTS:
        return _script(loose)
    if loose in _categories() or loose in _CATEGORY_GROUPS:
        return _category_group(loose)
    return None
