"""Time: the wall clock, which tests may move, and the cluster time that orders the oplog."""

import threading
import time
from typing import Final

from tailrace.errors import CommandError

MAX_DRIFT_SECONDS: Final = 31_536_000
"""How far ahead of the wall clock a client may push the cluster time: one year, as MongoDB's default."""
_CANNOT_ADVANCE: Final = 40482


class WallClock:
    """The time of day; moved forward or back by tests instead of waiting.

    >>> clock = WallClock()
    >>> before = clock.milliseconds()
    >>> clock.advance(3600)
    >>> clock.milliseconds() - before >= 3_600_000
    True
    """

    def __init__(self) -> None:
        self._offset = 0.0

    def advance(self, seconds: float) -> None:
        """Let that much time pass at once."""
        self._offset += seconds

    def seconds(self) -> float:
        """Seconds since 1970."""
        return time.time() + self._offset

    def milliseconds(self) -> int:
        """Milliseconds since 1970, as BSON dates count."""
        return int(self.seconds() * 1000)


class ClusterClock:
    """Hands out cluster times: each later than all before, seconds from the wall clock.

    Ticks are given out by writers; a client's `$clusterTime` pushes the clock forward in another thread. The
    stores of a sharded cluster share one clock, so that all their oplogs are in one order.
    """

    def __init__(self, wall: WallClock, last: int = 0) -> None:
        self.wall = wall
        self._last = last
        self._lock = threading.Lock()

    @property
    def now(self) -> int:
        """The newest cluster time given out or heard of."""
        return self._last

    def tick(self, count: int = 1) -> int:
        """The first of ``count`` consecutive new times."""
        second = int(self.wall.seconds()) << 32
        with self._lock:
            first = max(self._last, second) + 1
            self._last = first + count - 1
        return first

    def advance_to(self, heard: int) -> None:
        """Take over a cluster time from a client or another node; one too far ahead is refused."""
        if heard <= self._last:
            return
        if (heard >> 32) > self.wall.seconds() + MAX_DRIFT_SECONDS:
            raise CommandError(
                _CANNOT_ADVANCE,
                f"the cluster time {heard >> 32} is more than {MAX_DRIFT_SECONDS} seconds ahead of the clock",
            )
        self.continue_after(heard)

    def continue_after(self, last: int) -> None:
        """Give out only times later than ``last`` from now on: that of an entry which is there already."""
        with self._lock:
            self._last = max(self._last, last)
