"""Lines to standard output or to a file, as UTF-8 whatever the locale says."""

import sys
from collections.abc import Iterable
from typing import BinaryIO

from tailrace.bson.extjson import dumps_canonical
from tailrace.cli.failures import STANDARD_OUTPUT, writing_to
from tailrace.errors import UsageError


class EventLines:
    """Where events are written, as canonical Extended JSON; ``-`` is standard output. A context manager."""

    def __init__(self, path: str) -> None:
        self._is_ours = path != "-"
        self._name = path if self._is_ours else STANDARD_OUTPUT
        self.written = 0
        """how many bytes"""
        try:
            # closed in __exit__
            self._file: BinaryIO = open(path, "wb") if self._is_ours else _standard_output()  # noqa: SIM115
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from None

    def __enter__(self) -> "EventLines":
        return self

    def __exit__(self, *_: object) -> None:
        with writing_to(self._name):
            if self._is_ours:
                self._file.close()
            else:
                self._file.flush()

    def write_lines(self, text: bytes) -> None:
        """Write lines that were made elsewhere."""
        with writing_to(self._name):
            self._file.write(text)
        self.written += len(text)

    def write(self, events: Iterable[bytes]) -> None:
        """Write events; those before one that cannot be written are written all the same."""
        lines: list[str] = []
        try:
            for event in events:
                lines.append(dumps_canonical(event))  # noqa: PERF401 - an error leaves the lines before it
        finally:
            lines.append("")
            self.write_lines("\n".join(lines).encode())


def print_line(text: str) -> None:
    """Write one line to standard output."""
    file = _standard_output()
    with writing_to(STANDARD_OUTPUT):
        file.write(f"{text}\n".encode())


def _standard_output() -> BinaryIO:
    if sys.stdout is None:  # the process was started with its output closed
        raise UsageError("standard output is closed, and it is where the output was to go")
    return sys.stdout.buffer
