"""Orders of languages, which need the extra `icu`; `test_collation.py` holds with and without it."""

from typing import Any

import pytest

from tailrace.query import collation_icu
from tailrace.query.collation import Collation

pytestmark = pytest.mark.skipif(collation_icu.VERSION is None, reason="PyICU is not installed")


def in_order(texts: str, **spec: Any) -> str:
    collation = Collation.parse(spec)
    assert collation is not None
    return " ".join(sorted(texts.split(), key=collation.string_key))


def test_languages_have_their_own_order() -> None:
    assert in_order("öl zebra ost", locale="en") == "öl ost zebra"
    assert in_order("öl zebra ost", locale="sv") == "ost zebra öl"


def test_variants_of_a_language() -> None:
    assert in_order("Ärzte Afrika", locale="de") == "Afrika Ärzte"
    assert in_order("Ärzte Afrika", locale="de@collation=phonebook") == "Ärzte Afrika"


def test_a_variant_with_an_option() -> None:
    phonebook = {"locale": "de@collation=phonebook", "alternate": "shifted", "maxVariable": "space"}
    assert in_order("Ärzte A-z Afrika", **phonebook) == "A-z Ärzte Afrika"


def test_keys_are_bytes_and_the_version_is_that_of_icu() -> None:
    collation = Collation.parse({"locale": "sv"})
    assert collation is not None
    assert isinstance(collation.string_key("ö"), bytes)
    assert collation.to_document()["version"] == collation_icu.VERSION
