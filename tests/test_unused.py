"""Large values are freed in pieces, but never while somebody uses them."""

import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from tailrace.unused import LARGE, free_unused, freed_in_pieces, is_any_held, set_active


class Item:
    pass


@pytest.fixture
def active() -> Iterator[None]:
    set_active(True)
    yield
    set_active(False)


def large_values() -> list[Any]:
    return [[Item() for _ in range(LARGE)], {number: Item() for number in range(LARGE)}]


def first_item(value: Any) -> "weakref.ref[Item]":
    return weakref.ref(value[0])


@pytest.mark.usefixtures("active")
@pytest.mark.parametrize("number", [0, 1])
def test_a_value_is_emptied_when_nobody_uses_it_any_more(number: int) -> None:
    value = freed_in_pieces(large_values()[number])
    item = first_item(value)
    free_unused()
    assert len(value) == LARGE
    del value
    assert item() is not None
    free_unused()
    assert item() is None
    assert not is_any_held()


@pytest.mark.usefixtures("active")
def test_a_value_that_becomes_large_later_is_emptied_too() -> None:
    value: list[Item] = freed_in_pieces([], LARGE)
    value += large_values()[0]
    item = first_item(value)
    del value
    free_unused()
    assert item() is None


@pytest.mark.usefixtures("active")
def test_small_values_are_not_held() -> None:
    freed_in_pieces([1, 2, 3])
    assert not is_any_held()


@pytest.mark.parametrize("number", [0, 1])
def test_nothing_is_held_where_nobody_frees(number: int) -> None:
    value = freed_in_pieces(large_values()[number])
    item = first_item(value)
    del value
    assert item() is None


@pytest.mark.usefixtures("active")
def test_who_makes_more_than_is_held_first_frees_what_nobody_uses() -> None:
    value = freed_in_pieces(large_values()[0], 7_999_999)
    item = first_item(value)
    del value
    assert item() is not None
    freed_in_pieces([], LARGE)
    assert item() is None


@pytest.mark.usefixtures("active")
def test_values_in_use_do_not_keep_others_from_being_freed_in_pieces() -> None:
    used: list[Item] = freed_in_pieces([], 20_000_000)
    value = freed_in_pieces(large_values()[0])
    item = first_item(value)
    del value
    assert item() is not None
    free_unused()
    assert item() is None
    del used
