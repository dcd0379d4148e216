"""Write lines to standard output, to a file or to a folder of files; always as UTF-8."""

import os
import sys
from collections.abc import Iterable
from typing import BinaryIO, Final

from tailrace.bson.extjson import dumps_canonical
from tailrace.cli.failures import STANDARD_OUTPUT, writing_to
from tailrace.errors import UsageError

FILE_BYTES: Final = 256 << 20
"""A file of a folder that has this many bytes is followed by another one."""


class EventLines:
    """Write events as lines of canonical Extended JSON; the path ``-`` is standard output.

    A context manager.
    """

    def __init__(self, path: str) -> None:
        self._is_ours = path != "-"
        self._name = path if self._is_ours else STANDARD_OUTPUT
        self.written = 0
        """Bytes so far."""
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
        """Write text that already consists of lines."""
        with writing_to(self._name):
            self._file.write(text)
        self.written += len(text)

    def write(self, events: Iterable[bytes]) -> None:
        """Write events; if one cannot be written, those before it are."""
        lines: list[str] = []
        try:
            for event in events:
                lines.append(dumps_canonical(event))  # noqa: PERF401 - an error leaves the lines before it
        finally:
            lines.append("")
            self.write_lines("\n".join(lines).encode())


def names_folder(out: str) -> bool:
    """Whether an output is a folder: it exists as one, or its name ends with a slash."""
    return out.endswith(("/", os.sep)) or os.path.isdir(out)


class EventFolder:
    """Write events to the files of a folder: ``part-00000.jsonl`` and so on.

    Concatenated, the files are the whole output. The folder is created if it is missing, and has to be
    empty. A context manager.
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
        """Write text that already consists of lines."""
        self._start_file_if_full()
        self._file.write_lines(text)

    def write(self, events: Iterable[bytes]) -> None:
        """Write events; if one cannot be written, those before it are."""
        self._start_file_if_full()
        self._file.write(events)

    def _start_file_if_full(self) -> None:
        if self._file.written >= self._file_bytes:
            self._file.__exit__()
            self._file = self._next_file()

    def _next_file(self) -> EventLines:
        name = os.path.join(self._path, f"part-{self._count:05d}.jsonl")
        self._count += 1
        return EventLines(name)


def print_line(text: str) -> None:
    file = _standard_output()
    with writing_to(STANDARD_OUTPUT):
        file.write(f"{text}\n".encode())


def _standard_output() -> BinaryIO:
    if sys.stdout is None:  # the process was started with its output closed
        raise UsageError("standard output is closed, so nothing can be printed; redirect it to a file")
    return sys.stdout.buffer
