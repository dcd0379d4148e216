"""Free large values in pieces: Python takes a tenth of a second to free a million documents at once.

What makes a large value passes it to `freed_in_pieces`, which holds it until nobody else does. A server
process calls `free_unused` from time to time, with ticks; in other processes nothing is held.

>>> freed_in_pieces([1, 2])
[1, 2]
"""

import sys
import threading
from typing import Any, Final, TypeVar

from tailrace.pacing import tick

V = TypeVar("V", bound=list[Any] | dict[Any, Any])

LARGE: Final = 10_000
"""Elements of what is freed in pieces."""
_MOST: Final = 8_000_000
"""New elements after which the unused ones are freed first: a loop can make much quickly."""
_AT_ONCE: Final = 1000

_held: Final[list[tuple[list[Any] | dict[Any, Any], int]]] = []
"""Values and the sizes that they count with."""
_counted: Final = [0]
_limit: Final = [_MOST]
"""What was in use when the unused values were last freed, and `_MOST` more: cursors may use much for long."""
_is_active: Final = [False]
_taking: Final = threading.Lock()
"""The writer's thread may free values, too."""


def freed_in_pieces(value: V, expected: int = 0) -> V:
    """The list or dict; if it is large, it is emptied in pieces when nobody refers to it any more.

    ``expected`` is its later size: what is not complete when a computation is ended has to be freed, too.
    """
    size = expected or len(value)
    if size < LARGE or not _is_active[0]:
        return value
    if _counted[0] + size > _limit[0]:
        free_unused()
    _counted[0] += size
    _held.append((value, size))
    return value


def set_active(active: bool) -> None:
    """Whether large values are held from now on: only where `free_unused` is called."""
    _is_active[0] = active
    if not active:
        _held.clear()
        _counted[0], _limit[0] = 0, _MOST


def is_any_held() -> bool:
    """Whether large values are in use, or are still to be freed."""
    return bool(_held)


def free_unused() -> None:
    """Empty the values that nobody else refers to; with ticks."""
    while (found := _taken_unused()) is not None:
        value, size = found
        del found
        try:
            _empty(value)
        finally:
            _counted[0] -= size
    _limit[0] = _counted[0] + _MOST


def _taken_unused() -> tuple[list[Any] | dict[Any, Any], int] | None:
    """A value that nobody else refers to, which is no longer held; None if there is none."""
    with _taking:
        for index in range(len(_held) - 1, -1, -1):
            if sys.getrefcount(_held[index][0]) <= _ALONE:
                return _held.pop(index)
    return None


def _empty(value: list[Any] | dict[Any, Any]) -> None:
    freed = 0
    while value:
        if isinstance(value, dict):
            item = value.popitem()[1]
        elif isinstance(value[-1], _CONTAINERS):
            item = value.pop()
        else:
            item = None
            del value[-_AT_ONCE // 10 :]
            freed += _AT_ONCE // 10
        freed += 1 + (len(item) if isinstance(item, _CONTAINERS) else 0)
        del item
        if freed >= _AT_ONCE:
            tick()
            freed = 0


_CONTAINERS: Final = (list, dict, tuple)


def _references_of_held_value() -> int:
    held: list[tuple[list[Any], int]] = [([], 0)]
    return sys.getrefcount(held[0][0])


_ALONE: Final = _references_of_held_value()
