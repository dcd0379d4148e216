"""A file of records that do not fit into memory.

The file is open only while it is read or written, so that thousands of idle cursors need no file descriptors.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from struct import Struct
from typing import Final, NamedTuple

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.memory.budget import StageMemory
from tailrace.pacing import tick

_LENGTH: Final = Struct("<I")
_WRITTEN_AT_ONCE: Final = 256 * 1024
_READ_AT_ONCE: Final = 16 * 1024


class Part(NamedTuple):
    """Consecutive records of a file."""

    start: int
    end: int


class SpillFile:
    """Records, each with its length before it."""

    def __init__(self, memory: StageMemory) -> None:
        self._memory = memory
        self._path: str | None = None
        self._size = 0

    def write(self, records: Iterable[bytes]) -> Part:
        """Append records; returns where they are."""
        start = self._size
        pending: list[bytes] = []
        size = 0
        for record in records:
            pending += (_LENGTH.pack(len(record)), record)
            size += _LENGTH.size + len(record)
            if size >= _WRITTEN_AT_ONCE:
                self._append(b"".join(pending))
                pending, size = [], 0
                tick()
        if pending:
            self._append(b"".join(pending))
        return Part(start, self._size)

    def _append(self, data: bytes) -> None:
        if self._path is None:
            self._path = str(self._memory.folder.new_file())
            self._memory.opened[id(self)] = self
        try:
            with open(self._path, "ab", buffering=0) as file:
                view = memoryview(data)
                while view:
                    view = view[file.write(view) :]
        except OSError as error:
            reason = f"cannot store rows that do not fit into memory: {error.strerror}; free disk space"
            raise CommandError(ErrorCode.OutOfDiskSpace, reason) from None
        self._size += len(data)

    def read(self, part: Part) -> Iterator[bytes]:
        """The records of a part."""
        position, data, at = part.start, b"", 0
        while position < part.end:
            if len(data) - at < _LENGTH.size:
                data, at = self._bytes(position, min(_READ_AT_ONCE, part.end - position)), 0
            length = _LENGTH.unpack_from(data, at)[0]
            whole = _LENGTH.size + length
            if len(data) - at < whole:
                data = self._bytes(position, max(whole, min(_READ_AT_ONCE, part.end - position)))
                at = 0
            yield data[at + _LENGTH.size : at + whole]
            position += whole
            at += whole

    def _bytes(self, position: int, size: int) -> bytes:
        assert self._path is not None, "something was written before"
        with open(self._path, "rb", buffering=0) as file:
            return os.pread(file.fileno(), size, position)

    def close(self) -> None:
        """Remove the file."""
        path, self._path = self._path, None
        if path is not None:
            self._memory.opened.pop(id(self), None)
            with suppress(OSError):
                os.unlink(path)
