"""Things that a process opens once for sources that are sent to it again and again.

A Python worker of Spark runs one task after the other, and each unpickles its source. Connecting, or indexing
a dump, for every task would cost more than a small batch takes. So a source has an `Owner`, which survives
pickling, and what was opened for it stays open until it is released, or until the cache is full.
"""

import atexit
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import RLock
from typing import Any, Final, Generic, TypeVar
from uuid import uuid4
from weakref import WeakValueDictionary

T = TypeVar("T")

_MOST: Final = 64


class Owner:
    """Who uses what is open, for as long as the object exists; copies and unpickled ones are the same owner.

    >>> from copy import copy
    >>> owner = Owner()
    >>> copy(owner) is owner
    True
    """

    def __init__(self, name: str | None = None) -> None:
        self.name = name or uuid4().hex
        _living[self.name] = self

    def __reduce__(self) -> tuple[Any, ...]:
        return _owner, (self.name,)


_living: Final[WeakValueDictionary[str, Owner]] = WeakValueDictionary()


def _owner(name: str) -> Owner:
    return _living.get(name) or Owner(name)


class ProcessCache(Generic[T]):
    """Open things by owner and key.

    Of too many, the one whose use is longest ago is closed, but none of an owner that exists.
    """

    def __init__(self, close: Callable[[T], object]) -> None:
        self._close = close
        self._things: OrderedDict[tuple[str, Hashable], T] = OrderedDict()
        self._lock = RLock()
        atexit.register(self.release)

    def get(self, owner: Owner, key: Hashable, opened: Callable[[], T]) -> T:
        """Return what is open under a key; ``opened`` opens it the first time."""
        with self._lock:
            thing = self._things.get((owner.name, key))
            if thing is None:
                thing = self._things[owner.name, key] = opened()
                self._close_unused()
            self._things.move_to_end((owner.name, key))
            return thing

    def _close_unused(self) -> None:
        unused = [key for key in self._things if key[0] not in _living]
        for key in unused[: max(len(self._things) - _MOST, 0)]:
            self._close(self._things.pop(key))

    def release(self, owner: Owner | None = None) -> None:
        """Close what is open for an owner, or everything."""
        with self._lock:
            for key in [key for key in self._things if owner is None or key[0] == owner.name]:
                self._close(self._things.pop(key))
