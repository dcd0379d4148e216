"""Sort a long list in steps: one call of `list.sort` for a million elements would take most of a second.

Elements are first distributed into buckets by keys of a sample, then each bucket is sorted. Equal keys are in
one bucket and stay in their order.
"""

from bisect import bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import Any, Final, TypeAlias, TypeVar

from tailrace.pacing import tick
from tailrace.unused import freed_in_pieces

Item = TypeVar("Item")
Keyed: TypeAlias = tuple[Any, Item]

_BUCKET: Final = 2048
"""Elements that are sorted in one step, or distributed in one."""
_SAMPLES: Final = 16
"""Sampled keys for each bucket, if there are not too many buckets"""
_LARGEST_SAMPLE: Final = _BUCKET

_key: Final = itemgetter(0)


def buckets(elements: list[Keyed[Item]], *, reverse: bool = False) -> Iterator[list[Keyed[Item]] | None]:
    """The elements, in order of their keys, as sorted lists; None after each step without one.

    ``elements`` is emptied. Elements with equal keys keep their order, also with ``reverse``.

    >>> [[key for key, _ in found] for found in buckets([(2, "a"), (1, "b"), (2, "c")]) if found]
    [[1, 2, 2]]
    """
    if len(elements) <= 2 * _BUCKET:
        found, elements[:] = elements[:], []
        found.sort(key=_key, reverse=reverse)
        yield found
        return
    splitters = _splitters(elements)
    if not splitters:
        # All sampled keys are equal: sorting finds few elements that are out of order, and is quick.
        found, elements[:] = elements[:], []
        found.sort(key=_key, reverse=reverse)
        yield found
        return
    parts: list[list[Keyed[Item]]] = [[] for _ in range(len(splitters) + 1)]
    freed_in_pieces(parts, len(elements))
    for start in range(0, len(elements), _BUCKET):
        for element in elements[start : start + _BUCKET]:
            parts[bisect_right(splitters, element[0])].append(element)
        yield None
    total = len(elements)
    elements.clear()
    if not reverse:
        parts.reverse()
    while parts:
        part = parts.pop()
        if 8 * _BUCKET < len(part) <= total // 2:
            yield from buckets(part, reverse=reverse)
        elif part:
            part.sort(key=_key, reverse=reverse)
            yield part


def sorted_with_ticks(elements: list[Keyed[Item]], *, reverse: bool = False) -> list[Keyed[Item]]:
    """The elements in order of their keys; ``elements`` is emptied.

    >>> sorted_with_ticks([(2, "a"), (1, "b"), (2, "c")], reverse=True)
    [(2, 'a'), (2, 'c'), (1, 'b')]
    """
    ordered: list[Keyed[Item]] = freed_in_pieces([], len(elements))
    for bucket in buckets(elements, reverse=reverse):
        ordered += bucket or ()
        tick()
    return ordered


def _splitters(elements: list[Keyed[Item]]) -> list[Any]:
    """Different keys that divide the elements into buckets of about the same size."""
    count = min(len(elements) // _BUCKET, _LARGEST_SAMPLE // 2)
    step = max(1, len(elements) // min(count * _SAMPLES, _LARGEST_SAMPLE))
    sample = sorted(element[0] for element in elements[::step])
    found: list[Any] = []
    stride = max(1, len(sample) // count)
    for key in sample[stride::stride]:
        if not found or found[-1] < key:
            found.append(key)
    return found if len(found) > 1 or (found and sample[0] < found[0]) else []
