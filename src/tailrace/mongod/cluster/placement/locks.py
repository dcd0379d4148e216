"""Shared and exclusive locks of namespaces, for use and for change of their placement.

Writes and DDL use their namespaces, any number of them at once. A change of the placement has its namespaces
exclusively. Requests are served in order of arrival, so neither kind starves the other.

Using or changing a collection also uses its database. A change of a database, which is a name without a dot,
therefore waits for all users of its collections.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from types import TracebackType

_Waiter = tuple["asyncio.Future[None]", bool]
"""The future of a waiter, and whether it waits for exclusive use"""


_held: ContextVar[frozenset[str]] = ContextVar("_held", default=frozenset())


@contextmanager
def held_already(names: frozenset[str]) -> Iterator[None]:
    """Run a statement of a transaction, which holds the locks of these names until its end.

    Asking for a lock again would be a deadlock if a change waits for it: requests are served in order.
    """
    token = _held.set(names)
    try:
        yield
    finally:
        _held.reset(token)


class PlacementLocks:
    """The locks of all namespaces; an unused name takes no memory.

    >>> async def example() -> list[str]:
    ...     locks, seen = PlacementLocks(), []
    ...     async def change() -> None:
    ...         async with locks.changing("shop.orders"):
    ...             seen.append("changed")
    ...     async with locks.using("shop.orders"), locks.using("shop.orders"):
    ...         task = asyncio.ensure_future(change())
    ...         await asyncio.sleep(0)
    ...         seen.append("used")
    ...     await task
    ...     return seen
    >>> asyncio.run(example())
    ['used', 'changed']
    """

    def __init__(self) -> None:
        self._locks: dict[str, _Lock] = {}

    def using(self, *names: str) -> "HeldLocks":
        """Shared use of namespaces, and of their databases; for `async with`."""
        return HeldLocks(self._locks, names, is_exclusive=False)

    def changing(self, *names: str) -> "HeldLocks":
        """Exclusive use of namespaces, and shared use of their databases; for `async with`."""
        return HeldLocks(self._locks, names, is_exclusive=True)


class _Lock:
    """The lock of one name: its holders, and the waiters in order."""

    __slots__ = ("holders", "is_exclusive", "waiters")

    def __init__(self) -> None:
        self.holders = 0
        self.is_exclusive = False
        self.waiters: deque[_Waiter] = deque()

    def is_free_for(self, *, is_exclusive: bool) -> bool:
        """Whether the lock can be taken now."""
        return not self.holders or not (is_exclusive or self.is_exclusive)

    def take(self, *, is_exclusive: bool) -> None:
        self.holders += 1
        self.is_exclusive = is_exclusive

    def pass_on(self) -> None:
        """Give the lock to the first waiters that can take it."""
        while self.waiters:
            future, is_exclusive = self.waiters[0]
            if not future.cancelled():
                if not self.is_free_for(is_exclusive=is_exclusive):
                    return
                self.take(is_exclusive=is_exclusive)
                future.set_result(None)
            self.waiters.popleft()


@lru_cache(maxsize=4096)
def _in_order(names: tuple[str, ...], is_exclusive: bool) -> tuple[tuple[str, bool], ...]:
    """The names and their databases, sorted, with whether each is wanted exclusively."""
    wanted = dict.fromkeys((name.partition(".")[0] for name in names), False)
    wanted.update(dict.fromkeys(names, is_exclusive))
    return tuple(sorted(wanted.items()))


class HeldLocks:
    """The locks of some names, always taken in sorted order, which prevents deadlocks."""

    __slots__ = ("_locks", "_taken", "_wanted")

    def __init__(self, locks: dict[str, _Lock], names: tuple[str, ...], *, is_exclusive: bool) -> None:
        self._locks = locks
        self._wanted = _in_order(names, is_exclusive)
        self._taken: list[str] = []

    async def __aenter__(self) -> None:
        try:
            held = _held.get()
            for name, is_exclusive in self._wanted:
                if name in held and not is_exclusive:
                    continue
                lock = self._locks.get(name)
                if lock is None:
                    lock = self._locks[name] = _Lock()
                if not lock.waiters and lock.is_free_for(is_exclusive=is_exclusive):
                    lock.take(is_exclusive=is_exclusive)
                else:
                    await self._wait(name, lock, is_exclusive=is_exclusive)
                self._taken.append(name)
        except BaseException:
            self.release()
            raise

    async def _wait(self, name: str, lock: _Lock, *, is_exclusive: bool) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lock.waiters.append((future, is_exclusive))
        try:
            await future
        except asyncio.CancelledError:
            if future.cancelled():
                lock.pass_on()  # the next waiters need not wait for this one
            else:
                self._taken.append(name)  # the lock was given at the same moment
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Release all locks that were taken."""
        for name in reversed(self._taken):
            lock = self._locks[name]
            lock.holders -= 1
            if not lock.holders:
                lock.is_exclusive = False
            lock.pass_on()
            if not lock.holders and not lock.waiters:
                del self._locks[name]
        self._taken.clear()
