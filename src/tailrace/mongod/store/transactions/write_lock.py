"""The lock against all writes that `fsync` takes."""

import asyncio
from collections.abc import Awaitable, Callable


class WriteLock:
    """Counts how often it was locked; writes wait until it was unlocked as often."""

    def __init__(self, finish_writes: Callable[[], Awaitable[object]]) -> None:
        """``finish_writes`` waits for the writes that have begun."""
        self._finish_writes = finish_writes
        self.count = 0
        self._free = asyncio.Event()

    async def lock(self) -> int:
        """Lock once more, and return how often it is locked now."""
        if not self.count:
            await self._finish_writes()
            self._free.clear()
        self.count += 1
        return self.count

    def unlock(self) -> int:
        """Unlock once, and return how often it is still locked."""
        self.count -= 1
        if not self.count:
            self._free.set()
        return self.count

    async def wait(self) -> None:
        """Wait until it is free."""
        while self.count:
            await self._free.wait()
