"""Free memory in short steps: cycles by Python's collector, and large values in pieces.

The collector would run in the middle of a computation. It looks at all objects that are new since its last
run, which takes a tenth of a second if a command has just made a million of them. Reference counts free
nearly everything without it; only cycles wait for it, and few objects are in one.
"""

import asyncio
import gc
import sys
from time import monotonic
from typing import Final

from tailrace.mongod.server.net.turns import paced, turns_of
from tailrace.unused import free_unused, is_any_held, set_active

_INTERVAL: Final = 0.5
_SOON: Final = 0.05
"""The interval while large values are in use."""
_SOME: Final = 500
"""New objects that make a collection worthwhile."""
_PAUSES: Final = ((30_000, 1.0), (100_000, 5.0))
"""The seconds between two collections of up to so many new objects, which take 4 and 15 ms."""
_MANY_BLOCKS: Final = 300_000
"""Blocks of memory, since the beginning, above which looking at all objects takes that long."""
_PATIENCE: Final = 60.0
"""Seconds after which garbage is collected although there is little."""
_LONG_PATIENCE: Final = 600.0
"""The same for very many objects: others would notice, and most will be freed without that."""
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
        self._last = self._next_complete = self._last_complete = monotonic()
        self._blocks_at_first = sys.getallocatedblocks()

    def collect_if_it_is_time(self) -> None:
        now = monotonic()
        if now - self._last < self._pause():
            return
        is_complete = now >= self._next_complete and not self._turns.is_wanted and self._is_quick(now)
        gc.collect(2 if is_complete else 1)
        self._last = monotonic()
        if is_complete:
            self._last_complete = self._last
            self._next_complete = self._last + (self._last - now) / _SHARE

    def _pause(self) -> float:
        """The least time between two collections."""
        new = gc.get_count()[0]
        if new < _SOME:
            return _PATIENCE
        return next((seconds for most, seconds in _PAUSES if new <= most), _LONG_PATIENCE)

    def _is_quick(self, now: float) -> bool:
        """Whether there are few objects, or looking at all of them has waited for long."""
        blocks = sys.getallocatedblocks() - self._blocks_at_first
        return blocks <= _MANY_BLOCKS or now - self._last_complete >= _LONG_PATIENCE
