"""Read archived oplogs, files or folders of files, as one sequence of raw entries.

The entries of one oplog strictly ascend in `ts`, over all its files. An entry out of order, or a document
that is no entry, is damage like a truncated file: the entries before it are yielded, then `DamagedInputError`
names the file and the byte.
"""

import os
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from tailrace.errors import DamagedInputError, UsageError
from tailrace.sources.archives.documents import read_documents
from tailrace.sources.archives.entries import EntryOrder, entry_time, widened
from tailrace.sources.archives.opening import StoredPath

AnyPath = TypeVar("AnyPath", Path, StoredPath)
_NOT_OPLOGS: Final = (".metadata.json", ".metadata.json.gz")
_DUMP_HEADERS: Final = frozenset({"prelude.json", "prelude.json.gz"})


@dataclass(frozen=True, slots=True)
class EntryBatch:
    """Entries that follow each other in one file."""

    path: str
    entries: list[bytes]
    offsets: list[int]
    """Where each entry begins in its file, in uncompressed bytes."""
    last_time: int
    """`ts` of the last entry."""


class ArchivedOplog:
    """One oplog in files. The files are given in order; a folder means the files in it."""

    def __init__(self, paths: Sequence[str]) -> None:
        try:
            self.files = [file for path in paths for file in _files(path)]
            self.size = sum(file.stat().st_size for file in self.files)
        except OSError as error:
            raise UsageError(f"{error.filename} cannot be read: {error.strerror}") from None
        self.consumed = 0
        """Bytes on disk that were read so far."""

    def batches(self) -> Generator[EntryBatch, None, None]:
        """Return the entries from the beginning, at most a few megabytes at a time."""
        order = EntryOrder()
        finished = 0
        for file in self.files:
            path = str(file)
            for batch in read_documents(path, is_oplog=True):
                self.consumed = finished + batch.consumed
                count, damage = order.leading(batch.documents)
                entries = batch.documents[:count]
                if batch.from_json:
                    entries = [widened(raw) for raw in entries]
                if entries:
                    yield EntryBatch(path, entries, batch.offsets[:count], order.last_time)
                if damage is not None:
                    raise DamagedInputError(path, batch.offsets[count], damage)
            finished = self.consumed


def _files(name: str) -> list[Path]:
    if not name:
        raise UsageError("the path of an oplog is empty")
    path = Path(name)
    if not path.exists():
        raise UsageError(f"there is no file or folder {path}")
    if not path.is_dir():
        return [_readable(path)]
    files = sorted(file for file in path.iterdir() if file.is_file() and may_hold_entries(file.name))
    if not files:
        raise UsageError(f"the folder {path} holds no oplog files")
    return in_time_order([_readable(file) for file in files])


def _readable(path: Path) -> Path:
    if not os.access(path, os.R_OK):
        raise UsageError(f"{path} may not be read by this user")
    return path


def may_hold_entries(name: str) -> bool:
    return not (name.startswith(".") or name in _DUMP_HEADERS or name.endswith(_NOT_OPLOGS))


def in_time_order(files: list[AnyPath]) -> list[AnyPath]:
    """Sort by first entries if every file that is not empty begins with one; else leave the order by name."""
    by_time = []
    for file in files:
        try:
            with closing(read_documents(os.fspath(file), is_oplog=True)) as batches:
                for batch in batches:
                    by_time.append((entry_time(batch.documents[0]), file))
                    break
        except (DamagedInputError, ValueError):
            return files
    return [file for _, file in sorted(by_time)]
