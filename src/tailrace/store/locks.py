"""Which documents, index keys and collections the open transactions have written.

A transaction locks what it changes until it ends. Another transaction that wants the same gets a write
conflict at once; a write outside of transactions waits. The writer's thread alone looks at this table.
"""

from typing import Protocol


class Holder(Protocol):
    """An open transaction, as somebody who waits for its end sees it."""

    async def wait_ended(self, deadline: float | None) -> None:
        """Return when it is committed or aborted; raise MaxTimeMSExpired past the deadline."""


class Blocked(Exception):  # noqa: N818 - not an error: the write is tried again
    """A write met a lock: nothing of it remains, and it is tried again when the holder has ended."""

    def __init__(self, holder: Holder) -> None:
        super().__init__("waiting for a transaction")
        self.holder = holder


class LockTable:
    """Locked keys with their holders.

    A key is the ident of a collection or an index followed by the record key or index key; the ident alone
    stands for the use of the collection, which many transactions may share.
    """

    def __init__(self) -> None:
        self._holders: dict[bytes, Holder] = {}
        self._users: dict[bytes, dict[Holder, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._holders) or bool(self._users)

    def holder(self, key: bytes) -> Holder | None:
        """Who has locked a key."""
        return self._holders.get(key)

    def lock(self, key: bytes, holder: Holder) -> None:
        """Lock a key that is free or the holder's own."""
        self._holders[key] = holder

    def use(self, prefix: bytes, holder: Holder) -> None:
        """Note that a transaction uses a collection."""
        self._users.setdefault(prefix, {})[holder] = None

    def user(self, prefix: bytes) -> Holder | None:
        """A transaction that uses a collection, so that it must stay as it is."""
        return next(iter(self._users.get(prefix, ())), None)

    def release(self, holder: Holder) -> None:
        """Free everything a transaction has locked."""
        for key in [key for key, owner in self._holders.items() if owner is holder]:
            del self._holders[key]
        for prefix, users in list(self._users.items()):
            users.pop(holder, None)
            if not users:
                del self._users[prefix]
