"""Run the console script in a child process, as a shell does, or in this process, which is faster."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tailrace.cli.main import main


@dataclass(frozen=True)
class Outcome:
    code: int
    output: bytes
    error: str

    @property
    def lines(self) -> list[str]:
        return self.output.decode().splitlines()

    @property
    def sentence(self) -> str:
        """The one line on standard error after a failure."""
        lines = self.error.splitlines()
        assert len(lines) == 1, f"one sentence was expected on standard error, not {self.error!r}"
        assert lines[0].startswith("tailrace: ")
        assert "Traceback" not in lines[0]
        assert "internal error" not in lines[0]
        return lines[0].removeprefix("tailrace: ")


def tailrace(*arguments: str | Path, timeout: float = 60) -> Outcome:
    command = [sys.executable, "-m", "tailrace", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, check=False, timeout=timeout)
    return Outcome(done.returncode, done.stdout, done.stderr.decode())


class Here:
    """Run the console script in this process."""

    def __init__(self, capture: pytest.CaptureFixture[bytes]) -> None:
        self._capture = capture

    def __call__(self, *arguments: str | Path) -> Outcome:
        with _servers_are_quiet():
            code = main([str(argument) for argument in arguments])
        output, error = self._capture.readouterr()
        return Outcome(code, output, error.decode())


@contextmanager
def _servers_are_quiet() -> Iterator[None]:
    """Servers that run in this process log whenever they want; their lines are not the command's."""
    log = logging.getLogger("tailrace.server")
    log.propagate = False
    try:
        yield
    finally:
        log.propagate = True
