"""Sort the elements of arrays, with ticks."""

from collections.abc import Iterable
from typing import Any, TypeVar

from tailrace.pacing import tick
from tailrace.query.step_sort import buckets
from tailrace.unused import freed_in_pieces

T = TypeVar("T")


def in_order(keyed: Iterable[tuple[Any, T]], *, reverse: bool = False) -> list[T]:
    """The items of pairs of key and item, by key; equal ones stay in their order.

    >>> in_order([(2, "a"), (1, "b"), (2, "c")], reverse=True)
    ['a', 'c', 'b']
    """
    found: list[T] = []
    for bucket in buckets(list(keyed), reverse=reverse):
        tick()
        if bucket is not None:
            found += [item for _, item in bucket]
    return freed_in_pieces(found)
