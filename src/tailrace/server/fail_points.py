"""Places where a test can make the server fail or wait on purpose.

A fail point is off until `configureFailPoint` sets its mode. `failCommand` is looked at by the dispatcher before
each command; the others are looked at where their name says. `times` and `skip` count only what matches.
"""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tailrace.bsonio.compare import type_name
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError

if TYPE_CHECKING:
    from tailrace.server.context import Context

FAIL_COMMAND: Final = "failCommand"
KNOWN: Final = (
    FAIL_COMMAND,
    "failGetMoreAfterCursorCheckout",
    "disableAwaitDataForGetMoreCmd",
    "throwErrorBeforeGetNext",
    "changeStreamPreImageRemoverCurrentTime",
    "waitInFindBeforeMakingBatch",
    "waitAfterPinningCursorBeforeGetMoreBatch",
    "waitWithPinnedCursorDuringGetMoreBatch",
    "onPrimaryTransactionalWrite",
    "maxTimeAlwaysTimeOut",
    "maxTimeNeverTimeOut",
    "WTWriteConflictException",
    "writeConflictInTransaction",
)
"""Every name that can be configured."""


@dataclass(slots=True)
class FailPoint:
    """One place: whether it is on, for how long, and what it does."""

    mode: str = "off"
    """off, alwaysOn, times, skip or activationProbability"""
    value: float = 0
    """What is left of `times` or `skip`, or the probability."""
    data: Mapping[str, Any] = field(default_factory=dict)
    times_entered: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it is configured anew or hit; waiters take the one that is current."""

    def enter(self) -> bool:
        """Whether it acts now; called only if everything else matches."""
        if self.mode == "off":
            return False
        if self.mode == "times":
            self.value -= 1
            if self.value <= 0:
                self.mode = "off"
        elif self.mode == "skip" and self.value > 0:
            self.value -= 1
            return False
        elif self.mode == "activationProbability" and random.random() >= self.value:
            return False
        self.times_entered += 1
        self.wake()
        return True

    def wake(self) -> None:
        """Let those look again who wait for a change."""
        self.changed.set()
        self.changed = asyncio.Event()

    def to_document(self) -> dict[str, Any]:
        """As getParameter shows it: 0 off, 1 always, 2 with a probability, 3 a number of times, 4 skipping."""
        modes = ("off", "alwaysOn", "activationProbability", "times", "skip")
        return {"mode": modes.index(self.mode), "data": dict(self.data)}


class FailPoints:
    """All fail points of a server."""

    def __init__(self) -> None:
        self._points = {name: FailPoint() for name in KNOWN}

    def get(self, name: str) -> FailPoint:
        """The fail point of that name."""
        point = self._points.get(name)
        if point is None:
            raise CommandError(ErrorCode.FailPointSetFailed, f"{name} not found")
        return point

    def configure(self, name: str, mode: object, data: Mapping[str, Any]) -> int:
        """Set a mode; how often the fail point has been entered so far."""
        point = self.get(name)
        kind, value = _parse_mode(mode)
        point.mode, point.value, point.data = kind, value, data if kind != "off" else {}
        if kind == "times" and value == 0:
            point.mode = "off"
        point.wake()
        return point.times_entered

    def disable_all(self) -> None:
        """Switch everything off."""
        for point in self._points.values():
            point.mode, point.data = "off", {}
            point.wake()

    def active(self, name: str) -> Mapping[str, Any] | None:
        """The data of a fail point that acts now, or None; asking counts as entering."""
        point = self._points[name]
        return point.data if point.mode != "off" and point.enter() else None

    def command_failure(self, context: "Context") -> Mapping[str, Any] | None:
        """What `failCommand` does to this command, or None."""
        point = self._points[FAIL_COMMAND]
        if point.mode == "off" or not _matches(point.data, context) or not point.enter():
            return None
        return point.data

    async def block(self, milliseconds: int | None) -> None:
        """Wait as `blockConnection` says; without a time until `failCommand` is switched off."""
        if milliseconds is not None:
            await asyncio.sleep(milliseconds / 1000)
            return
        point = self._points[FAIL_COMMAND]
        while point.mode != "off":
            await point.changed.wait()

    async def wait_entered(self, name: str, times: int) -> None:
        """Wait until a fail point was entered that often."""
        point = self.get(name)
        while point.times_entered < times:
            await point.changed.wait()


def _matches(data: Mapping[str, Any], context: "Context") -> bool:
    if context.entry.name == "configureFailPoint":
        return False
    if not any(data.get(action) for action in ("closeConnection", "blockConnection", "writeConcernError")):
        # An error code of 0 asks for nothing.
        if not data.get("errorCode"):
            return False
    names = {context.entry.name, *context.entry.aliases}
    if not data.get("failAllCommands") and not names.intersection(data.get("failCommands", ())):
        if "failCommandsExcept" not in data or names.intersection(data["failCommandsExcept"]):
            return False
    if "appName" in data and data["appName"] != context.client.app_name:
        return False
    if "threadName" in data and data["threadName"] != context.client.name:
        return False
    return "namespace" not in data or data["namespace"] == context.namespace


def _parse_mode(mode: object) -> tuple[str, float]:
    if isinstance(mode, str):
        if mode not in ("off", "alwaysOn"):
            raise CommandError(ErrorCode.BadValue, f"unknown mode: {mode}")
        return mode, 0
    if not isinstance(mode, dict):
        reason = f"'mode' must be a string or JSON object, not {type_name(mode)}"
        raise CommandError(ErrorCode.TypeMismatch, reason)
    for name in ("times", "skip", "activationProbability"):
        if name not in mode:
            continue
        value = mode[name]
        if isinstance(value, bool) or not isinstance(value, int | float):
            reason = f"the value of '{name}' must be a number, not {type_name(value)}"
            raise CommandError(ErrorCode.TypeMismatch, reason)
        if name == "activationProbability":
            if not 0 <= value <= 1:
                reason = f"activationProbability must be between 0.0 and 1.0; found {value}"
                raise CommandError(ErrorCode.BadValue, reason)
            return name, float(value)
        if not 0 <= value < 2**31:
            raise CommandError(ErrorCode.BadValue, f"'{name}' must be a positive 32-bit integer, not {value}")
        return name, int(value)
    raise CommandError(ErrorCode.BadValue, "'mode' must be one of 'off', 'alwaysOn', 'times', 'skip' and "
                       "'activationProbability'")  # fmt: skip
