"""A dict of very many keys: it consists of smaller ones, so that no step of its growth takes long.

Python makes a dict larger in one call, which takes 40 ms for a million keys.

>>> found = table(1_000_000)
>>> found.setdefault("a", 1), found.setdefault("a", 2), "a" in found, "b" in found, len(found)
(1, 1, True, False, 1)
>>> list(keys_of(found)), list(entries(found))
(['a'], [('a', 1)])
>>> type(table(10))
<class 'dict'>
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import Final, Generic, TypeAlias, TypeVar

from tailrace.pacing import ticking
from tailrace.unused import freed_in_pieces

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_MANY: Final = 50_000
_PARTS: Final = 255
"""An odd number: a dict itself uses the lowest bits of the hash, and they must differ within a part."""


class WideDict(Generic[K, V]):
    """Some of the methods of a dict; it has no order."""

    __slots__ = ("_parts",)

    def __init__(self, expected: int) -> None:
        """``expected`` is about how many keys it will have."""
        parts: list[dict[K, V]] = [{} for _ in range(_PARTS)]
        self._parts = freed_in_pieces(parts, expected)

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __contains__(self, key: K) -> bool:
        return key in self._parts[hash(key) % _PARTS]

    def __setitem__(self, key: K, value: V) -> None:
        self._parts[hash(key) % _PARTS][key] = value

    def setdefault(self, key: K, value: V) -> V:
        return self._parts[hash(key) % _PARTS].setdefault(key, value)

    def __iter__(self) -> Iterator[K]:
        """All keys; with ticks."""
        for part in self._parts:
            yield from ticking(list(part))

    def entries(self) -> Iterator[tuple[K, V]]:
        """All keys with their values; with ticks."""
        for part in self._parts:
            yield from ticking(list(part.items()))


Table: TypeAlias = dict[K, V] | WideDict[K, V]


def table(expected: int) -> Table[K, V]:
    """A new table for about so many keys, which is a dict if they are not many."""
    if expected >= _MANY:
        return WideDict(expected)
    found: dict[K, V] = {}
    return freed_in_pieces(found, expected)


def keys_of(found: Table[K, V]) -> Iterable[K]:
    """The keys of a table; with ticks."""
    return ticking(list(found)) if isinstance(found, dict) else found


def entries(found: Table[K, V]) -> Iterable[tuple[K, V]]:
    """The keys of a table with their values; with ticks."""
    return ticking(list(found.items())) if isinstance(found, dict) else found.entries()
