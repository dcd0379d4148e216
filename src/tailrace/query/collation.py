"""Collations: how strings compare under a language's rules.

>>> collation = Collation.parse({"locale": "en", "strength": 2})
>>> collation.string_key("École") == collation.string_key("éCOLE")
True
>>> Collation.parse({"locale": "simple"}) is None
True

All fields of a collation are checked as MongoDB checks them, and all of them have their effect. The order of
characters comes from `collation_elements` and is an approximation of ICU's root collation:

* exact for ASCII, and for accented Latin, Greek and Cyrillic letters as far as a language does not place them
  elsewhere: comparison by strength, case, accents, digits, white space and punctuation is as in ICU;
* approximate for the order *between* scripts, among rare symbols, and among rare accents;
* without the tailorings of languages and variants: Swedish ``ö`` sorts with ``o`` here and behind ``z`` in
  ICU, ``de@collation=phonebook`` sorts like ``de``. Only their default options are kept: ``fr_CA`` compares
  accents backwards, ``da`` and ``mt`` put upper case first, ``th`` shifts punctuation.

So equality under a strength is nearly always right, and ranges are right within ordinary text of one script.
"""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.query.collation_elements import Element, Group, elements
from tailrace.query.expressions.numbers.number_types import integral_value
from tailrace.query.expressions.operands import is_number, is_string

_ICU_VERSION: Final = "57.1"
_LOCALES: Final = frozenset(
    {"af", "am", "ar", "as", "az", "be", "bg", "bn", "bo", "bs", "bs_Cyrl", "ca", "chr", "cs", "cy", "da",
     "de", "de_AT", "dsb", "dz", "ee", "el", "en", "en_US", "en_US_POSIX", "eo", "es", "et", "fa", "fa_AF",
     "fi", "fil", "fo", "fr", "fr_CA", "ga", "gl", "gu", "ha", "haw", "he", "hi", "hr", "hsb", "hu", "hy",
     "id", "ig", "is", "it", "ja", "ka", "kk", "kl", "km", "kn", "ko", "kok", "ky", "lb", "lkt", "ln", "lo",
     "lt", "lv", "mk", "ml", "mn", "mr", "ms", "mt", "my", "nb", "ne", "nl", "nn", "om", "or", "pa", "pl",
     "ps", "pt", "ro", "ru", "se", "si", "sk", "sl", "smn", "sq", "sr", "sr_Latn", "sv", "sw", "ta", "te",
     "th", "to", "tr", "ug", "uk", "ur", "vi", "wae", "yi", "yo", "zh", "zh_Hant", "zu"}
)  # fmt: skip
_VARIANTS: Final = frozenset(
    {"big5han", "compat", "dictionary", "ducet", "emoji", "eor", "gb2312han", "phonebook", "phonetic",
     "pinyin", "search", "searchjl", "standard", "stroke", "traditional", "unihan", "zhuyin"}
)  # fmt: skip
_LOCALE_DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "fr_CA": {"backwards": True},
    "da": {"case_first": "upper"},
    "mt": {"case_first": "upper"},
    "th": {"alternate": "shifted"},
}
_FIELD_NAMES: Final = {
    "locale": "locale", "caseLevel": "case_level", "caseFirst": "case_first", "strength": "strength",
    "numericOrdering": "numeric_ordering", "alternate": "alternate", "maxVariable": "max_variable",
    "normalization": "normalization", "backwards": "backwards", "version": "version",
}  # fmt: skip
_CHOICES: Final = {
    "caseFirst": ("upper", "lower", "off"),
    "alternate": ("non-ignorable", "shifted"),
    "maxVariable": ("punct", "space"),
}
_BOOLEANS: Final = frozenset({"caseLevel", "numericOrdering", "normalization", "backwards"})
_NOT_VARIABLE: Final = (Group.LETTER + 1, 0)


@dataclass(frozen=True, slots=True)
class Collation:
    """A collation other than the simple one, which is no collation at all."""

    locale: str
    strength: int = 3
    case_level: bool = False
    case_first: str = "off"
    numeric_ordering: bool = False
    alternate: str = "non-ignorable"
    max_variable: str = "punct"
    normalization: bool = False
    backwards: bool = False
    version: str = _ICU_VERSION

    @staticmethod
    def parse(spec: Mapping[str, Any]) -> "Collation | None":
        """The collation that a document describes; None for the simple collation."""
        if not isinstance(spec, Mapping):
            raise CommandError(ErrorCode.TypeMismatch, "a collation must be an object")
        for name, value in spec.items():
            _check_field(name, value)
        if "locale" not in spec:
            raise CommandError(ErrorCode.IDLFailedToParse, "collation.locale is missing but a required field")
        locale = spec["locale"]
        if locale == "simple":
            if len(spec) > 1:
                raise CommandError(
                    ErrorCode.FailedToParse, "a collation with locale 'simple' takes no other field"
                )
            return None
        _check_locale(locale)
        given = {_FIELD_NAMES[name]: value for name, value in spec.items()}
        if "strength" in given:
            given["strength"] = integral_value(given["strength"])
        collation = Collation(**{**_LOCALE_DEFAULTS.get(locale.partition("@")[0], {}), **given})
        collation._check_combination(spec)
        return collation

    def _check_combination(self, spec: Mapping[str, Any]) -> None:
        if "backwards" in spec and self.backwards and self.strength == 1:
            raise CommandError(ErrorCode.BadValue, "'backwards' is invalid with 'strength' of 1")
        if spec.get("caseFirst", "off") != "off" and self.strength < 3 and not self.case_level:
            message = "'caseFirst' is invalid unless 'caseLevel' is on or 'strength' is greater than 2"
            raise CommandError(ErrorCode.BadValue, message)

    def to_document(self) -> dict[str, Any]:
        """The full description, with every field, as MongoDB shows it."""
        names = {attribute: name for name, attribute in _FIELD_NAMES.items()}
        by_name = {names[field.name]: getattr(self, field.name) for field in fields(self)}
        return {name: by_name[name] for name in _FIELD_NAMES}

    def string_key(self, text: str, /) -> tuple[Any, ...]:
        """What is compared instead of the text: one part per level, coarsest first.

        >>> numeric = Collation.parse({"locale": "en", "numericOrdering": True})
        >>> sorted(["a10", "a9", "A9"], key=numeric.string_key)
        ['a9', 'A9', 'a10']
        """
        found = elements(text)
        shifted = self.alternate == "shifted"
        counted = [element for element in found if not self._is_variable(element)] if shifted else found
        based = [element for element in counted if element.group is not Group.NO_BASE]
        levels: list[Any] = [self._primary(based)]
        if self.strength >= 2:
            levels.append(self._secondary(counted))
        if self.case_level:
            levels.append([self._case(element) for element in based if element.group is Group.LETTER])
        if self.strength >= 3:
            levels.append([(self._case(element), element.is_compatibility) for element in based])
        if self.strength >= 4 and shifted:
            levels.append(
                [
                    (element.group, element.weight) if self._is_variable(element) else _NOT_VARIABLE
                    for element in found
                ]
            )
        if self.strength == 5:
            levels.append(unicodedata.normalize("NFD", text))
        return tuple(level if isinstance(level, str) else tuple(level) for level in levels)

    def _is_variable(self, element: Element) -> bool:
        limit = Group.PUNCTUATION if self.max_variable == "punct" else Group.SPACE
        return self.alternate == "shifted" and Group.SPACE <= element.group <= limit

    def _primary(self, counted: list[Element]) -> list[tuple[int, int]]:
        if not self.numeric_ordering:
            return [(element.group, element.weight) for element in counted]
        weights: list[tuple[int, int]] = []
        in_number = False
        for element in counted:
            if element.group is Group.DIGIT and in_number:
                weights[-1] = (Group.DIGIT, weights[-1][1] * 10 + element.weight)
            else:
                weights.append((element.group, element.weight))
            in_number = element.group is Group.DIGIT
        return weights

    def _secondary(self, counted: list[Element]) -> list[int]:
        # A base character weighs less than any mark, so that a text without accents comes first.
        weights: list[int] = []
        for element in counted:
            if element.group is not Group.NO_BASE:
                weights.append(0)
            weights.extend(element.marks)
        return weights[::-1] if self.backwards else weights

    def _case(self, element: Element) -> bool:
        return element.is_upper != (self.case_first == "upper")


def _check_field(name: str, value: Any) -> None:
    if name not in _FIELD_NAMES:
        raise CommandError(ErrorCode.IDLUnknownField, f"collation.{name} is an unknown field")
    if name in _BOOLEANS:
        if not isinstance(value, bool):
            raise CommandError(ErrorCode.TypeMismatch, f"collation.{name} must be a bool")
    elif name == "strength":
        if not is_number(value):
            raise CommandError(ErrorCode.TypeMismatch, "collation.strength must be a number")
        if integral_value(value) not in (1, 2, 3, 4, 5):
            raise CommandError(ErrorCode.BadValue, "collation.strength must be an integer from 1 to 5")
    elif not is_string(value):
        raise CommandError(ErrorCode.TypeMismatch, f"collation.{name} must be a string")
    elif name in _CHOICES and value not in _CHOICES[name]:
        raise CommandError(ErrorCode.BadValue, f"collation.{name} must be one of {', '.join(_CHOICES[name])}")
    elif name == "version" and value != _ICU_VERSION:
        message = f"collation.version {value!r} is not the version {_ICU_VERSION!r} in use"
        raise CommandError(ErrorCode.IncompatibleCollationVersion, message)


def _check_locale(locale: str) -> None:
    name, at, variant = locale.partition("@")
    known = name in _LOCALES and (
        not at or (variant.startswith("collation=") and variant.removeprefix("collation=") in _VARIANTS)
    )
    if not known:
        raise CommandError(ErrorCode.BadValue, f"collation.locale {locale!r} is not supported")
