"""The worker of a group for asyncio."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, Unpack

from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError

from tailrace.client.aio import AsyncOpening, watch_async
from tailrace.client.flow import run_async
from tailrace.client.groups.consumer import ConsumerFlow, ConsumerParts, Shell
from tailrace.client.groups.delivery import Delivery
from tailrace.client.groups.handling import Retries, replaying, running
from tailrace.client.groups.opening import GroupKeywords, preparing
from tailrace.client.options import Pipeline
from tailrace.errors import TailraceError

SHELL: Final = Shell(AsyncMongoClient, watch_async, asyncio.sleep, asyncio.to_thread)
_LOG: Final = logging.getLogger("tailrace.groups")


def aconsume(
    target: Any, group: str, pipeline: Pipeline = (), **options: Unpack[GroupKeywords]
) -> "AsyncOpening[AsyncConsumer]":
    """Join a consumer group, with the options of `consume`.

    Used as ``async with aconsume(uri, "billing", ns="shop.orders") as consumer:``, or with ``await``.
    """

    async def join() -> AsyncConsumer:
        opened: list[Any] = []
        try:
            consumer = AsyncConsumer(
                await run_async(preparing(SHELL, target, group, pipeline, options, opened))
            )
            await consumer._join()
        except BaseException:
            for client in opened:
                await client.close()
            raise
        return consumer

    return AsyncOpening(join)


class AsyncConsumer(ConsumerFlow):
    """`Consumer` for asyncio."""

    def __init__(self, parts: ConsumerParts) -> None:
        super().__init__(parts)
        self._heart: asyncio.Task[None] | None = None

    async def _join(self) -> None:
        await run_async(self._opening())
        self._heart = asyncio.create_task(self._beat())

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._membership.beat_seconds)
            try:
                await run_async(self._membership.beating())
            except (PyMongoError, TailraceError) as error:
                _LOG.warning("a heartbeat of a consumer group failed: %s", error)

    def __aiter__(self) -> AsyncIterator[Delivery]:
        return self

    async def __anext__(self) -> Delivery:
        self.ack()
        found = await self.fetch(1)
        if not found:
            raise StopAsyncIteration
        return found[0]

    async def fetch(self, most: int = 100) -> list[Delivery]:
        """Wait for events, and return those that have arrived; `ack` them before the next call."""
        return await run_async(self._fetching(most))

    async def run(
        self,
        handle: Callable[[Delivery], Awaitable[object]],
        *,
        max_events: int | None = None,
        retries: Retries | None = None,
    ) -> int:
        """`Consumer.run` for asyncio."""
        return await run_async(running(self, handle, retries or Retries(), max_events))

    async def replay(self, handle: Callable[[Delivery], Awaitable[object]], limit: int | None = None) -> int:
        """`Consumer.replay` for asyncio."""
        return await run_async(replaying(self.store, self.group, handle, limit))

    async def commit(self) -> None:
        """Store the position of what is acknowledged, now."""
        await run_async(self._committing())

    async def close(self) -> None:
        """Commit, leave the group, and close what `aconsume` has opened; a second call does nothing."""
        heart, self._heart = self._heart, None
        if heart is None:
            return
        heart.cancel()
        with suppress(asyncio.CancelledError):
            await heart
        self.stop()
        try:
            await run_async(self._closing())
        finally:
            for client in self._parts.clients:
                await client.close()
