"""Sort keys in an approximation of ICU's root order, without ICU.

The keys follow the Unicode Collation Algorithm with the weights of `collation_elements`:

* exact for ASCII, and for accented Latin, Greek and Cyrillic letters as far as a language does not place them
  elsewhere: comparison by strength, case, accents, digits, white space and punctuation is as in ICU;
* approximate for the order *between* scripts, among rare symbols, and among rare accents;
* without the tailorings of languages and variants: Swedish ``ö`` sorts with ``o`` here and after ``z`` in
  ICU, ``de@collation=phonebook`` sorts like ``de``. Only the default options of languages have an effect:
  ``fr_CA`` compares accents backwards, ``da`` and ``mt`` sort upper case first, ``th`` shifts punctuation.

So equality under a strength is nearly always right, and ranges are right within ordinary text of one script.
"""

import unicodedata
from typing import TYPE_CHECKING, Any, Final

from tailrace.query.collation_elements import Element, WeightGroup, elements

if TYPE_CHECKING:
    from tailrace.query.collation import Collation

_NOT_VARIABLE: Final = (WeightGroup.LETTER + 1, 0)


class RootOrder:
    """Makes the sort keys of one collation."""

    def __init__(self, collation: "Collation") -> None:
        self._rules = collation
        self._is_shifted = collation.alternate == "shifted"
        last = WeightGroup.PUNCTUATION if collation.max_variable == "punct" else WeightGroup.SPACE
        self._last_variable = last

    def key(self, text: str, /) -> tuple[Any, ...]:
        """Return one part per level of comparison, most significant first."""
        rules, shifted = self._rules, self._is_shifted
        found = elements(text)
        counted = [element for element in found if not self._is_variable(element)] if shifted else found
        based = [element for element in counted if element.group is not WeightGroup.NO_BASE]
        levels: list[Any] = [self._primary(based)]
        if rules.strength >= 2:
            levels.append(self._secondary(counted))
        if rules.case_level:
            levels.append([self._case(element) for element in based if element.group is WeightGroup.LETTER])
        if rules.strength >= 3:
            levels.append([(self._case(element), element.is_compatibility) for element in based])
        if rules.strength >= 4 and shifted:
            levels.append(
                [
                    (element.group, element.weight) if self._is_variable(element) else _NOT_VARIABLE
                    for element in found
                ]
            )
        if rules.strength == 5:
            levels.append(unicodedata.normalize("NFD", text))
        return tuple(level if isinstance(level, str) else tuple(level) for level in levels)

    def _is_variable(self, element: Element) -> bool:
        return self._is_shifted and WeightGroup.SPACE <= element.group <= self._last_variable

    def _primary(self, counted: list[Element]) -> list[tuple[int, int]]:
        if not self._rules.numeric_ordering:
            return [(element.group, element.weight) for element in counted]
        weights: list[tuple[int, int]] = []
        in_number = False
        for element in counted:
            if element.group is WeightGroup.DIGIT and in_number:
                weights[-1] = (WeightGroup.DIGIT, weights[-1][1] * 10 + element.weight)
            else:
                weights.append((element.group, element.weight))
            in_number = element.group is WeightGroup.DIGIT
        return weights

    def _secondary(self, counted: list[Element]) -> list[int]:
        # A base character weighs less than any mark, so that a text without accents sorts first.
        weights: list[int] = []
        for element in counted:
            if element.group is not WeightGroup.NO_BASE:
                weights.append(0)
            weights.extend(element.marks)
        return weights[::-1] if self._rules.backwards else weights

    def _case(self, element: Element) -> bool:
        return element.is_upper != (self._rules.case_first == "upper")
