"""Tables of computed values with a limited size.

A deployment has few namespaces, so these tables stay small. One that reaches ten thousand entries is emptied,
which only costs time.
"""

from typing import Final, TypeVar

K = TypeVar("K")
V = TypeVar("V")

LIMIT: Final = 10_000


def remember(table: dict[K, V], key: K, value: V) -> V:
    """Enter a value into a table, emptying it first if it is full; return the value.

    >>> table: dict[str, int] = {}
    >>> remember(table, "a", 1), table
    (1, {'a': 1})
    """
    if len(table) >= LIMIT:
        table.clear()
    table[key] = value
    return value
