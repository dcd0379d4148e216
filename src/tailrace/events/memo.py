"""Tables of things worked out before, which must not grow without end.

A deployment has few namespaces, so these tables stay small; one that meets ten thousand starts anew, which
costs a little time and nothing else.
"""

from typing import Final, TypeVar

K = TypeVar("K")
V = TypeVar("V")

LIMIT: Final = 10_000


def remember(table: dict[K, V], key: K, value: V) -> V:
    """Enter a value into a table, emptying it first if it is full; gives the value back.

    >>> table: dict[str, int] = {}
    >>> remember(table, "a", 1), table
    (1, {'a': 1})
    """
    if len(table) >= LIMIT:
        table.clear()
    table[key] = value
    return value
