"""Who may use a namespace and who may change where it lives, at the same time.

Writes and DDL *use* their namespaces: any number of them together. What changes the placement of one has it
alone. Requests are served in the order they came, so that a change does not wait for ever behind a stream of
writes, nor the other way round.

A collection is part of its database: using or changing the collection uses the database, so whoever changes a
database, which is named without a dot, waits for everybody in it.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from types import TracebackType

_Waiter = tuple["asyncio.Future[None]", bool]
"""Who waits, and whether for the whole name"""


_held: ContextVar[frozenset[str]] = ContextVar("_held", default=frozenset())


@contextmanager
def held_already(names: frozenset[str]) -> Iterator[None]:
    """Around a statement of a transaction: it uses these names until its end, so nobody asks for them again.

    Who asked again would wait behind whoever waits to change them, and so for ever.
    """
    token = _held.set(names)
    try:
        yield
    finally:
        _held.reset(token)


class PlacementLocks:
    """The locks of all namespaces; a name that nobody uses costs nothing.

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
        """Shared use of namespaces, and of databases, for the length of an `async with`."""
        return HeldLocks(self._locks, names, is_exclusive=False)

    def changing(self, *names: str) -> "HeldLocks":
        """The same for exclusive use."""
        return HeldLocks(self._locks, names, is_exclusive=True)


class _Lock:
    """One name: how many have it, and who waits, in order."""

    __slots__ = ("holders", "is_exclusive", "waiters")

    def __init__(self) -> None:
        self.holders = 0
        self.is_exclusive = False
        self.waiters: deque[_Waiter] = deque()

    def takes(self, *, is_exclusive: bool) -> bool:
        """Whether one more can have it now."""
        return not self.holders or not (is_exclusive or self.is_exclusive)

    def take(self, *, is_exclusive: bool) -> None:
        """Note one more that has it."""
        self.holders += 1
        self.is_exclusive = is_exclusive

    def pass_on(self) -> None:
        """Give it to those in front of the queue who can have it."""
        while self.waiters:
            future, is_exclusive = self.waiters[0]
            if not future.cancelled():
                if not self.takes(is_exclusive=is_exclusive):
                    return
                self.take(is_exclusive=is_exclusive)
                future.set_result(None)
            self.waiters.popleft()


@lru_cache(maxsize=4096)
def _in_order(names: tuple[str, ...], is_exclusive: bool) -> tuple[tuple[str, bool], ...]:
    """Names with their databases, and whether each is wanted alone."""
    wanted = dict.fromkeys((name.partition(".")[0] for name in names), False)
    wanted.update(dict.fromkeys(names, is_exclusive))
    return tuple(sorted(wanted.items()))


class HeldLocks:
    """Some names, taken in the order of their names, so that two of these never wait for each other."""

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
                if not lock.waiters and lock.takes(is_exclusive=is_exclusive):
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
                lock.pass_on()  # those behind may go on without this one
            else:
                self._taken.append(name)  # it was given in the same moment
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Let go of everything."""
        for name in reversed(self._taken):
            lock = self._locks[name]
            lock.holders -= 1
            if not lock.holders:
                lock.is_exclusive = False
            lock.pass_on()
            if not lock.holders and not lock.waiters:
                del self._locks[name]
        self._taken.clear()
