"""How long a position stays in a log of limited size: an oplog, or a history with a limit.

>>> window = LogWindow(oldest=1000, newest=1100, bytes=50, limit=200)
>>> window.seconds_left(position=1060, now=1100)  # 0.5 bytes a second fill it in 400 seconds
360.0
>>> window.seconds_left(position=900, now=1100)
0.0
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

RECENT_ENTRIES: Final = 1000
"""The newest entries of an oplog, whose rate counts as the present one."""
FIRST_RECENT_ENTRY: Final[Mapping[str, Any]] = {
    "find": "oplog.rs",
    "filter": {},
    "projection": {"ts": 1},
    "sort": {"$natural": -1},
    "skip": RECENT_ENTRIES - 1,
    "limit": 1,
    "singleBatch": True,
}
"""The command that finds the first of them, in the database `local`."""


@dataclass(frozen=True, slots=True)
class LogWindow:
    """What a log holds now. Times are seconds since 1970."""

    oldest: float
    newest: float
    bytes: int
    limit: int | None = None
    """The size above which the oldest entries are removed."""
    keep_seconds: float | None = None
    """The age at which entries are removed."""
    complete_after: float | None = None
    """Where it begins, if that is before its oldest entry: nothing was removed since."""
    recent_bytes: float | None = None
    """How much was written since ``recent_since``; by default all, since the oldest entry."""
    recent_since: float = 0.0
    least_seconds: float = 0.0
    """Entries are kept at least as long, whatever their size is."""

    @property
    def seconds(self) -> float:
        """From the oldest entry to the newest."""
        return max(self.newest - self.oldest, 0.0)

    def bytes_per_second(self, now: float) -> float:
        """How much is written at present."""
        if self.recent_bytes is None:
            return self.bytes / max(now - self.oldest, 1.0)
        return self.recent_bytes / max(now - self.recent_since, 1.0)

    def seconds_left(self, position: float, now: float) -> float | None:
        """The time until a position is removed, if as much is written as at present.

        None if it never is. 0 if it was removed already.
        """
        if position < (self.oldest if self.complete_after is None else self.complete_after):
            return 0.0
        age = now - position
        limits = []
        rate = self.bytes_per_second(now)
        if self.limit is not None and rate > 0:
            limits.append(max(self.limit / rate, self.least_seconds))
        if self.keep_seconds is not None:
            limits.append(self.keep_seconds)
        return max(min(limits) - age, 0.0) if limits else None


def oplog_window(
    oldest: float,
    newest: float,
    recent: Mapping[str, Any],
    stats: Mapping[str, Any],
    status: Mapping[str, Any],
) -> LogWindow:
    """Return the window of an oplog.

    ``recent`` is the reply to `FIRST_RECENT_ENTRY`, ``stats`` that to collStats, ``status`` that to
    serverStatus.
    """
    found = recent["cursor"]["firstBatch"]
    return LogWindow(
        oldest,
        newest,
        int(stats["size"]),
        int(stats.get("maxSize", 0)) or None,
        recent_bytes=min(stats["count"], RECENT_ENTRIES) * float(stats.get("avgObjSize", 0)),
        recent_since=float(found[0]["ts"].time) if found else oldest,
        least_seconds=float(status.get("oplogTruncation", {}).get("oplogMinRetentionHours", 0)) * 3600,
    )
