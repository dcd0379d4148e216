"""How long a position stays in a log of limited size: the oplog, or a history with a limit.

>>> window = LogWindow(oldest=1000, newest=1100, bytes=50, limit=200)
>>> window.seconds_left(position=1060, now=1100)  # 0.5 bytes a second fill it in 400 seconds
360.0
>>> window.seconds_left(position=900, now=1100)
0.0
"""

from dataclasses import dataclass


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

    @property
    def seconds(self) -> float:
        """From the oldest entry to the newest."""
        return max(self.newest - self.oldest, 0.0)

    def seconds_left(self, position: float, now: float) -> float | None:
        """The time until a position is removed, if as much is written as since the oldest entry.

        None if it never is. 0 if it was removed already.
        """
        if position < (self.oldest if self.complete_after is None else self.complete_after):
            return 0.0
        age = now - position
        limits = []
        rate = self.bytes / max(now - self.oldest, 1.0)
        if self.limit is not None and rate > 0:
            limits.append(self.limit / rate)
        if self.keep_seconds is not None:
            limits.append(self.keep_seconds)
        return max(min(limits) - age, 0.0) if limits else None
