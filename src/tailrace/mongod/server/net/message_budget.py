"""How much memory large messages may take together, from their arrival to their replies.

Small messages are not counted. When the budget is used up, no more is read from the connections with large
messages; they get their turn in the order of their arrival. So that a command that waits for another client
cannot stop them all, one message is admitted every 15 seconds in any case.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

DEFAULT_BYTES: Final = 512 * 1024 * 1024
DECODED: Final = 8
"""How much memory decoded values take, as a multiple of their bytes."""
_ADMISSION_SECONDS: Final = 15.0


class MessageBudget:
    """Admits messages in the order they ask."""

    def __init__(self, most: int = DEFAULT_BYTES) -> None:
        self._most = most
        self._used = 0
        self._waiting: OrderedDict[object, tuple[int, Callable[[], None]]] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    def admit(self, who: object, size: int, admitted: Callable[[], None]) -> bool:
        """Count a message; if it has to wait, returns False, and calls ``admitted`` once it is counted.

        A message that is larger than the whole budget is admitted when there is no other.
        """
        if not self._waiting and self._fits(size):
            self._used += size
            return True
        self._waiting[who] = size, admitted
        self._watch()
        return False

    def _fits(self, size: int) -> bool:
        return self._used + size <= self._most or not self._used

    def release(self, size: int) -> None:
        """Count less; a negative size counts more."""
        self._used -= size
        self._admit_waiting()

    def give_up(self, who: object) -> bool:
        """Forget a message that waits; returns whether it did."""
        was_waiting = self._waiting.pop(who, None) is not None
        self._admit_waiting()
        return was_waiting

    def _admit_waiting(self) -> None:
        while self._waiting and self._fits(next(iter(self._waiting.values()))[0]):
            self._admit_first()
        if not self._waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _admit_first(self) -> None:
        _, (size, admitted) = self._waiting.popitem(last=False)
        self._used += size
        asyncio.get_running_loop().call_soon(admitted)

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_ADMISSION_SECONDS, self._admit_in_any_case)

    def _admit_in_any_case(self) -> None:
        self._timer = None
        if self._waiting:
            self._admit_first()
            self._watch()
