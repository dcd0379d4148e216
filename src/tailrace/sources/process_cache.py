"""Things that a process opens once for sources that are sent to it again and again.

A Python worker of Spark runs one task after the other, and each unpickles its source. Connecting, or indexing
a dump, for every task would cost more than a small batch takes. So a source has an identifier, which survives
pickling, and what was opened for it stays open until it is released, or until the cache is full.
"""

import atexit
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import RLock
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_MOST: Final = 64


class ProcessCache(Generic[T]):
    """Open things by owner and key; of too many, the one whose use is longest ago is closed."""

    def __init__(self, close: Callable[[T], object]) -> None:
        self._close = close
        self._things: OrderedDict[tuple[str, Hashable], T] = OrderedDict()
        self._lock = RLock()
        atexit.register(self.release)

    def get(self, owner: str, key: Hashable, opened: Callable[[], T]) -> T:
        """Return what is open under a key; ``opened`` opens it the first time."""
        with self._lock:
            thing = self._things.get((owner, key))
            if thing is None:
                thing = self._things[owner, key] = opened()
                if len(self._things) > _MOST:
                    self._close(self._things.popitem(last=False)[1])
            self._things.move_to_end((owner, key))
            return thing

    def release(self, owner: str | None = None) -> None:
        """Close what is open for an owner, or everything."""
        with self._lock:
            for key in [key for key in self._things if owner is None or key[0] == owner]:
                self._close(self._things.pop(key))
