"""Collations: which are accepted, and how strings compare under them."""

from itertools import pairwise
from typing import Any

import pytest
from bson import Decimal128
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.errors import CommandError
from tailrace.query import collation_icu
from tailrace.query.collation import Collation


def collation(**spec: Any) -> Collation:
    parsed = Collation.parse({"locale": "en", **spec})
    assert parsed is not None
    return parsed


def compare(spec: Collation, left: str, right: str) -> int:
    a, b = spec.string_key(left), spec.string_key(right)
    return int(a > b) - int(a < b)


# (collation, left, right, order)
ORDERS: list[tuple[dict[str, Any], str, str, int]] = [
    ({}, "ab", "ba", -1),
    ({}, "ab", "ab", 0),
    ({}, "ab", "abb", -1),
    ({}, "a b", "ab", -1),
    ({}, "a-b", "ab", -1),
    ({}, "a", "A", -1),
    ({}, "A", "b", -1),
    ({}, "a", "á", -1),
    ({}, "á", "b", -1),
    ({}, "az", "áa", 1),
    ({}, "co-op", "coop", -1),
    ({}, "1", "a", -1),
    ({}, "$1", "1", -1),
    ({}, "_a", "-a", -1),
    ({}, "2", "10", 1),
    ({}, "z", "λ", -1),
    ({}, "λ", "я", -1),
    ({}, "e\u0301", "\u00e9", 0),
    ({}, "\u0301", "", 1),
    ({}, "a\u0000b", "ab", 0),
    ({}, "ø", "o", 1),
    ({}, "ø", "p", -1),
    ({}, "æ", "ae", 1),
    ({}, "æ", "af", -1),
    ({}, "ß", "ss", 1),
    ({}, "\uff21", "A", 1),
    ({}, "か", "カ", -1),
    ({"strength": 1}, "a", "á", 0),
    ({"strength": 1}, "a", "A", 0),
    ({"strength": 1}, "ø", "O", 0),
    ({"strength": 1}, "ß", "SS", 0),
    ({"strength": 1}, "か", "カ", 0),
    ({"strength": 1}, "a", "b", -1),
    ({"strength": 1}, "a b", "ab", -1),
    ({"strength": 2}, "a", "A", 0),
    ({"strength": 2}, "a", "á", -1),
    ({"strength": 2}, "É", "é", 0),
    ({"strength": 3}, "a", "A", -1),
    ({"strength": 3}, "e\u0301\u0000", "é", 0),
    ({"strength": 5}, "a\u0000b", "ab", -1),
    ({"strength": 5}, "e\u0301", "é", 0),
    ({"strength": 1, "caseLevel": True}, "a", "á", 0),
    ({"strength": 1, "caseLevel": True}, "a", "A", -1),
    ({"strength": 1, "caseLevel": True, "caseFirst": "upper"}, "a", "A", 1),
    ({"strength": 1, "caseLevel": True, "caseFirst": "upper"}, "a", "á", 0),
    ({"caseLevel": True, "caseFirst": "upper"}, "A", "a", -1),
    ({"caseFirst": "upper"}, "A", "a", -1),
    ({"caseFirst": "lower"}, "A", "a", 1),
    ({"numericOrdering": True}, "2", "10", -1),
    ({"numericOrdering": True}, "a2b", "a10a", -1),
    ({"numericOrdering": True}, "a10b", "a10a", 1),
    ({"numericOrdering": True, "strength": 1}, "a010", "a10", 0),
    ({"numericOrdering": True}, "1.5", "1.10", -1),
    ({"strength": 1, "alternate": "shifted"}, "a b", "ab", 0),
    ({"strength": 1, "alternate": "shifted"}, "a-b", "ab", 0),
    ({"strength": 3, "alternate": "shifted"}, "a-b", "ab", 0),
    ({"strength": 4, "alternate": "shifted"}, "a b", "ab", -1),
    ({"strength": 4, "alternate": "shifted"}, "a-b", "ab", -1),
    ({"strength": 4, "alternate": "shifted"}, "a b", "a-b", -1),
    ({"strength": 1, "alternate": "shifted", "maxVariable": "space"}, "a b", "ab", 0),
    ({"strength": 1, "alternate": "shifted", "maxVariable": "space"}, "a-b", "ab", -1),
    ({"strength": 1, "alternate": "shifted"}, "a+b", "ab", -1),
    ({"strength": 2}, "aá", "áa", -1),
    ({"strength": 2, "backwards": True}, "aá", "áa", 1),
    ({"locale": "fr_CA"}, "aá", "áa", 1),
    ({"locale": "fr_CA", "backwards": False}, "aá", "áa", -1),
    ({"locale": "da"}, "A", "a", -1),
    ({"locale": "th", "strength": 3}, "a-b", "ab", 0),
    ({"locale": "de@collation=phonebook", "normalization": True}, "a", "b", -1),
]


@pytest.mark.parametrize(("spec", "left", "right", "order"), ORDERS)
def test_order(spec: dict[str, Any], left: str, right: str, order: int) -> None:
    assert compare(collation(**spec), left, right) == order
    assert compare(collation(**spec), right, left) == -order


def test_ascii_in_the_order_of_the_root_collation() -> None:
    ordered = list(" _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789aAbBzZ")
    keys = [collation().string_key(char) for char in ordered]
    assert all(a < b for a, b in pairwise(keys))


# (collation, code)
REFUSED: list[tuple[dict[str, Any], int]] = [
    ({}, 40414),
    ({"strength": 1}, 40414),
    ({"locale": 3}, 14),
    ({"locale": None}, 40414),
    ({"locale": "en", "unknown": 1}, 40415),
    ({"locale": "simple", "unknown": 1}, 40415),
    ({"locale": "simple", "strength": "1"}, 14),
    ({"locale": "en", "caseLevel": "yes"}, 14),
    ({"locale": "en", "numericOrdering": 1}, 14),
    ({"locale": "en", "backwards": None}, 14),
    ({"locale": "en", "backwards": "x"}, 14),
    ({"locale": "en", "caseFirst": 1}, 14),
    ({"locale": "en", "caseFirst": "invalid"}, 2),
    ({"locale": "en", "alternate": 1}, 14),
    ({"locale": "en", "alternate": "invalid"}, 2),
    ({"locale": "en", "maxVariable": 1}, 14),
    ({"locale": "en", "maxVariable": "invalid"}, 2),
    ({"locale": "en", "strength": "1"}, 14),
    ({"locale": "en", "strength": True}, 14),
    ({"locale": "en", "strength": 0}, 2),
    ({"locale": "en", "strength": 6}, 51024),
    ({"locale": "en", "strength": Decimal128("sNaN")}, 2),
    ({"locale": "en", "strength": -1}, 51024),
    ({"locale": "en", "strength": 0.5}, 2),
    ({"locale": "en", "version": 3}, 14),
    ({"locale": "en", "version": "unknown"}, 161),
    ({"locale": "en", "strength": 1, "backwards": True}, 2),
    ({"locale": "en", "strength": 2, "caseFirst": "upper"}, 2),
]
UNKNOWN_LOCALES = [
    "garbage", "", "root", "ROOT@collation=search", "en_", "en_US_", "_en", "en__US_POSIX", "xx_US", "en_ZZ",
    "en_USA", "zh_Blah", "en_US_FOO", "@collation=phonebook", "en-US", "en_us", "zh_HANT", "de@collation",
    "de@collation=phonebook;", "de@collation=nope", "en_US\0",
]  # fmt: skip


@pytest.mark.parametrize("locale", UNKNOWN_LOCALES)
def test_unknown_locales(locale: str) -> None:
    with pytest.raises(CommandError) as caught:
        Collation.parse({"locale": locale})
    assert caught.value.code == 2


@pytest.mark.parametrize(("spec", "code"), REFUSED)
def test_refused(spec: dict[str, Any], code: int) -> None:
    with pytest.raises(CommandError) as caught:
        Collation.parse(spec)
    assert caught.value.code == code


def test_not_an_object() -> None:
    with pytest.raises(CommandError) as caught:
        Collation.parse("en")  # type: ignore[arg-type]
    assert caught.value.code == 14


def test_simple_is_no_collation() -> None:
    assert Collation.parse({"locale": "simple"}) is None
    assert Collation.parse({"locale": "simple", "strength": 1, "caseLevel": True}) is None


@pytest.mark.parametrize("strength", [1, 1.0])
def test_whole_strengths_of_any_type(strength: float) -> None:
    assert collation(strength=strength).strength == 1


def test_to_document_has_every_field_in_order() -> None:
    assert collation(strength=2).to_document() == {
        "locale": "en", "caseLevel": False, "caseFirst": "off", "strength": 2, "numericOrdering": False,
        "alternate": "non-ignorable", "maxVariable": "punct", "normalization": False, "backwards": False,
        "version": collation_icu.VERSION or "57.1",
    }  # fmt: skip
    again = Collation.parse(collation(strength=2).to_document())
    assert again == collation(strength=2)


@pytest.mark.parametrize("locale", ["en", "fr_CA", "da", "mt", "th", "de@collation=phonebook"])
@pytest.mark.parametrize("strength", [1, 2, 3, 4, 5])
def test_the_document_of_a_collation_describes_it(locale: str, strength: int) -> None:
    chosen = collation(locale=locale, strength=strength)
    assert Collation.parse(chosen.to_document()) == chosen


specs = st.fixed_dictionaries(
    {"strength": st.integers(1, 5), "caseLevel": st.booleans(), "numericOrdering": st.booleans()},
    optional={"alternate": st.just("shifted"), "maxVariable": st.just("space")},
)


@settings(derandomize=False, print_blob=True)
@given(specs, st.text(max_size=8), st.text(max_size=8), st.text(max_size=8))
def test_keys_are_a_total_order(spec: dict[str, Any], a: str, b: str, c: str) -> None:
    chosen = collation(**spec)
    first, second, third = sorted([a, b, c], key=chosen.string_key)
    assert compare(chosen, first, second) <= 0
    assert compare(chosen, first, third) <= 0
    assert hash(chosen.string_key(a)) == hash(chosen.string_key(a))


@settings(derandomize=False, print_blob=True)
@given(st.text(max_size=8), st.text(max_size=8))
def test_strings_equal_under_a_strength_are_equal_under_lower_ones(a: str, b: str) -> None:
    orders = [compare(collation(strength=strength), a, b) for strength in (1, 2, 3, 4, 5)]
    for weaker, stronger in pairwise(orders):
        assert weaker in (0, stronger)


@settings(derandomize=False, print_blob=True)
@given(st.integers(0, 2000), st.integers(0, 2000))
def test_numeric_ordering_of_numbers(left: int, right: int) -> None:
    numeric = collation(numericOrdering=True)
    assert compare(numeric, f"x{left}", f"x{right}") == (left > right) - (left < right)
