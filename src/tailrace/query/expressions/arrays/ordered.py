"""Sort the elements of arrays, with ticks."""

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final, TypeVar

from tailrace.pacing import pieces, tick
from tailrace.query.step_sort import sorted_with_ticks
from tailrace.unused import LARGE, freed_in_pieces

T = TypeVar("T")

_AT_ONCE: Final = 1000


def in_order(keyed: Iterable[tuple[Any, T]], *, reverse: bool = False) -> list[T]:
    """The items of pairs of key and item, by key; equal ones stay in their order.

    >>> in_order([(2, "a"), (1, "b"), (2, "c")], reverse=True)
    ['a', 'c', 'b']
    """
    pairs: list[tuple[Any, T]] = []
    iterator = iter(keyed)
    while piece := list(islice(iterator, _AT_ONCE)):
        pairs += piece
        if len(pairs) == LARGE:
            freed_in_pieces(pairs)
        tick()
    found: list[T] = freed_in_pieces([], len(pairs))
    for some in pieces(sorted_with_ticks(pairs, reverse=reverse), _AT_ONCE):
        found += [item for _, item in some]
    return found
