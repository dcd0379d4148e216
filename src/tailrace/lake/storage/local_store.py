"""A history in a local folder, or in one that several machines share and that knows hard links.

A file gets its name by link(2), which fails if there is one of that name; its content is on disk before.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

import pyarrow as pa

from tailrace.lake.storage.log_store import LogStore, NewFile, StoredFile

_POLL_SECONDS: Final = 0.003


class LocalStore(LogStore):
    """The files of one folder; only this user may read those that are created."""

    poll_seconds = _POLL_SECONDS
    checkpoint_seconds = 0.0
    cold_bytes = 1 << 30
    delta_options = None

    def __init__(self, folder: str) -> None:
        self.place = folder
        self._folder = Path(folder)

    def prepare(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def create(self, name: str, content: bytes) -> bool:
        path = self._folder / name
        temporary = _temporary(self._folder, path.name)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        try:
            with open(temporary, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.link(temporary, path)
        except FileExistsError:
            return False
        finally:
            temporary.unlink(missing_ok=True)
        _sync(path.parent)
        return True

    def replace(self, name: str, content: bytes) -> None:
        path = self._folder / name
        temporary = _temporary(self._folder, path.name)
        try:
            temporary.write_bytes(content)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    def new_file(self, name: str, *, durable: bool = True) -> NewFile:
        return _NewLocalFile(self._folder, name, durable=durable)

    def read(self, name: str) -> bytes:
        return (self._folder / name).read_bytes()

    def open(self, name: str, size: int | None = None, *, mapped: bool = True) -> pa.NativeFile:  # noqa: ARG002
        path = os.path.join(self.place, name)
        return pa.memory_map(path) if mapped else pa.OSFile(path)

    def head(self, name: str) -> StoredFile | None:
        try:
            found = os.stat(os.path.join(self.place, name))
        except FileNotFoundError:
            return None
        return _stored(name, found)

    def list(self, folder: str = "") -> Iterator[StoredFile]:
        prefix = f"{folder}/" if folder else ""
        with suppress(FileNotFoundError), os.scandir(os.path.join(self.place, folder)) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # another process deletes it
                    if entry.is_file(follow_symlinks=False):
                        yield _stored(prefix + entry.name, entry.stat())

    def delete(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)

    def settle(self) -> None:
        _sync(self._folder)


class _NewLocalFile(NewFile):
    def __init__(self, folder: Path, name: str, *, durable: bool) -> None:
        self._folder = folder
        self._durable = durable
        self._temporary = _temporary(folder, Path(name).name)
        self.content = open(self._temporary, "x+b")  # noqa: SIM115 - closed by `discard`

    def place(self, name: str) -> bool:
        self.content.flush()
        if self._durable:
            os.fsync(self.content.fileno())
        path = self._folder / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        try:
            os.link(self._temporary, path)
        except FileExistsError:
            return False
        return True

    def discard(self) -> None:
        self.content.close()
        self._temporary.unlink(missing_ok=True)


def _temporary(folder: Path, name: str) -> Path:
    """Two attempts of one task may run at once, on different machines."""
    return folder / f".{name}.{uuid4().hex}.tmp"


def _stored(name: str, found: os.stat_result) -> StoredFile:
    return StoredFile(name, found.st_size, found.st_mtime, f"{found.st_mtime_ns} {found.st_size}")


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
