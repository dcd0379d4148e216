"""Exclusive access to namespaces, with back-off so that waiters are not starved."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from tailrace.mongod.cluster.placement.changes import Placement

_FIRST_TIMEOUT_SECONDS: Final = 0.1
_LONGEST_TIMEOUT_SECONDS: Final = 2.0
_TIMEOUT_GROWTH: Final = 1.2
_PAUSE_RATIO: Final = 4.0
"""The pause between two attempts, as a multiple of the timeout"""


@asynccontextmanager
async def exclusive_access(
    placement: Placement, *names: str, meanwhile: Callable[[], Awaitable[Any]] | None = None
) -> AsyncIterator[None]:
    """Hold the exclusive locks of these namespaces.

    A transaction holds its namespaces until it ends, and everyone who asks for a lock after this call waits
    in line after it. So each attempt times out quickly, the next one waits a little longer, and ``meanwhile``
    runs in between.
    """
    timeout = _FIRST_TIMEOUT_SECONDS
    while True:
        locks = placement.changing(*names)
        try:
            async with asyncio.timeout(timeout):
                await locks.__aenter__()
            break
        except TimeoutError:
            await asyncio.sleep(timeout * _PAUSE_RATIO)
            if meanwhile is not None:
                await meanwhile()
            timeout = min(timeout * _TIMEOUT_GROWTH, _LONGEST_TIMEOUT_SECONDS)
    try:
        yield
    finally:
        locks.release()
