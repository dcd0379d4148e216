"""Random access to an object by requests for ranges of its bytes."""

from collections.abc import Callable
from typing import Final

_TAIL_BYTES: Final = 256 << 10
"""What is read of the end at once: the footer of a large Parquet file, or all of a small one"""


class RangeFile:
    """A file for `pyarrow.PythonFile`.

    It keeps the end of the object and the last range that was read: a reader that verifies a row group reads
    all its bytes first, and then its columns from memory.
    """

    closed = False

    def __init__(self, fetch: Callable[[int, int], memoryview], size: int) -> None:
        """``fetch`` returns the bytes between two places."""
        self._fetch = fetch
        self._size = size
        self._place = 0
        self._tail: tuple[int, memoryview] | None = None
        self._last: tuple[int, memoryview] | None = None

    def size(self) -> int:
        return self._size

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = 0) -> int:
        self._place = offset + (0, self._place, self._size)[whence]
        return self._place

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        self._tail = self._last = None

    def read(self, count: int = -1) -> bytes:
        start = self._place
        end = self._size if count < 0 else min(start + count, self._size)
        if start >= end:
            return b""
        self._place = end
        return bytes(self._between(start, end))

    def _between(self, start: int, end: int) -> memoryview:
        for kept in (self._last, self._tail):
            if kept is not None and kept[0] <= start and end <= kept[0] + len(kept[1]):
                return kept[1][start - kept[0] : end - kept[0]]
        tail = max(self._size - _TAIL_BYTES, 0)
        if start >= tail:
            self._tail = (tail, self._fetch(tail, self._size))
            return self._tail[1][start - tail : end - tail]
        self._last = (start, self._fetch(start, end))
        return self._last[1]
