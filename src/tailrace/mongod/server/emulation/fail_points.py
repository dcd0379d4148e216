"""Fail points: places where a test can make the server fail or wait.

A fail point is off until `configureFailPoint` sets its mode. The dispatcher checks `failCommand` before each
command (`fail_command.py`), the others are checked at the place that they name. Only matching uses count for
`times` and `skip`.
"""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

from bson import Int64

from tailrace.bson.compare import type_name
from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode, code_name
from tailrace.errors import CommandError

FAIL_COMMAND: Final = "failCommand"
MAX_TIME_ALWAYS: Final = "maxTimeAlwaysTimeOut"
MAX_TIME_NEVER: Final = "maxTimeNeverTimeOut"
FAIL_GET_MORE: Final = "failGetMoreAfterCursorCheckout"
NEVER_AWAIT_DATA: Final = "disableAwaitDataForGetMoreCmd"
FAIL_GET_NEXT: Final = "throwErrorBeforeGetNext"
ON_TRANSACTIONAL_WRITE: Final = "onPrimaryTransactionalWrite"
WAIT_IN_GET_MORE: Final = "waitAfterPinningCursorBeforeGetMoreBatch"
WAIT_IN_MIGRATION: Final = "migrateThreadHangAtStep4"
"""On the recipient: after the documents were copied, before the changes since then are."""
NO_MATCH_OPTIMIZATION: Final = "disableMatchExpressionOptimization"
"""Without effect: what filters match does not depend on how they are optimised."""
PRE_IMAGE_TIME: Final = "changeStreamPreImageRemoverCurrentTime"
CUT_OFF: Final = "cutOffMember"
"""Only in this server: nobody can reach the member. Its connections are closed and new ones refused."""

KNOWN: Final = (
    FAIL_COMMAND,
    MAX_TIME_ALWAYS,
    MAX_TIME_NEVER,
    FAIL_GET_MORE,
    NEVER_AWAIT_DATA,
    FAIL_GET_NEXT,
    ON_TRANSACTIONAL_WRITE,
    WAIT_IN_GET_MORE,
    WAIT_IN_MIGRATION,
    NO_MATCH_OPTIMIZATION,
    PRE_IMAGE_TIME,
    CUT_OFF,
)
"""Every name that can be configured."""

_MODES: Final = ("off", "alwaysOn", "activationProbability", "times", "skip")
_COUNTS: Final = ("times", "skip")

CODES_WITH_INFO: Final = frozenset(
    {
        65, 121, 169, 227, 236, 249, 271, 283, 284, 304, 320, 343, 346, 348, 351, 353, 356, 359, 361, 11000,
        13388,
    }
)  # fmt: skip
"""Codes whose errors consist of more than a message; seen on 6.0.27, where fail points raised every code."""


def code_and_message(code: int, message: str) -> tuple[int, str]:
    """What an error has that a fail point raises with a message only: not all codes can be raised so."""
    if code in CODES_WITH_INFO:
        return 40671, f"Missing required extra info for error code {code_name(code)}"
    return code, message


@dataclass(slots=True)
class FailPoint:
    mode: str = "off"
    value: float = 0
    """The rest of `times` or `skip`, or the probability."""
    data: Mapping[str, Any] = field(default_factory=dict)
    times_entered: int = 0
    generation: int = 0
    """How often it was configured."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def configure(self, mode: str, value: float, data: Mapping[str, Any]) -> None:
        self.mode = "off" if mode == "times" and not value else mode
        self.value = value
        self.data = data
        self.generation += 1
        self.wake()

    def enter(self) -> bool:
        """Whether it acts now; to be called only if everything else matches."""
        acts = self.take()
        if acts:
            self.wake()
        return acts

    def take(self) -> bool:
        """As `enter`, in another thread than the event loop's, where `wake` has to be called after it."""
        if self.mode == "off":
            return False
        if self.mode == "skip" and self.value > 0:
            self.value -= 1
            return False
        if self.mode == "activationProbability" and random.random() >= self.value:
            return False
        if self.mode == "times":
            self.value -= 1
            if self.value == 0:
                self.mode = "off"
        self.times_entered += 1
        return True

    async def wait(self) -> None:
        """Wait until it is configured or entered."""
        await self._changed.wait()

    def wake(self) -> None:
        """Tell those who wait that it was configured or entered."""
        self._changed.set()
        self._changed = asyncio.Event()

    def to_document(self) -> dict[str, Any]:
        """As getParameter shows it; the mode is a number there."""
        entered = Int64(self.times_entered)
        return {"mode": _MODES.index(self.mode), "data": dict(self.data), "timesEntered": entered}


class FailPoints:
    """All fail points of a node."""

    def __init__(self) -> None:
        self._points = {name: FailPoint() for name in KNOWN}

    def __getitem__(self, name: str) -> FailPoint:
        return self._points[name]

    def get(self, name: object) -> FailPoint:
        """The fail point that a client names."""
        point = self._points.get(name) if is_string(name) else None
        if point is None:
            raise CommandError(ErrorCode.FailPointSetFailed, f"{name} not found")
        return point

    def configure(self, name: str, mode: object, data: Mapping[str, Any]) -> int:
        """Set a mode; returns how often the fail point has been entered so far."""
        point = self.get(name)
        kind, value = _parse_mode(mode)
        point.configure(kind, value, data)
        return point.times_entered

    def is_on(self, name: str) -> bool:
        """Whether a fail point may act; this does not count as entering it."""
        return self._points[name].mode != "off"

    def active(self, name: str) -> Mapping[str, Any] | None:
        """The data of a fail point that acts now, or None; this counts as entering it."""
        point = self._points[name]
        return point.data if point.mode != "off" and point.enter() else None

    def limited(self, seconds: float) -> float | None:
        """The time that a command has: ``seconds``, or 0 or no limit (None) by a fail point."""
        if self.active(MAX_TIME_NEVER) is not None:
            return None
        return 0.0 if self.active(MAX_TIME_ALWAYS) is not None else seconds

    def raise_if_active(self, name: str, field: str) -> None:
        """If a fail point acts now, raise the error whose code is in a field of its data."""
        data = self.active(name)
        code = None if data is None else data.get(field)
        if isinstance(code, int | float) and code > 0:
            message = f"Failing command via '{name}' failpoint"
            raise CommandError(*code_and_message(int(code), message))

    async def wait_while_on(self, name: str) -> None:
        """Wait until a fail point is turned off, if it acts now."""
        if self.active(name) is not None:
            while self.is_on(name):
                await self._points[name].wait()

    def disable_all(self) -> None:
        for point in self._points.values():
            point.configure("off", 0, {})

    async def wait_entered(self, name: str, times: int) -> None:
        """Wait until a fail point was entered that often since the server started."""
        point = self.get(name)
        while point.times_entered < times:
            await point.wait()

    def all(self) -> dict[str, FailPoint]:
        """Every fail point by its name."""
        return dict(self._points)


def _parse_mode(mode: object) -> tuple[str, float]:
    if is_string(mode):
        if mode not in ("off", "alwaysOn"):
            raise CommandError(ErrorCode.BadValue, f"unknown mode: {mode}")
        return mode, 0
    if not isinstance(mode, dict):
        reason = f"'mode' must be a string or an object, not {type_name(mode)}"
        raise CommandError(ErrorCode.TypeMismatch, reason)
    name = next(iter(mode), "")
    if len(mode) != 1 or name not in (*_COUNTS, "activationProbability"):
        reason = "'mode' must have exactly one of the fields times, skip and activationProbability"
        raise CommandError(ErrorCode.BadValue, reason)
    value = mode[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        reason = f"the value of '{name}' must be a number, not {type_name(value)}"
        raise CommandError(ErrorCode.TypeMismatch, reason)
    if name == "activationProbability":
        if not 0 <= value <= 1:
            reason = f"activationProbability must be between 0.0 and 1.0, not {value}"
            raise CommandError(ErrorCode.BadValue, reason)
        return name, float(value)
    if not isfinite(value) or value != int(value):
        raise CommandError(ErrorCode.BadValue, f"'{name}' must be a whole number, not {value}")
    if not 0 <= value < 2**31:
        raise CommandError(ErrorCode.BadValue, f"'{name}' must be a 32-bit number from 0 on, not {value}")
    return name, int(value)
