"""Open archived files: local ones, and those in object stores, through the same port as histories."""

import errno
import os
from collections import OrderedDict
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol, Self

from tailrace.errors import UsageError
from tailrace.lake.storage.store_options import StoreOptions, store_options
from tailrace.places import is_object_store

if TYPE_CHECKING:
    from tailrace.lake.storage.object_store import ObjectStore

_LEAST_BYTES: Final = 1 << 20
"""What a request reads at least: its answer takes longer to begin than that much takes to arrive."""
_KEPT: Final = 4
"""A search looks at a few places in turn."""


class StoredPath(str):
    """The URL of a file in an object store; the options of the store are sent to executors with it."""

    __slots__ = ("options",)
    options: Mapping[str, str]

    def __new__(cls, url: str, options: Mapping[str, str]) -> Self:
        made = super().__new__(cls, url)
        made.options = options
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredPath, (str(self), self.options)

    def beside(self, url: str) -> "StoredPath":
        """Another file of the same store."""
        return StoredPath(url, self.options)

    @property
    def name(self) -> str:
        """Its name in its bucket."""
        return self.partition("://")[2].partition("/")[2]

    @property
    def store(self) -> "ObjectStore":
        scheme, _, rest = self.partition("://")
        return _bucket(f"{scheme}://{rest.partition('/')[0]}", frozenset(self.options.items()))


def archived_path(path: str, options: Mapping[str, str] | None = None) -> str:
    """The path of an archived file or folder; ``options`` are those of an object store it may be in."""
    if not is_object_store(path):
        return path
    return StoredPath(path.rstrip("/"), store_options() if options is None else options)


class RandomFile(Protocol):
    """A file whose parts are read in any order."""

    def pread(self, size: int, position: int) -> bytes:
        """Return the bytes at a position, fewer at the end of the file."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class _LocalFile:
    def __init__(self, path: str) -> None:
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by `__exit__`
        self._descriptor = self._file.fileno()

    def pread(self, size: int, position: int) -> bytes:
        return os.pread(self._descriptor, size, position)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


class _StoredFile:
    """A file in an object store; parts that were read last are kept."""

    def __init__(self, path: StoredPath) -> None:
        self._store = path.store
        self._name = path.name
        self._size = file_size(path)
        self._place = 0
        self._parts: OrderedDict[int, bytes] = OrderedDict()

    def pread(self, size: int, position: int) -> bytes:
        size = min(size, self._size - position)
        if size <= 0:
            return b""
        for start, part in reversed(self._parts.items()):
            if start <= position and position + size <= start + len(part):
                return part[position - start : position - start + size]
        part = self._fetched(position, max(size, _LEAST_BYTES))
        if size >= _LEAST_BYTES:
            return part
        self._parts[position] = part
        if len(self._parts) > _KEPT:
            self._parts.popitem(last=False)
        return part[:size]

    def read(self, size: int = -1) -> bytes:
        """The next bytes, as those of a file that is read from its beginning."""
        found = self.pread(self._size if size < 0 else size, self._place)
        self._place += len(found)
        return found

    def _fetched(self, start: int, size: int) -> bytes:
        try:
            return self._store.read_range(self._name, start, min(start + size, self._size))
        except FileNotFoundError:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), self._name) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.clear()


def open_random(path: str) -> RandomFile:
    """Open a file to read parts of it; a context manager closes it."""
    return _StoredFile(path) if isinstance(path, StoredPath) else _LocalFile(path)


def open_sequential(path: str) -> BinaryIO:
    """Open a file to read it from its beginning."""
    return _StoredFile(path) if isinstance(path, StoredPath) else open(path, "rb")  # type: ignore[return-value]


def file_size(path: str) -> int:
    if not isinstance(path, StoredPath):
        return os.path.getsize(path)
    found = path.store.head(path.name)
    if found is None:
        raise UsageError(f"there is no file or folder {path}")
    return found.size


def stored_files(path: StoredPath) -> list[StoredPath]:
    """The file at a path, or the files of the folder; `UsageError` if there are none."""
    if path.name and path.store.head(path.name) is not None:
        return [path]
    root = path.removesuffix(path.name)
    found = [path.beside(root + file.name) for file in path.store.list(path.name) if file.size]
    if not found:
        raise UsageError(f"there is no file or folder {path}")
    return sorted(found)


@lru_cache(maxsize=16)
def _bucket(url: str, options: frozenset[tuple[str, str]]) -> "ObjectStore":
    from tailrace.lake.storage.object_store import ObjectStore  # its package is optional

    return ObjectStore(url, StoreOptions(options))
