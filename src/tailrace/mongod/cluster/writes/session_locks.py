"""One retryable command of a session at a time, whatever router it comes through."""

import asyncio
from weakref import WeakValueDictionary


class SessionLocks:
    """Locks by session; one that nobody uses is gone."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()

    def of(self, lsid: bytes) -> asyncio.Lock:
        """The lock of a session."""
        lock = self._locks.get(lsid)
        if lock is None:
            lock = self._locks[lsid] = asyncio.Lock()
        return lock
