"""Collation elements: what each character contributes to the levels of a sort key in the root order.

This follows the Unicode Collation Algorithm with weights computed from `unicodedata`:

* primary: the group (white space, punctuation, symbols, currency, digits, letters), then a position in it:
  ASCII punctuation in the order of the root collation, digits by value, letters by the code point of their
  base letter in lower case, which separates the scripts in about the usual order;
* secondary: the accents, in the order of the root collation for the common ones, else by code point;
* tertiary: lower before upper case, then plain before compatibility forms (full width, superscripts).

Control and format characters contribute nothing. A few Latin letters that Unicode does not decompose (ø, ł,
ß, æ) are decomposed as in the root collation.
"""

import unicodedata
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple


class WeightGroup(IntEnum):
    """Groups of primary weights, in their order."""

    NO_BASE = 0
    SPACE = 1
    PUNCTUATION = 2
    SYMBOL = 3
    CURRENCY = 4
    DIGIT = 5
    LETTER = 6


class Element(NamedTuple):
    """The contribution of one base character and its marks."""

    group: WeightGroup
    weight: int
    marks: tuple[int, ...]
    is_upper: bool
    is_compatibility: bool


_WITHOUT_BASE: Final = Element(WeightGroup.NO_BASE, 0, (), is_upper=False, is_compatibility=False)
"""The element of marks at the start of a text"""
_ASCII_ORDER: Final = {char: rank for rank, char in enumerate("_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$")}
_AFTER_ASCII: Final = len(_ASCII_ORDER)
# Acute, grave, breve, circumflex, caron, ring, diaeresis, double acute, tilde, dot above, then the others.
_COMMON_MARKS: Final = {
    chr(code): rank
    for rank, code in enumerate(
        (0x301, 0x300, 0x306, 0x302, 0x30C, 0x30A, 0x308, 0x30B, 0x303, 0x307, 0x338, 0x327, 0x328, 0x304),
        start=1,
    )
}
_FIRST_RARE_MARK: Final = 0x100
_DECOMPOSED: Final = {
    "æ": "ae\u0304", "œ": "oe\u0304", "ø": "o\u0338", "ł": "l\u0338", "ß": "ss\u0304",
    "Æ": "AE\u0304", "Œ": "OE\u0304", "Ø": "O\u0338", "Ł": "L\u0338", "ẞ": "SS\u0304",
}  # fmt: skip
_IGNORED_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs"})
_BLANK_CONTROLS: Final = frozenset("\t\n\v\f\r\x85")
_KATAKANA: Final = range(0x30A1, 0x30F7)
_KATAKANA_TO_HIRAGANA: Final = 0x60


def elements(text: str) -> list[Element]:
    """Return the elements of a text, marks joined to the character they follow."""
    result: list[Element] = []
    for char in unicodedata.normalize("NFD", text):
        if not unicodedata.combining(char):
            result.extend(_elements_of(char))
        else:
            last = result.pop() if result else _WITHOUT_BASE
            result.append(last._replace(marks=(*last.marks, _mark_weight(char))))
    return result


@lru_cache(maxsize=4096)
def _elements_of(char: str) -> tuple[Element, ...]:
    plain = _DECOMPOSED.get(char) or unicodedata.normalize("NFKD", char)
    found: list[Element] = []
    for piece in plain:
        if unicodedata.combining(piece):
            if found:
                found[-1] = found[-1]._replace(marks=(*found[-1].marks, _mark_weight(piece)))
            continue
        weighed = _primary(piece)
        if weighed is not None:
            is_compatibility = plain != char and char not in _DECOMPOSED
            is_kana_variant = ord(piece) in _KATAKANA
            found.append(Element(*weighed, (), piece != piece.lower(), is_compatibility or is_kana_variant))
    return tuple(found)


def _primary(char: str) -> tuple[WeightGroup, int] | None:
    category = unicodedata.category(char)
    kind = category[0]
    rank = _ASCII_ORDER.get(char, _AFTER_ASCII + ord(char))
    if kind == "Z" or char in _BLANK_CONTROLS:
        return WeightGroup.SPACE, ord(char)
    if category in _IGNORED_CATEGORIES:
        return None
    if kind == "P":
        return WeightGroup.PUNCTUATION, rank
    if category == "Sc":
        return WeightGroup.CURRENCY, rank
    if kind == "S":
        return WeightGroup.SYMBOL, rank
    digit = unicodedata.digit(char, None)
    if digit is not None:
        return WeightGroup.DIGIT, digit
    code = ord(char.lower()[0])
    return WeightGroup.LETTER, code - _KATAKANA_TO_HIRAGANA if code in _KATAKANA else code


def _mark_weight(char: str) -> int:
    return _COMMON_MARKS.get(char, _FIRST_RARE_MARK + ord(char))
