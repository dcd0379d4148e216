"""Count what a pipeline commits; log rows, rate and lag."""

import logging
import time
from dataclasses import dataclass, field
from typing import Any, Final

from tailrace.events.cluster_time import seconds_of, to_pair
from tailrace.lake.bulk.kernel import kernel_in_words
from tailrace.log_lines import fields

_LOG: Final = logging.getLogger("tailrace.pipeline")
_QUIET_SECONDS: Final = 10.0
"""Between two lines of progress; a pipeline may commit many times in a second."""


@dataclass(slots=True)
class Progress:
    through: int = 0
    """The cluster time through which the history holds everything."""
    promised: int = 0
    """How far the source was when the newest batch was planned."""
    rows: int = 0
    batches: int = 0
    began: float = field(default_factory=time.monotonic)
    _logged: float = 0.0
    _logged_rows: int = 0

    @property
    def lag_seconds(self) -> int:
        """How many seconds of the source are not in the history yet."""
        return max(0, seconds_of(self.promised) - seconds_of(self.through))

    def committed(self, rows: int, *, through: int, promised: int) -> None:
        """Count a batch."""
        self.rows += rows
        self.batches += 1
        self.through, self.promised = through, promised
        now = time.monotonic()
        if now - self._logged >= _QUIET_SECONDS:
            rate = _rate(self.rows - self._logged_rows, now - (self._logged or self.began))
            _LOG.info("Progress", extra=fields(**self.figures(), rowsPerSecond=rate))
            self._logged, self._logged_rows = now, self.rows

    def log_summary(self) -> None:
        seconds = time.monotonic() - self.began
        rate = _rate(self.rows, seconds)
        attributes = fields(**self.figures(), seconds=round(seconds, 1), rowsPerSecond=rate)
        _LOG.info("Pipeline ended", extra=attributes)

    def figures(self) -> dict[str, Any]:
        """Return the figures under the names that the log has for them."""
        return {
            "rows": self.rows,
            "batches": self.batches,
            "through": to_pair(self.through),
            "lagSeconds": self.lag_seconds,
            "kernel": kernel_in_words(),
        }


def _rate(rows: int, seconds: float) -> int:
    return round(rows / seconds) if seconds > 0 else 0
