"""Stop something once, however many callers ask for it."""

import asyncio
from abc import ABC, abstractmethod


class Stoppable(ABC):
    """Something that its owner or a client's command can stop; all of them wait for the same end."""

    def __init__(self) -> None:
        self._stopping: asyncio.Task[None] | None = None
        self._stopped = asyncio.Event()
        self.failure: BaseException | None = None
        """Why it has stopped by itself, if it could not go on."""

    async def stop(self) -> None:
        """Refuse new work, cancel waits, complete writes, close connections and data."""
        await asyncio.shield(self.begin_stop())

    def begin_stop(self) -> asyncio.Task[None]:
        """Begin to stop; the task ends when it has stopped."""
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._stop())
            self._stopping.add_done_callback(lambda _: self._stopped.set())
        return self._stopping

    async def wait_stopped(self) -> None:
        """Wait until it has stopped."""
        await self._stopped.wait()

    @abstractmethod
    async def _stop(self) -> None:
        """Called once."""
