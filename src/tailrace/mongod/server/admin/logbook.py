"""The structured log: one JSON object to a line, in the layout of MongoDB's own log.

Tools that read a mongod's log read this one, and `getLog` hands the newest lines to mongosh. Writing to the
stream never fails a command.
"""

import json
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, TextIO

LEVELS: Final = ("debug", "info", "warning", "error")
_SEVERITY: Final = {"debug": "D1", "info": "I", "warning": "W", "error": "E"}
_KEPT_LINES: Final = 1024


class Logbook:
    """Writes lines and remembers the newest ones."""

    def __init__(
        self,
        level: str = "info",
        stream: TextIO | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Lines below ``level`` are dropped. Without a stream lines are remembered only."""
        self._threshold = LEVELS.index(level)
        self._stream = stream
        self._now = now
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._warnings: list[str] = []
        self.total_lines = 0

    def debug(self, component: str, message: str, context: str = "-", **attributes: Any) -> None:
        """What helps to follow single operations."""
        self._write("debug", component, message, context, attributes)

    def info(self, component: str, message: str, context: str = "-", **attributes: Any) -> None:
        """What happens in normal operation."""
        self._write("info", component, message, context, attributes)

    def warning(self, component: str, message: str, context: str = "-", **attributes: Any) -> None:
        """What is likely not wanted."""
        self._write("warning", component, message, context, attributes)

    def error(self, component: str, message: str, context: str = "-", **attributes: Any) -> None:
        """What went wrong in the server itself."""
        self._write("error", component, message, context, attributes)

    def forget_startup(self) -> None:
        """Another start begins: the warnings of the one before no longer hold."""
        self._warnings.clear()

    def startup_warning(self, component: str, message: str) -> None:
        """A warning that mongosh shows when it connects."""
        self._warnings.append(self._line("warning", component, message, "initandlisten", {}))
        self.warning(component, message, "initandlisten")

    def newest(self) -> list[str]:
        """The lines that are remembered, oldest first."""
        return list(self._lines)

    def startup_warnings(self) -> list[str]:
        """The warnings of this start."""
        return list(self._warnings)

    def _write(
        self, level: str, component: str, message: str, context: str, attributes: dict[str, Any]
    ) -> None:
        if LEVELS.index(level) < self._threshold:
            return
        line = self._line(level, component, message, context, attributes)
        self.total_lines += 1
        self._lines.append(line)
        if self._stream is not None:
            with suppress(OSError, ValueError):  # nobody reads it any more; the work goes on
                self._stream.write(line + "\n")
                self._stream.flush()

    def _line(
        self, level: str, component: str, message: str, context: str, attributes: dict[str, Any]
    ) -> str:
        moment = self._now().isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "t": {"$date": moment},
            "s": _SEVERITY[level],
            "c": component,
            "ctx": context,
            "msg": message,
        }
        if attributes:
            line["attr"] = attributes
        return json.dumps(line, ensure_ascii=False, default=str)
