"""Events as lines of canonical Extended JSON, to standard output or a file."""

import sys
from collections.abc import Iterable
from typing import BinaryIO

from tailrace.bsonio.extjson import dumps_canonical
from tailrace.errors import UsageError


class EventLines:
    """Where events are written; ``-`` is standard output. A context manager."""

    def __init__(self, path: str) -> None:
        if path == "-" and sys.stdout is None:
            raise UsageError("standard output is closed; name a file to write to with --out")
        self._is_ours = path != "-"
        try:
            self._file: BinaryIO = open(path, "wb") if self._is_ours else sys.stdout.buffer  # noqa: SIM115
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from None

    def __enter__(self) -> "EventLines":
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_ours:
            self._file.close()
        else:
            self._file.flush()

    def write(self, events: Iterable[bytes]) -> None:
        """Write events; those before one that cannot be written are written all the same."""
        lines: list[str] = []
        try:
            for event in events:
                lines.append(dumps_canonical(event))  # noqa: PERF401 - an error leaves the lines before it
        finally:
            lines.append("")
            self._file.write("\n".join(lines).encode())
