"""Repeat the background jobs of a node: no-ops, reaping, expiry.

Each job runs in its own task and is repeated after a pause that may change between runs. A job that fails is
logged and tried again; it never ends the server. Tests that move the clock run all jobs at once.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tailrace.errors import CommandError
from tailrace.mongod.server.admin.logbook import Logbook


@dataclass(frozen=True, slots=True)
class Job:
    """Some work, and the seconds to wait before it is repeated."""

    name: str
    pause: Callable[[], float]
    work: Callable[[], Awaitable[Any]]


class Background:
    def __init__(self, log: Logbook) -> None:
        self._log = log
        self._jobs: list[Job] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._changed = asyncio.Event()

    def add(self, name: str, pause: Callable[[], float], work: Callable[[], Awaitable[Any]]) -> None:
        """Add a job; to be called before `start`."""
        self._jobs.append(Job(name, pause, work))

    def start(self) -> None:
        """Begin with the first pause of each job."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._repeat(job), name=job.name) for job in self._jobs]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def run_all(self) -> None:
        """Run all jobs now, as if their pauses were over."""
        for job in self._jobs:
            await self._run(job)

    def pauses_changed(self) -> None:
        """Restart all pauses, because parameters have changed."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def _repeat(self, job: Job) -> None:
        while True:
            try:
                async with asyncio.timeout(job.pause()):
                    await self._changed.wait()
            except TimeoutError:
                await self._run(job)

    async def _run(self, job: Job) -> None:
        try:
            await job.work()
        except CommandError as error:
            self._log.warning("CONTROL", "A background job could not be run", job.name, error=str(error))
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            self._log.error("CONTROL", "A background job failed", job.name, error=reason)
