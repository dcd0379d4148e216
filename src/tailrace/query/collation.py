"""Collations: how strings compare under a language's rules.

>>> collation = Collation.parse({"locale": "en", "strength": 2})
>>> collation.string_key("École") == collation.string_key("éCOLE")
True
>>> Collation.parse({"locale": "simple"}) is None
True

All fields of a collation are checked as MongoDB checks them, and all of them have their effect. Keys come
from ICU (`collation_icu`) if PyICU is installed, else from an approximation of its root order
(`collation_root_order`). The two orders differ, and so do their keys. A collation contains the `VERSION` that
made its keys, and a collation with another version is refused. So a data directory with such an index must be
used with the ICU, or without it, as it was written.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from tailrace.bson.repeated import repeated_field
from tailrace.bson.values import Undefined, is_string, whole_number
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.query import collation_icu
from tailrace.query.collation_root_order import RootOrder
from tailrace.query.expressions.operands import is_number

_MONGODB_ICU_VERSION: Final = "57.1"
VERSION: Final = collation_icu.VERSION or _MONGODB_ICU_VERSION
"""Without ICU it is the version that MongoDB reports."""
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
_MAX_STRENGTH: Final = 5
_OUT_OF_RANGE: Final = 51024
_BOOLEANS: Final = frozenset({"caseLevel", "numericOrdering", "normalization", "backwards"})


@dataclass(frozen=True, slots=True)
class Collation:
    """A collation other than the simple one, which is represented by None."""

    locale: str
    strength: int = 3
    case_level: bool = False
    case_first: str = "off"
    numeric_ordering: bool = False
    alternate: str = "non-ignorable"
    max_variable: str = "punct"
    normalization: bool = False
    backwards: bool = False
    version: str = VERSION

    @staticmethod
    def parse(spec: Mapping[str, Any]) -> "Collation | None":
        """Return the collation that a document describes; None for the simple collation."""
        spec = Collation.fields(spec)
        locale = spec["locale"]
        if locale == "simple":  # the other fields are checked, but have no effect
            return None
        _check_locale(locale)
        if spec.get("version", VERSION) != VERSION:
            message = f"collation.version {spec['version']!r} is not the version {VERSION!r} in use"
            raise CommandError(ErrorCode.IncompatibleCollationVersion, message)
        given = {_FIELD_NAMES[name]: value for name, value in spec.items()}
        if "strength" in given:
            given["strength"] = _strength(given["strength"])
        defaults = _LOCALE_DEFAULTS.get(locale.partition("@")[0], {})
        collation = Collation(**{**defaults, **given})
        collation._check_combination(defaults)
        return collation

    @staticmethod
    def fields(spec: Mapping[str, Any]) -> dict[str, Any]:
        """Return the given fields of a description, each of which is valid by itself."""
        if not isinstance(spec, Mapping):
            raise CommandError(ErrorCode.TypeMismatch, "a collation must be an object")
        for name, value in spec.items():
            _check_field(name, value)
        repeated = repeated_field(spec)
        if repeated is not None:
            raise CommandError(ErrorCode.IDLDuplicateField, f"collation.{repeated} is a duplicate field")
        given = {name: value for name, value in spec.items() if _is_given(value)}
        if "locale" not in given:
            raise CommandError(ErrorCode.IDLFailedToParse, "collation.locale is missing but a required field")
        return given

    def _check_combination(self, defaults: Mapping[str, Any]) -> None:
        """Refuse options that have no effect with the strength, unless they are the locale's defaults."""
        if self.backwards and not defaults.get("backwards") and self.strength == 1:
            raise CommandError(ErrorCode.BadValue, "'backwards' is invalid with 'strength' of 1")
        needs_level = self.case_first not in ("off", defaults.get("case_first"))
        if needs_level and self.strength < 3 and not self.case_level:
            message = "'caseFirst' is invalid unless 'caseLevel' is on or 'strength' is greater than 2"
            raise CommandError(ErrorCode.BadValue, message)

    def to_document(self) -> dict[str, Any]:
        """Return the full description, with every field, as MongoDB shows it."""
        return {name: getattr(self, attribute) for name, attribute in _FIELD_NAMES.items()}

    @property
    def string_key(self) -> Callable[[str], Any]:
        """The function that makes the sort key of a string; keys of one collation compare as its strings do.

        >>> numeric = Collation.parse({"locale": "en", "numericOrdering": True})
        >>> sorted(["a10", "a9", "A9"], key=numeric.string_key)
        ['a9', 'A9', 'a10']
        """
        return _string_key(self)


@lru_cache(maxsize=256)
def _string_key(collation: Collation) -> Callable[[str], Any]:
    return RootOrder(collation).key if collation_icu.VERSION is None else collation_icu.icu_key(collation)


def _check_field(name: str, value: Any) -> None:
    if name not in _FIELD_NAMES:
        raise CommandError(ErrorCode.IDLUnknownField, f"collation.{name} is an unknown field")
    if not _is_given(value) and name != "backwards":  # which is read by hand
        return
    if name in _BOOLEANS:
        if not isinstance(value, bool):
            raise CommandError(ErrorCode.TypeMismatch, f"collation.{name} must be a bool")
    elif name == "strength":
        if not is_number(value):
            raise CommandError(ErrorCode.TypeMismatch, "collation.strength must be a number")
        if not 0 <= _strength(value) <= _MAX_STRENGTH:
            raise CommandError(_OUT_OF_RANGE, "collation.strength must be an integer from 1 to 5")
        if _strength(value) == 0:
            raise CommandError(ErrorCode.BadValue, "collation.strength must be an integer from 1 to 5")
    elif not is_string(value):
        raise CommandError(ErrorCode.TypeMismatch, f"collation.{name} must be a string")
    elif name in _CHOICES and value not in _CHOICES[name]:
        raise CommandError(ErrorCode.BadValue, f"collation.{name} must be one of {', '.join(_CHOICES[name])}")


def _is_given(value: Any) -> bool:
    return value is not None and not isinstance(value, Undefined)


def _strength(value: Any) -> int:
    return whole_number(value) or 0


def _check_locale(locale: str) -> None:
    name, at, variant = locale.partition("@")
    known = name in _LOCALES and (
        not at or (variant.startswith("collation=") and variant.removeprefix("collation=") in _VARIANTS)
    )
    if not known:
        raise CommandError(ErrorCode.BadValue, f"collation.locale {locale!r} is not supported")
