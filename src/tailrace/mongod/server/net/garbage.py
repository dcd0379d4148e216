"""Free memory when nobody waits: cycles by Python's collector, and large values in pieces.

The collector would run in the middle of a computation. It looks at all objects that are new since its last
run, which takes a tenth of a second if a command has just made a million of them. Reference counts free
nearly everything without it; only cycles wait for it, and few objects are in one.
"""

import asyncio
import gc
from time import monotonic
from typing import Final

from tailrace.mongod.server.net.turns import paced, turns_of
from tailrace.unused import free_unused, is_any_held, set_active

_INTERVAL: Final = 0.5
_SOON: Final = 0.05
"""The interval while large values are in use."""
_BETWEEN_COLLECTIONS: Final = 1.0
_SOME: Final = 500
"""New objects that make a collection worthwhile."""
_MANY: Final = 30_000
"""New objects that take so long to look at that others would notice; most will be freed without that."""
_PATIENCE: Final = 60.0
"""Seconds after which garbage is collected although somebody computes, or there is little or much."""
_SHARE: Final = 0.001
"""The share of the time that may be spent with looking at all objects, not only at new ones."""


def start_freeing() -> asyncio.Task[None]:
    """Free what this process no longer uses, from now on until the task is cancelled."""
    # What was loaded so far stays, so it need not be looked at again.
    gc.collect()
    gc.freeze()
    return asyncio.get_running_loop().create_task(_free_again_and_again())


async def _free_again_and_again() -> None:
    gc.disable()
    set_active(True)
    collector = _Collector()
    try:
        while True:
            await asyncio.sleep(_SOON if is_any_held() else _INTERVAL)
            await paced(_free_unused)
            collector.collect_if_it_is_time()
    finally:
        set_active(False)
        gc.enable()


async def _free_unused() -> None:
    free_unused()


class _Collector:
    """Decides when to collect."""

    def __init__(self) -> None:
        self._turns = turns_of(asyncio.get_running_loop())
        self._last = self._next_complete = monotonic()

    def collect_if_it_is_time(self) -> None:
        now = monotonic()
        is_wanted = self._turns.is_wanted
        is_urgent = not is_wanted and _SOME <= gc.get_count()[0] <= _MANY
        if now - self._last < (_BETWEEN_COLLECTIONS if is_urgent else _PATIENCE):
            return
        is_complete = now >= self._next_complete and not is_wanted
        gc.collect(2 if is_complete else 1)
        self._last = monotonic()
        if is_complete:
            self._next_complete = self._last + (self._last - now) / _SHARE
