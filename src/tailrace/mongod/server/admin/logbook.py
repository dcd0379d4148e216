"""The log of one node: a logger that also remembers its newest lines, for `getLog`.

Records are those of `logging` and `log_lines.py` renders them. They propagate to the logger ``tailrace``, so
that a program that runs nodes inside of it, such as a test, can handle them.
"""

import logging
from collections import deque
from typing import Any, Final, TextIO

from tailrace.log_lines import LEVELS, LineFormatter, LineHandler, fields

_REMEMBERED_LINES: Final = 1024
_STARTUP: Final = "initandlisten"


class Logbook:
    """Each node has one: there may be several in a process."""

    def __init__(self, level: str = "info", out: TextIO | logging.Handler | None = None) -> None:
        """Drop records below ``level``; write lines to a stream, or pass the records to a handler."""
        self._logger = logging.Logger("tailrace.server", LEVELS["debug"])
        self._logger.parent = logging.getLogger("tailrace")
        self._ring = _Ring()
        self._logger.addHandler(self._ring)
        if out is not None:
            self._logger.addHandler(out if isinstance(out, logging.Handler) else LineHandler(out))
        self._usual_level = self._level = LEVELS[level]
        self._warnings: list[str] = []

    @property
    def total_lines(self) -> int:
        return self._ring.total

    def debug(self, component: str, message: str, context: str = "-", /, **attributes: Any) -> None:
        """Log what helps to follow single operations."""
        self.log("debug", component, message, context, **attributes)

    def info(self, component: str, message: str, context: str = "-", /, **attributes: Any) -> None:
        """Log what happens in normal operation."""
        self.log("info", component, message, context, **attributes)

    def warning(self, component: str, message: str, context: str = "-", /, **attributes: Any) -> None:
        """Log what an operator should look into."""
        self.log("warning", component, message, context, **attributes)

    def error(self, component: str, message: str, context: str = "-", /, **attributes: Any) -> None:
        """Log faults of the server itself."""
        self.log("error", component, message, context, **attributes)

    def log(self, level: str, component: str, message: str, context: str = "-", /, **attributes: Any) -> None:
        # Not the logger's own level: a logger remembers what it drops, also after its level was changed.
        if LEVELS[level] >= self._level:
            self._logger.log(LEVELS[level], message, extra=fields(context, component, **attributes))

    def set_debug(self, wanted: bool) -> None:
        """Log debug lines, or no longer, unless the log was made with that level."""
        self._level = min(self._usual_level, LEVELS["debug"]) if wanted else self._usual_level

    def forget_startup(self) -> None:
        """Remove the startup warnings, before the next start."""
        self._warnings.clear()

    def startup_warning(self, component: str, message: str) -> None:
        """Log a warning that mongosh shows when it connects, even if the log's level drops it."""
        extra = fields(_STARTUP, component)
        record = self._logger.makeRecord(
            self._logger.name, logging.WARNING, "", 0, message, (), None, extra=extra
        )
        self._warnings.append(self._ring.format(record))
        if record.levelno >= self._level:
            self._logger.handle(record)

    def newest(self) -> list[str]:
        """Return the lines that are remembered, oldest first."""
        return list(self._ring.lines)

    def startup_warnings(self) -> list[str]:
        return list(self._warnings)


class _Ring(logging.Handler):
    """Remembers the newest lines."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(LineFormatter())
        self.lines: deque[str] = deque(maxlen=_REMEMBERED_LINES)
        self.total = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.total += 1
        self.lines.append(self.format(record))
