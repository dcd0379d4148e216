"""Start and stop the process of `watchers.py`."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Listening(Protocol):
    """A server on this machine."""

    @property
    def port(self) -> int: ...


class Watching:
    """Many open streams; the figures are set by `stop`."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.replies = 0
        self.used = 0.0
        """Share of a core that the process of the streams used."""
        self.arrivals: dict[int, list[float]] = {}
        if self._read() != "open":
            raise SystemExit("the streams could not be opened")

    def stop(self) -> None:
        """End the streams and read the figures."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        seen = json.loads(self._read())
        self.replies = seen["replies"]
        self.used = seen["used"]
        self.arrivals = {int(number): times for number, times in seen["arrivals"].items()}

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@contextmanager
def watching(server: Listening, streams: int, wait_ms: int) -> Iterator[Watching]:
    """Open streams on `bench.events` whose getMores wait ``wait_ms``; 0 is the server's default."""
    command = [sys.executable, "-m", "bench.watchers", str(server.port), str(streams), str(wait_ms)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Watching(process)
        finally:
            process.terminate()
