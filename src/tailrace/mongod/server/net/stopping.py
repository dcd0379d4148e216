"""The end of what serves clients: it comes once, whoever asks for it and however often."""

import asyncio
from abc import ABC, abstractmethod


class Stoppable(ABC):
    """Something that is stopped by its owner or by a client's command; all of them wait for one end."""

    def __init__(self) -> None:
        self._stopping: asyncio.Task[None] | None = None
        self._stopped = asyncio.Event()

    async def stop(self) -> None:
        """Refuse new work, end what waits, finish writes, close connections and data."""
        await asyncio.shield(self.begin_stop())

    def begin_stop(self) -> asyncio.Task[None]:
        """Begin to stop; the task ends when it has stopped."""
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._stop())
            self._stopping.add_done_callback(lambda _: self._stopped.set())
        return self._stopping

    async def wait_stopped(self) -> None:
        """Return when it has stopped, whoever stopped it."""
        await self._stopped.wait()

    @abstractmethod
    async def _stop(self) -> None:
        """Stop; called once."""
