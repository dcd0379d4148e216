"""Prepare passwords for comparison (RFC 4013), so that every way to type one gives the same bytes."""

import stringprep
import unicodedata
from typing import Final

_PROHIBITED: Final = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


def saslprep(text: str) -> str:
    r"""The prepared text; raises ValueError if it has characters that are not allowed.

    >>> saslprep("I\u00adX"), saslprep("\u2168")
    ('IX', 'IX')
    """
    if text.isascii():
        prepared = text
    else:
        mapped = "".join(
            " " if stringprep.in_table_c12(character) else character
            for character in text
            if not stringprep.in_table_b1(character)
        )
        prepared = unicodedata.ucd_3_2_0.normalize("NFKC", mapped)
    for character in prepared:
        if any(is_in(character) for is_in in _PROHIBITED):
            raise ValueError("the text has a character that is not allowed in a password")
    _check_direction(prepared)
    return prepared


def _check_direction(text: str) -> None:
    """Refuse a mix of both directions of writing."""
    has_right_to_left = any(map(stringprep.in_table_d1, text))
    if not has_right_to_left:
        return
    if any(map(stringprep.in_table_d2, text)):
        raise ValueError("the text mixes both directions of writing")
    if not (stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])):
        raise ValueError("a text from right to left has to begin and end with such a character")
