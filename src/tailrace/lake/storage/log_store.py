"""The port between a history and the place it is stored in.

A history needs little of it: to create a file that nobody else has created, to read, to list, to delete.
Names are relative to the history, with slashes. A file never changes once it has its name, but for
`_delta_log/_last_checkpoint`, which names the newest checkpoint.

Errors: `FileNotFoundError` for a missing file; `StoreUnavailableError` if the store does not answer, where a
retry may help; `OSError` or `HistoryError` for what the store refuses.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import BinaryIO

import pyarrow as pa

from tailrace.places import history_place, is_object_store


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file, as the store lists it."""

    name: str
    size: int
    modified: float
    """Seconds since 1970, by the clock of the store"""
    tag: str
    """Differs if the content does"""


class NewFile(ABC):
    """A file that is written before it has its name."""

    content: BinaryIO
    """To write to, and to read back."""

    @abstractmethod
    def place(self, name: str) -> bool:
        """Give the file its name, with all its content at once; False if there is a file of that name.

        Then another name can be tried.
        """

    @abstractmethod
    def discard(self) -> None:
        """Forget the content, unless the file was given a name."""


class LogStore(ABC):
    """The files of one history."""

    place: str
    """The path or the URL of the history"""
    poll_seconds: float
    """The least pause between two looks for new files, for those who follow the history"""
    checkpoint_seconds: float
    """The least pause between two looks for a new checkpoint, if there was no new commit"""
    cold_bytes: int
    """How large files become that hold old rows"""

    @property
    @abstractmethod
    def delta_options(self) -> Mapping[str, str] | None:
        """What `deltalake` needs to open the table at `place`."""

    @abstractmethod
    def prepare(self) -> None:
        """Make a place for a new history."""

    @abstractmethod
    def create(self, name: str, content: bytes) -> bool:
        """Create a small file, with all its content at once; False if there is one with other content.

        It is durable when this returns.
        """

    @abstractmethod
    def replace(self, name: str, content: bytes) -> None:
        """Write a small file, with all its content at once, in the place of one that may be there."""

    @abstractmethod
    def new_file(self, name: str, *, durable: bool = True) -> NewFile:
        """A file of any size that is to be called ``name``. It is durable when it has its name."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """The whole content of a small file."""

    @abstractmethod
    def open(self, name: str, size: int | None = None, *, mapped: bool = True) -> pa.NativeFile:
        """Open a file for random access; ``size`` is its size, if that is known.

        With ``mapped`` its pages may be part of the memory of this process as long as it is open.
        """

    @abstractmethod
    def head(self, name: str) -> StoredFile | None:
        """What the store knows of a file; None if there is none."""

    @abstractmethod
    def list(self, folder: str = "") -> Iterator[StoredFile]:
        """The files of one folder, without those of its subfolders; none if there is no such folder."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a file; nothing happens if there is none."""

    @abstractmethod
    def settle(self) -> None:
        """Make the names of new files durable, before a commit refers to them."""

    def path_of(self, name: str) -> str:
        """The place of a file, for messages."""
        return f"{self.place}/{name}"


def open_store(place: str | PathLike[str], options: Mapping[str, str] | None = None) -> LogStore:
    """The store of the history at a place; `UsageError` for a scheme that is not supported.

    ``options`` are those of an object store (`store_options.py`), by default those of this process.
    """
    found = history_place(place)
    if is_object_store(found):
        from tailrace.lake.storage.object_store import ObjectStore  # its package is optional

        return ObjectStore(found, options)
    from tailrace.lake.storage.local_store import LocalStore

    return LocalStore(found)
