"""Checksums of a data file: no damaged bit is read as another value.

Parquet has a checksum for each page of values, which any reader can verify, but none for what describes the
pages: their headers, and the footer with the statistics by which row groups are skipped. So the footer
also holds a CRC-32 of each row group, and of itself:

::

    tailrace.checksums = "<of the footer> <end of group 0>:<checksum> <end of group 1>:<checksum> ..."

The first one is computed with zeros in its own place. Files of older releases have no such entry, and are
read without it.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tailrace.errors import HistoryError
from tailrace.lake.storage.log_store import LogStore

_KEY: Final = "tailrace.checksums"
_DIGITS: Final = 8
_UNKNOWN: Final = "0" * _DIGITS


class CheckedSink:
    """A file to write to, with a checksum of what was written since the last row group."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._checksum = 0
        self._groups: list[tuple[int, int]] = []

    def write(self, data: bytes) -> int:
        self._checksum = zlib.crc32(data, self._checksum)
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        self._file.flush()

    def end_group(self) -> None:
        """Note that all bytes of a row group are written."""
        self._groups.append((self._file.tell(), self._checksum))
        self._checksum = 0

    def entry(self) -> dict[str, str]:
        """The entry for the footer; its own checksum is not known yet."""
        return {_KEY: " ".join((_UNKNOWN, *(f"{end}:{checksum:08x}" for end, checksum in self._groups)))}

    def complete(self) -> None:
        """Put the footer's own checksum in its place, after the footer was written."""
        start = self._groups[-1][0]
        self._file.seek(start)
        footer = self._file.read()
        self._file.seek(start + footer.index(self.entry()[_KEY].encode()))
        self._file.write(f"{zlib.crc32(footer):08x}".encode())


class Checksums:
    """The checksums that a file holds."""

    def __init__(self, path: str, source: pa.NativeFile, entries: dict[bytes, bytes] | None) -> None:
        """Verify the footer; ``entries`` are those in it. Raise `HistoryError` if it is damaged."""
        self._path = path
        self._source = source
        self._groups: list[tuple[int, int]] = []
        text = (entries or {}).get(_KEY.encode())
        if text is None:
            return
        try:
            own, *groups = text.decode().split(" ")
            self._groups = [(int(end), int(checksum, 16)) for end, checksum in (g.split(":") for g in groups)]
            start = self._groups[-1][0]
            footer = bytes(self._bytes(start, source.size()))
            place = footer.index(text)
            zeroed = footer[:place] + _UNKNOWN.encode() + footer[place + _DIGITS :]
            is_whole = zlib.crc32(zeroed) == int(own, 16)
        except (ValueError, IndexError, OSError):
            is_whole = False
        if not is_whole:
            raise damaged(path, "its footer does not have its checksum")

    def verify(self, group: int) -> None:
        """Raise `HistoryError` if a row group is damaged."""
        if not self._groups:
            return
        start = self._groups[group - 1][0] if group else 0
        end, checksum = self._groups[group]
        if zlib.crc32(self._bytes(start, end)) != checksum:
            raise damaged(self._path, f"row group {group} does not have its checksum")

    def _bytes(self, start: int, end: int) -> memoryview:
        if not 0 <= start <= end:
            raise ValueError("a row group ends before it begins")
        self._source.seek(start)
        return memoryview(self._source.read_buffer(end - start))


def read_verified(
    store: LogStore,
    name: str,
    batch_rows: int,
    *,
    size: int | None = None,
    columns: Sequence[str] | None = None,
    dictionaries: Sequence[str] = (),
    groups: Callable[[pq.FileMetaData], Iterable[int]] = lambda metadata: range(metadata.num_row_groups),
) -> Iterator[pa.RecordBatch]:
    """The rows of some row groups of a file; each group is verified before its rows are returned.

    ``size`` is that of the file, if it is known. Columns of ``dictionaries`` have one. Raise `HistoryError`
    for a file that is damaged, and `FileNotFoundError` if there is none.
    """
    path = store.path_of(name)
    try:
        with store.open(name, size) as source, pq.ParquetFile(source, read_dictionary=dictionaries) as file:
            checksums = Checksums(path, source, file.metadata.metadata)
            for group in groups(file.metadata):
                checksums.verify(group)
                # Arrow's threads cost more than they gain for batches of this size: a fifth of the rate.
                yield from file.iter_batches(
                    batch_rows, row_groups=[group], columns=columns, use_threads=False
                )
    except (FileNotFoundError, HistoryError):
        raise
    except (pa.ArrowException, OSError, ValueError, LookupError) as error:
        raise damaged(path, error) from None


def damaged(path: str, reason: object) -> HistoryError:
    """The error of a file that is not as it was written."""
    return HistoryError(
        f"the file {path} of the history is damaged: {reason}; restore it, or begin a new history"
    )
