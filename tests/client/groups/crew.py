"""Worker processes that tests start, kill, stop and continue."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tailrace import ConsumerGroup

ROOT = Path(__file__).parents[3]
SECONDS = 60


class Crew:
    """Processes with one command line."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self.processes: list[subprocess.Popen[bytes]] = []
        self._ready: set[int] = set()

    def start(self) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen([sys.executable, *self._command], cwd=ROOT, stdout=subprocess.PIPE)
        self.processes.append(process)
        return process

    def kill(self, process: "subprocess.Popen[bytes]") -> None:
        self._end(process, signal.SIGKILL)

    def wait_ready(self, process: "subprocess.Popen[bytes]") -> None:
        """Wait for the line that a worker prints when it has joined, and SIGTERM ends it gracefully."""
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        self._ready.add(process.pid)

    def finish(self) -> list[int]:
        """End all of them gracefully; return their exit codes."""
        for process in self.processes:
            if process.pid not in self._ready:
                self.wait_ready(process)
        return [self._end(process, signal.SIGTERM) for process in list(self.processes)]

    def _end(self, process: "subprocess.Popen[bytes]", number: signal.Signals) -> int:
        self.processes.remove(process)
        process.send_signal(number)
        code = process.wait(SECONDS)
        assert process.stdout is not None
        process.stdout.close()
        return code


@contextmanager
def crew(*command: str) -> Iterator[Crew]:
    """A crew without workers; all of them are killed after the block."""
    workers = Crew(list(command))
    try:
        yield workers
    finally:
        for process in list(workers.processes):
            workers.kill(process)


def wait_until_done(target: Any, group: str, positions: Any = None) -> None:
    """Wait until the group has committed every event that was written so far."""
    deadline = time.monotonic() + SECONDS
    with ConsumerGroup(target, group, positions=positions) as watched:
        while (lag := watched.status().lag).events or not lag.is_all:
            assert time.monotonic() < deadline, watched.status()
            time.sleep(0.1)  # a poll with a deadline: the workers are other processes
