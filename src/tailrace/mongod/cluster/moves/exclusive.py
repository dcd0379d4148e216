"""Having namespaces alone for a step of a move, without stopping everybody who waits as well."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from tailrace.mongod.cluster.placement.changes import Placement

_PATIENCE_SECONDS: Final = 0.1
_MOST_PATIENCE_SECONDS: Final = 2.0
_GROWTH: Final = 1.2
_REST: Final = 4.0
"""How many times as long others have their turn"""


async def nothing() -> None:
    """Just wait."""


@asynccontextmanager
async def alone_at_last(
    placement: Placement, *names: str, meanwhile: Callable[[], Awaitable[Any]] = nothing
) -> AsyncIterator[None]:
    """While nobody else uses these namespaces.

    A transaction uses them for as long as it is open, and whoever comes behind this waits as this does. So it
    gives way after a moment, and asks again later, a little more patiently, with ``meanwhile`` in between.
    """
    patience = _PATIENCE_SECONDS
    while True:
        locks = placement.changing(*names)
        try:
            async with asyncio.timeout(patience):
                await locks.__aenter__()
            break
        except TimeoutError:
            await asyncio.sleep(patience * _REST)
            await meanwhile()
            patience = min(patience * _GROWTH, _MOST_PATIENCE_SECONDS)
    try:
        yield
    finally:
        locks.release()
