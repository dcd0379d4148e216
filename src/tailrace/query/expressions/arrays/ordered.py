"""Sort the elements of arrays, with ticks."""

from collections.abc import Iterable
from typing import Any, TypeVar

from tailrace.query.step_sort import sorted_with_ticks
from tailrace.unused import freed_in_pieces

T = TypeVar("T")


def in_order(keyed: Iterable[tuple[Any, T]], *, reverse: bool = False) -> list[T]:
    """The items of pairs of key and item, by key; equal ones stay in their order.

    >>> in_order([(2, "a"), (1, "b"), (2, "c")], reverse=True)
    ['a', 'c', 'b']
    """
    return freed_in_pieces([item for _, item in sorted_with_ticks(list(keyed), reverse=reverse)])
