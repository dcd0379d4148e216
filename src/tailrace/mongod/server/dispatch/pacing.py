"""Interrupt long work in the event loop for other clients."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from typing import Final, TypeVar

from tailrace.mongod.server.dispatch.context import Context

T = TypeVar("T")

SECONDS_AT_ONCE: Final = 0.005
"""How long a command runs before other commands get their turn."""


async def paced(context: Context, items: Iterable[T]) -> AsyncIterator[T]:
    """The items; every few milliseconds other commands get their turn, and the deadline is checked."""
    pause_at = time.monotonic() + SECONDS_AT_ONCE
    for item in items:
        yield item
        if time.monotonic() >= pause_at:
            await asyncio.sleep(0)
            context.check_deadline()
            pause_at = time.monotonic() + SECONDS_AT_ONCE
