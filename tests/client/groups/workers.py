"""One blocking interface to both kinds of workers, so that one test tests both."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tailrace import AsyncConsumer, Consumer, Delivery, aconsume, consume

AWAIT_MS = 20
"""short, so that a getMore without events returns soon"""


class BlockingWorker:
    """An async worker with blocking methods; its heartbeats are sent while one of them runs."""

    def __init__(self, worker: AsyncConsumer, runner: asyncio.Runner) -> None:
        self._worker = worker
        self._runner = runner
        self.ack = worker.ack
        self.stop = worker.stop

    @property
    def slots(self) -> tuple[int, ...]:
        return self._worker.slots

    def __iter__(self) -> Iterator[Delivery]:
        return self

    def __next__(self) -> Delivery:
        async def following() -> Delivery | None:
            async for delivery in self._worker:
                return delivery
            return None

        found = self._runner.run(following())
        if found is None:
            raise StopIteration
        return found

    def fetch(self, most: int = 100) -> list[Delivery]:
        return self._runner.run(self._worker.fetch(most))

    def run(self, handle: Callable[[Delivery], Any], **options: Any) -> int:
        return self._runner.run(self._worker.run(_awaitable(handle), **options))

    def replay(self, handle: Callable[[Delivery], Any], limit: int | None = None) -> int:
        return self._runner.run(self._worker.replay(_awaitable(handle), limit))

    def commit(self) -> None:
        self._runner.run(self._worker.commit())

    def close(self) -> None:
        self._runner.run(self._worker.close())


def _awaitable(handle: Callable[[Delivery], Any]) -> Callable[[Delivery], Any]:
    async def handle_later(delivery: Delivery) -> None:
        handle(delivery)

    return handle_later


Worker = Consumer | BlockingWorker


@contextmanager
def joined(shell: str, uri: str, group: str = "g", *arguments: Any, **options: Any) -> Iterator[Worker]:
    """A worker, which leaves its group after the block."""
    options.setdefault("max_await_time_ms", AWAIT_MS)
    options.setdefault("lease_seconds", 60)
    if shell == "sync":
        with consume(uri, group, *arguments, **options) as worker:
            yield worker
        return
    with asyncio.Runner() as runner:

        async def join() -> AsyncConsumer:
            return await aconsume(uri, group, *arguments, **options)

        blocking = BlockingWorker(runner.run(join()), runner)
        try:
            yield blocking
        finally:
            blocking.close()
