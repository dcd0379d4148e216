"""The lock table: documents, index keys and collections that open transactions have written.

A transaction locks what it changes until it ends. Another transaction that needs the same lock gets a write
conflict at once; a write outside of transactions waits. Only the writer's thread uses this table.

A change of a collection itself waits until no transaction uses it. Meanwhile no other transaction may begin
to use it, because the change could otherwise wait without end on a busy server.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.store.tables import pack_ident


class Holder(Protocol):
    """An open transaction whose end others wait for."""

    async def wait_ended(self, deadline: float | None) -> None:
        """Return when it is committed or aborted; raise MaxTimeMSExpired past the deadline."""


async def wait_until(ended: asyncio.Event, deadline: float | None) -> None:
    """Wait for an event; raise MaxTimeMSExpired past the deadline, which is in the event loop's time."""
    try:
        async with asyncio.timeout_at(deadline):
            await ended.wait()
    except TimeoutError:
        raise CommandError(ErrorCode.MaxTimeMSExpired, "operation exceeded time limit") from None


class Blocked(Exception):  # noqa: N818 - not an error: the write is tried again
    """A write met a lock: it is undone, and runs again when the holder has ended."""

    def __init__(self, holder: Holder, collection: bytes | None = None) -> None:
        super().__init__("waiting for a transaction")
        self.holder = holder
        self.collection = collection
        """The prefix of the collection, if the collection itself is to be changed; None for documents"""


def name_key(ns: str) -> bytes:
    """The lock key for the name of a collection that a transaction creates."""
    return pack_ident(0) + ns.encode()


class LockTable:
    """Locked keys with their holders.

    A key is the ident of a collection or an index followed by the record key or index key; the ident without
    a key means use of the collection, which several transactions may share.
    """

    def __init__(self) -> None:
        self._holders: dict[bytes, Holder] = {}
        self._users: dict[bytes, dict[Holder, None]] = {}
        self._held: dict[Holder, dict[bytes, None]] = {}
        self._used: dict[Holder, dict[bytes, None]] = {}
        self._wanted: Counter[bytes] = Counter()

    def __bool__(self) -> bool:
        return bool(self._holders) or bool(self._users)

    def holder(self, key: bytes) -> Holder | None:
        """The transaction that has locked a key."""
        return self._holders.get(key)

    def lock(self, key: bytes, holder: Holder) -> None:
        """Lock a key that is free or belongs to the holder already."""
        self._holders[key] = holder
        self._held.setdefault(holder, {})[key] = None

    def use(self, prefix: bytes, holder: Holder) -> None:
        """Note that a transaction uses a collection."""
        self._users.setdefault(prefix, {})[holder] = None
        self._used.setdefault(holder, {})[prefix] = None

    def user(self, prefix: bytes) -> Holder | None:
        """A transaction that uses a collection, which must not change until it ends."""
        return next(iter(self._users.get(prefix, ())), None)

    @contextmanager
    def wanting(self, prefix: bytes) -> Iterator[None]:
        """Mark a collection while a change of it waits; may be entered in any thread."""
        self._wanted[prefix] += 1
        try:
            yield
        finally:
            self._wanted[prefix] -= 1
            if not self._wanted[prefix]:
                del self._wanted[prefix]

    def is_wanted(self, prefix: bytes) -> bool:
        """Whether a change of the collection itself waits."""
        return prefix in self._wanted

    def held(self, holder: Holder) -> tuple[list[bytes], list[bytes]]:
        """The keys a transaction has locked, and the collections it uses."""
        return list(self._held.get(holder, ())), list(self._used.get(holder, ()))

    def hand_over(self, holder: Holder, heir: Holder) -> None:
        """Give all locks of a transaction to another holder."""
        locked, used = self.held(holder)
        self.release(holder)
        for key in locked:
            self.lock(key, heir)
        for prefix in used:
            self.use(prefix, heir)

    def release(self, holder: Holder) -> None:
        """Release all locks of a transaction."""
        for key in self._held.pop(holder, ()):
            del self._holders[key]
        for prefix in self._used.pop(holder, ()):
            users = self._users[prefix]
            del users[holder]
            if not users:
                del self._users[prefix]
