"""The wall clock, which tests may move, and the clock of cluster times, which order the oplog."""

import threading
import time
from typing import Final

from tailrace.errors import CommandError

MAX_DRIFT_SECONDS: Final = 31_536_000
"""How far ahead of the wall clock a client may push the cluster time: one year, as MongoDB's default."""
_CANNOT_ADVANCE: Final = 40482


class WallClock:
    """The time of day; tests move it instead of waiting.

    >>> clock = WallClock()
    >>> before = clock.milliseconds()
    >>> clock.advance(3600)
    >>> clock.milliseconds() - before >= 3_600_000
    True
    """

    def __init__(self) -> None:
        self._offset = 0.0

    def advance(self, seconds: float) -> None:
        """Move the clock."""
        self._offset += seconds

    def seconds(self) -> float:
        """Seconds since 1970."""
        return time.time() + self._offset

    def milliseconds(self) -> int:
        """Milliseconds since 1970, as BSON dates count."""
        return int(self.seconds() * 1000)


class ClusterClock:
    """Returns cluster times: each later than all before, with seconds from the wall clock.

    Writers take ticks; a client's `$clusterTime` advances the clock in another thread. The stores of a
    sharded cluster share one clock, so that all their oplogs are in one order.
    """

    def __init__(self, wall: WallClock, last: int = 0) -> None:
        self.wall = wall
        self._last = last
        self._lock = threading.Lock()

    @property
    def now(self) -> int:
        """The newest cluster time that was returned or received."""
        return self._last

    def tick(self, count: int = 1) -> int:
        """The first of ``count`` consecutive new times."""
        second = int(self.wall.seconds()) << 32
        with self._lock:
            first = max(self._last, second) + 1
            self._last = first + count - 1
        return first

    def advance_to(self, heard: int) -> None:
        """Advance to a cluster time received from a client or another node; one too far ahead is refused."""
        if heard <= self._last:
            return
        if (heard >> 32) > self.wall.seconds() + MAX_DRIFT_SECONDS:
            raise CommandError(
                _CANNOT_ADVANCE,
                f"the cluster time {heard >> 32} is more than {MAX_DRIFT_SECONDS} seconds ahead of the clock",
            )
        self.continue_after(heard)

    def continue_after(self, last: int) -> None:
        """Return only times after ``last`` from now on, without a check; for times of existing entries."""
        with self._lock:
            self._last = max(self._last, last)
