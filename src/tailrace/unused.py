"""Free large values in pieces: Python takes a tenth of a second to free a million documents at once.

What makes a large value passes it to `freed_in_pieces`, which holds it until nobody else does. A server
process calls `free_unused` from time to time, with ticks; in other processes nothing is held.

>>> freed_in_pieces([1, 2])
[1, 2]
"""

import sys
from typing import Any, Final, TypeVar

from tailrace.pacing import tick

V = TypeVar("V", bound=list[Any] | dict[Any, Any])

LARGE: Final = 10_000
"""Elements of what is freed in pieces."""
_AT_ONCE: Final = 1000

_held: Final[list[list[Any] | dict[Any, Any]]] = []
_is_active: Final = [False]


def freed_in_pieces(value: V, expected: int = 0) -> V:
    """The list or dict; if it is large, it is emptied in pieces when nobody refers to it any more.

    ``expected`` is its later size: what is not complete when a computation is ended has to be freed, too.
    """
    if (len(value) >= LARGE or expected >= LARGE) and _is_active[0]:
        _held.append(value)
    return value


def set_active(active: bool) -> None:
    """Whether large values are held from now on: only where `free_unused` is called."""
    _is_active[0] = active
    if not active:
        _held.clear()


def is_any_held() -> bool:
    """Whether large values are in use, or are still to be freed."""
    return bool(_held)


def free_unused() -> None:
    """Empty the values that nobody else refers to; with ticks, and never two calls at a time."""
    for index in range(len(_held) - 1, -1, -1):
        if sys.getrefcount(_held[index]) <= _ALONE:
            _empty(_held.pop(index))


def _empty(value: list[Any] | dict[Any, Any]) -> None:
    pop = value.pop if isinstance(value, list) else value.popitem
    freed = 0
    while value:
        item = pop()
        freed += 1 + (len(item) if item.__class__ is list or item.__class__ is dict else 0)
        if freed >= _AT_ONCE:
            tick()
            freed = 0


def _references_of_held_value() -> int:
    held: list[list[Any]] = [[]]
    return sys.getrefcount(held[0])


_ALONE: Final = _references_of_held_value()
