"""Wait for a cluster time."""

import asyncio


class TimeWaiters:
    def __init__(self) -> None:
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def latest(self) -> int:
        """The latest time that somebody waits for; 0 if nobody does."""
        return max((time for time, reached in self._waiting if not reached.done()), default=0)

    async def wait(self, time: int) -> None:
        """Wait until `wake` is called with this time or a later one."""
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((time, reached))
        await reached

    def wake(self, through: int) -> None:
        """Wake those who wait for a time up to this one."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for time, reached in waiting:
            if reached.done():
                continue
            if time <= through:
                reached.set_result(None)
            else:
                self._waiting.append((time, reached))
