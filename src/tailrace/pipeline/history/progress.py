"""Rows, rate and lag of a pipeline: in the log while it runs, as a summary when it ends."""

import time
from dataclasses import dataclass, field
from typing import Any, Final

from tailrace.pipeline.history.log import COMPONENT, Log

_QUIET_SECONDS: Final = 10.0
"""Between two lines of progress; a pipeline may commit many times in a second."""


@dataclass(slots=True)
class Progress:
    """Counts what was committed."""

    log: Log
    rows: int = 0
    batches: int = 0
    through: int = 0
    promised: int = 0
    began: float = field(default_factory=time.monotonic)
    _told: float = 0.0
    _told_rows: int = 0

    @property
    def lag_seconds(self) -> int:
        """How much of the source's time is not in the history yet."""
        return max(0, (self.promised >> 32) - (self.through >> 32))

    def committed(self, rows: int, *, through: int, promised: int) -> None:
        """Take note of a batch; says so now and then."""
        self.rows += rows
        self.batches += 1
        self.through, self.promised = through, promised
        now = time.monotonic()
        if now - self._told >= _QUIET_SECONDS:
            self._tell(now)

    def _tell(self, now: float) -> None:
        since = now - (self._told or self.began)
        rate = round((self.rows - self._told_rows) / since) if since > 0 else 0
        self.log.info(COMPONENT, "Progress", **self.figures(), rowsPerSecond=rate)
        self._told, self._told_rows = now, self.rows

    def summary(self) -> None:
        """One last line."""
        seconds = time.monotonic() - self.began
        rate = round(self.rows / seconds) if seconds > 0 else 0
        figures = self.figures()
        self.log.info(COMPONENT, "Pipeline ended", **figures, seconds=round(seconds, 1), rowsPerSecond=rate)

    def figures(self) -> dict[str, Any]:
        """What is counted, under the names of the log."""
        return {
            "rows": self.rows,
            "batches": self.batches,
            "through": [self.through >> 32, self.through & 0xFFFFFFFF],
            "lagSeconds": self.lag_seconds,
        }
