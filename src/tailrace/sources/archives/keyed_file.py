"""Find documents of a file by key, without holding the file in memory.

Keys are bytes. A BSON file whose documents ascend by key is searched itself. Any other (gzip, Extended JSON,
another order) is sorted once into a temporary file, in runs of bounded size that are then merged. Memory
holds the key and the offset of one document in every block of 64 KiB, and the few blocks used last.
"""

import heapq
import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import lru_cache
from operator import itemgetter
from tempfile import TemporaryFile
from typing import IO, Final, TypeAlias

from tailrace.errors import BsonError, CommandError, DamagedInputError
from tailrace.sources.archives.byte_streams import looks_like_gzip
from tailrace.sources.archives.documents import known_suffix, read_documents
from tailrace.sources.archives.opening import StoredPath
from tailrace.sources.raw_documents import whole_documents

KeyFunction: TypeAlias = Callable[[bytes], bytes]
"""Returns the key of a document; raises `ValueError` with the reason if it has none."""
_Keyed: TypeAlias = tuple[bytes, bytes]

_BLOCK: Final = 64 * 1024
_RUN: Final = 64 * 1024 * 1024
_CACHED_BLOCKS: Final = 64
_READ: Final = 256 * 1024


class KeyedFile:
    """The documents of one file by key; the file must not change while this is open."""

    def __init__(self, path: str, key: KeyFunction) -> None:
        self._key = key
        self._keys: list[bytes] = []
        self._offsets: list[int] = []
        if _is_plain_bson(path) and self._index(_keyed_documents(path, key)):
            self._file: IO[bytes] = open(path, "rb")  # noqa: SIM115 - open as long as the object lives
        else:
            self._file = _sorted_copy(path, key)
            size = os.fstat(self._file.fileno()).st_size
            self._index((key(raw), raw) for raw in _documents(self._file, 0, size))
        self._block = lru_cache(_CACHED_BLOCKS)(self._read_block)

    def close(self) -> None:
        """Close the file; a sorted copy is deleted."""
        self._file.close()

    def find(self, key: bytes) -> Iterator[bytes]:
        """Return all documents that have this key, in the order of the file."""
        index = max(bisect_left(self._keys, key) - 1, 0)
        while index < len(self._keys) and self._keys[index] <= key:
            yield from (raw for its_key, raw in self._block(index) if its_key == key)
            index += 1

    def _index(self, documents: Iterable[_Keyed]) -> bool:
        """Store where blocks begin; return False if the documents are not sorted."""
        last = b""
        offset = block_end = 0
        for key, raw in documents:
            if key < last:
                self._keys.clear()
                self._offsets.clear()
                return False
            if offset >= block_end:
                self._keys.append(key)
                self._offsets.append(offset)
                block_end = offset + _BLOCK
            last = key
            offset += len(raw)
        self._offsets.append(offset)
        return True

    def _read_block(self, index: int) -> list[_Keyed]:
        start, end = self._offsets[index : index + 2]
        return [(self._key(raw), raw) for raw in _documents(self._file, start, end)]


def _is_plain_bson(path: str) -> bool:
    # A file of another name is copied even if it is BSON: simple, and correct.
    if known_suffix(path) != ".bson" or path.lower().endswith(".gz") or isinstance(path, StoredPath):
        return False
    with open(path, "rb") as file:
        return not looks_like_gzip(file.read(64))


def _keyed_documents(path: str, key: KeyFunction) -> Iterator[_Keyed]:
    for batch in read_documents(path):
        for raw, offset in zip(batch.documents, batch.offsets, strict=True):
            try:
                yield key(raw), raw
            except (ValueError, CommandError) as error:
                raise DamagedInputError(path, offset, str(error)) from None


def _sorted_copy(path: str, key: KeyFunction) -> IO[bytes]:
    with ExitStack() as on_error:
        copy: IO[bytes] = on_error.enter_context(TemporaryFile())
        runs = _write_runs(copy, _runs(_keyed_documents(path, key)))
        if len(runs) > 1:
            merged: IO[bytes] = on_error.enter_context(TemporaryFile())
            pieces = [_documents(copy, start, end) for start, end in runs]
            merged.writelines(heapq.merge(*pieces, key=key))
            copy.close()
            copy = merged
        copy.flush()
        on_error.pop_all()
    return copy


def _write_runs(file: IO[bytes], sorted_runs: Iterable[list[_Keyed]]) -> list[tuple[int, int]]:
    """Write the runs; return where each begins and ends, joined if the next one continues it."""
    runs: list[tuple[int, int]] = []
    last = b""
    for run in sorted_runs:
        start = file.tell()
        file.writelines(raw for _, raw in run)
        if runs and last <= run[0][0]:
            start, _ = runs.pop()
        runs.append((start, file.tell()))
        last = run[-1][0]
    file.flush()
    return runs


def _runs(documents: Iterator[_Keyed]) -> Iterator[list[_Keyed]]:
    """Return sorted parts of the file, each small enough to be held in memory."""
    run: list[_Keyed] = []
    size = 0
    for keyed in documents:
        run.append(keyed)
        size += len(keyed[1])
        if size >= _RUN:
            yield sorted(run, key=itemgetter(0))
            run, size = [], 0
    if run:
        yield sorted(run, key=itemgetter(0))


def _documents(file: IO[bytes], start: int, end: int) -> Iterator[bytes]:
    """Return the documents between two offsets without moving the file's position."""
    descriptor = file.fileno()
    size = _READ
    while start < end:
        buffer = os.pread(descriptor, min(size, end - start), start)
        documents, position = whole_documents(buffer)
        yield from documents
        if not position:
            if len(buffer) < min(size, end - start):
                raise BsonError("a file of documents became shorter while it was read")
            size *= 2  # the next document is larger than what was read
        start += position
