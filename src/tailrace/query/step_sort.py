"""Sort a long list in steps: one call of `list.sort` for a million elements would take most of a second.

Elements are first distributed into buckets by keys of a sample, then each bucket is sorted. Equal keys are in
one bucket and stay in their order. A bucket that is still large has many equal keys, which need no sorting;
the others are distributed again.
"""

import random
from bisect import bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import Any, Final, TypeAlias, TypeVar

from tailrace.pacing import tick
from tailrace.unused import freed_in_pieces

Item = TypeVar("Item")
Keyed: TypeAlias = tuple[Any, Item]

_BUCKET: Final = 1024
"""Elements that are sorted in one step, or distributed in one."""
_SAMPLES: Final = 16
"""Sampled keys for each bucket, if there are not too many buckets"""
_LARGEST_SAMPLE: Final = 2 * _BUCKET
_LARGEST_BUCKET: Final = 4 * _BUCKET

_key: Final = itemgetter(0)


def buckets(elements: list[Keyed[Item]], *, reverse: bool = False) -> Iterator[list[Keyed[Item]] | None]:
    """The elements, in order of their keys, as sorted lists; None after each step without one.

    ``elements`` is emptied. Elements with equal keys keep their order, also with ``reverse``.

    >>> [[key for key, _ in found] for found in buckets([(2, "a"), (1, "b"), (2, "c")]) if found]
    [[1, 2, 2]]
    """
    if len(elements) <= _LARGEST_BUCKET:
        found, elements[:] = elements[:], []
        found.sort(key=_key, reverse=reverse)
        yield found
        return
    splitters = _splitters(elements)
    parts: list[list[Keyed[Item]]] = [[] for _ in range(len(splitters) + 1)]
    freed_in_pieces(parts, len(elements))
    for some in _taken_from_end(elements):
        for element in reversed(some):
            parts[bisect_right(splitters, element[0])].append(element)
        yield None
    numbers = range(len(parts))
    for number in reversed(numbers) if reverse else numbers:
        part, parts[number] = parts[number], []
        part.reverse()
        if len(part) <= _LARGEST_BUCKET or not number:
            yield from buckets(part, reverse=reverse)
        else:
            yield from _around(splitters[number - 1], part, reverse=reverse)


def _around(least: Any, elements: list[Keyed[Item]], *, reverse: bool) -> Iterator[list[Keyed[Item]] | None]:
    """The same as `buckets` for many elements whose keys are not below ``least``."""
    equal: list[Keyed[Item]] = freed_in_pieces([], len(elements))
    greater: list[Keyed[Item]] = freed_in_pieces([], len(elements))
    for some in _taken_from_end(elements):
        for element in reversed(some):
            (greater if least < element[0] else equal).append(element)
        yield None
    greater.reverse()
    if reverse:
        yield from buckets(greater, reverse=reverse)
    for some in _taken_from_end(equal):
        some.reverse()
        yield some
    if not reverse:
        yield from buckets(greater, reverse=reverse)


def _taken_from_end(elements: list[Keyed[Item]]) -> Iterator[list[Keyed[Item]]]:
    """The elements in pieces, those at the end first; they are removed."""
    while elements:
        some = elements[-_BUCKET:]
        del elements[-_BUCKET:]
        yield some


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
    """Different keys that divide the elements into buckets of about the same size, if their keys differ.

    They are chosen at random, so that no order of the elements makes one bucket much larger.
    """
    count = min(len(elements) // _BUCKET, _LARGEST_SAMPLE // 2)
    sample = sorted(map(_key, random.choices(elements, k=min(count * _SAMPLES, _LARGEST_SAMPLE))))
    found: list[Any] = []
    for key in sample[:: len(sample) // count]:
        if not found or found[-1] < key:
            found.append(key)
    return found
