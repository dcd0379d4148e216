"""Sort keys made by ICU, the library that MongoDB uses, if PyICU is installed (the extra ``icu``)."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from tailrace.query.collation import Collation

try:
    import icu
except ImportError:
    icu = None

VERSION: Final[str | None] = getattr(icu, "ICU_VERSION", None)
"""The version of ICU; None if it is not installed. An unrelated package is also named ``icu``."""


def icu_key(collation: "Collation") -> Callable[[str], bytes]:
    """Return the function that makes the sort keys of a collation; `VERSION` must not be None."""
    attribute, value = icu.UCollAttribute, icu.UCollAttributeValue
    switch = {True: value.ON, False: value.OFF}
    case_first = {"upper": value.UPPER_FIRST, "lower": value.LOWER_FIRST, "off": value.OFF}
    alternate = {"shifted": value.SHIFTED, "non-ignorable": value.NON_IGNORABLE}
    strengths = (value.PRIMARY, value.SECONDARY, value.TERTIARY, value.QUATERNARY, value.IDENTICAL)
    # PyICU has no call for maxVariable; ICU reads it from the locale's keyword kv.
    separator = ";" if "@" in collation.locale else "@"
    locale = icu.Locale(f"{collation.locale}{separator}kv={collation.max_variable}")
    collator = icu.Collator.createInstance(locale)
    for name, chosen in (
        (attribute.STRENGTH, strengths[collation.strength - 1]),
        (attribute.CASE_LEVEL, switch[collation.case_level]),
        (attribute.CASE_FIRST, case_first[collation.case_first]),
        (attribute.NUMERIC_COLLATION, switch[collation.numeric_ordering]),
        (attribute.ALTERNATE_HANDLING, alternate[collation.alternate]),
        (attribute.NORMALIZATION_MODE, switch[collation.normalization]),
        (attribute.FRENCH_COLLATION, switch[collation.backwards]),
    ):
        collator.setAttribute(name, chosen)
    return cast("Callable[[str], bytes]", collator.getSortKey)
