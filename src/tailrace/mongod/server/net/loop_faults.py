"""Log the errors of the event loop that belong to no task, without letting a repeated one flood the log."""

import asyncio
import errno
import time
from typing import Any, Final

from tailrace.mongod.server.admin.logbook import Logbook

_NO_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_QUIET_SECONDS: Final = 30
_MOST_KINDS: Final = 100


class LoopFaults:
    """An exception handler of a loop: one line in 30 seconds for a fault, with how often it happened."""

    def __init__(self, log: Logbook) -> None:
        self._log = log
        self._last: dict[str, float] = {}
        self._silent: dict[str, int] = {}

    def __call__(self, _loop: asyncio.AbstractEventLoop, fault: dict[str, Any]) -> None:
        exception = fault.get("exception")
        is_full = isinstance(exception, OSError) and exception.errno in _NO_DESCRIPTORS
        kind = "full" if is_full else f"{fault['message']} {type(exception).__name__}"
        now = time.monotonic()
        if now - self._last.get(kind, -_QUIET_SECONDS) < _QUIET_SECONDS:
            self._silent[kind] = self._silent.get(kind, 0) + 1
            return
        if len(self._last) >= _MOST_KINDS:
            self._last.clear()
            self._silent.clear()
        self._last[kind] = now
        before = self._silent.pop(kind, 0)
        more = {"timesBefore": before} if before else {}
        if is_full:
            self._log.warning(
                "NETWORK", "New connections wait: there are no file descriptors; raise the limit (ulimit -n)",
                "listener", error=str(exception), **more,
            )  # fmt: skip
        else:
            error = f"{fault['message']}: {exception}"
            self._log.error("NETWORK", "Error outside of all commands", error=error, **more)
