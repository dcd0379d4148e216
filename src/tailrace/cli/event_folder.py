"""Events into a folder: files of lines, each full before the next begins."""

import os
from collections.abc import Iterable
from typing import Final

from tailrace.cli.output import EventLines
from tailrace.errors import UsageError

FILE_BYTES: Final = 256 << 20
"""A file that has this many bytes is followed by another one"""


def names_folder(out: str) -> bool:
    """Whether an output is a folder: there is one, or the name ends like one."""
    return out.endswith(("/", os.sep)) or os.path.isdir(out)


class EventFolder:
    """Where events are written: ``part-00000.jsonl`` and so on, one behind the other the whole output.

    The folder is made if it is not there, and has to be empty. A context manager.
    """

    def __init__(self, path: str, file_bytes: int = FILE_BYTES) -> None:
        try:
            os.makedirs(path, exist_ok=True)
            if os.listdir(path):
                raise UsageError(f"the folder {path} is not empty; name another one for the events")
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from None
        self._path = path
        self._file_bytes = file_bytes
        self._count = 0
        self._file = self._next_file()

    def __enter__(self) -> "EventFolder":
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.__exit__(*exception)

    def write_lines(self, text: bytes) -> None:
        """Write lines that were made elsewhere."""
        self._turn_over()
        self._file.write_lines(text)

    def write(self, events: Iterable[bytes]) -> None:
        """Write events; those before one that cannot be written are written all the same."""
        self._turn_over()
        self._file.write(events)

    def _turn_over(self) -> None:
        if self._file.written >= self._file_bytes:
            self._file.__exit__()
            self._file = self._next_file()

    def _next_file(self) -> EventLines:
        name = os.path.join(self._path, f"part-{self._count:05d}.jsonl")
        self._count += 1
        return EventLines(name)
