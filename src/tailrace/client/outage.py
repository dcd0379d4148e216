"""How long to wait for a server that does not answer."""

import time
from typing import Final

_SHORTEST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0


class Outage:
    """Decides when to try again, and when to stop trying."""

    def __init__(self, most_seconds: float | None) -> None:
        """``most_seconds`` is the longest outage; None for any."""
        self._most_seconds = most_seconds
        self._since: float | None = None
        self._pause = _SHORTEST_PAUSE

    def end(self) -> None:
        """The server has answered."""
        self._since, self._pause = None, _SHORTEST_PAUSE

    def next_pause(self) -> float | None:
        """Seconds to wait before the next attempt; None to stop trying."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
        if self._most_seconds is not None and now - self._since >= self._most_seconds:
            return None
        pause, self._pause = self._pause, min(self._pause * 2, _LONGEST_PAUSE)
        return pause
