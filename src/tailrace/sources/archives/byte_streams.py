"""Read files as streams of bytes, gzip or not.

A stream is read in pieces. What is before a damaged place is always returned first; the call after that
raises `DamagedInputError`. Offsets count uncompressed bytes: a reader of the documents cannot use an offset
in the gzip file.
"""

import re
import zlib
from typing import BinaryIO, Final, Protocol

from tailrace.errors import DamagedInputError

PIECE: Final = 4 * 1024 * 1024
_COMPRESSED_PIECE: Final = 256 * 1024
_GZIP_MAGIC: Final = b"\x1f\x8b"
# A BSON document of a certain length begins with the bytes of a gzip header. But in BSON a type byte and a
# field name follow the length.
_BSON_AFTER_LENGTH: Final = re.compile(rb"[\x01-\x13][A-Za-z_$][A-Za-z0-9_$]*\0")


class ByteStream(Protocol):
    """The uncompressed bytes of one file, in order."""

    @property
    def consumed(self) -> int:
        """Bytes read from the file on disk so far."""

    def read(self) -> bytes:
        """Return the next piece; empty at the end."""


def open_stream(file: BinaryIO, path: str) -> ByteStream:
    """Return the bytes of a file that was just opened, uncompressed if its content is gzip.

    The content decides, not the name alone: `mongodump --gzip` writes a compressed `oplog.bson`.
    """
    first, failure = _read(file, _COMPRESSED_PIECE)
    if failure is not None:
        raise DamagedInputError(path, 0, failure)
    if path.lower().endswith(".gz") or looks_like_gzip(first):
        return _GzipStream(file, path, first)
    return _PlainStream(file, path, first)


def looks_like_gzip(first: bytes) -> bool:
    """Return whether a file that begins with these bytes is gzip.

    >>> looks_like_gzip(bytes.fromhex("1f8b0800")), looks_like_gzip(bytes.fromhex("1f8b0800 026f7000"))
    (True, False)
    """
    return first.startswith(_GZIP_MAGIC) and not _BSON_AFTER_LENGTH.match(first, 4)


def _read(file: BinaryIO, size: int) -> tuple[bytes, str | None]:
    """Return the next bytes of a file on disk, or why they cannot be read."""
    try:
        return file.read(size), None
    except OSError as error:
        return b"", f"it cannot be read: {error.strerror}"


class _PlainStream:
    def __init__(self, file: BinaryIO, path: str, first: bytes) -> None:
        self._file = file
        self._path = path
        self._first = first
        self.consumed = 0

    def read(self) -> bytes:
        piece, self._first = self._first, b""
        if not piece:
            piece, failure = _read(self._file, PIECE)
            if failure is not None:
                raise DamagedInputError(self._path, self.consumed, failure)
        self.consumed += len(piece)
        return piece


class _GzipStream:
    """One or more gzip members, uncompressed with bounded memory."""

    def __init__(self, file: BinaryIO, path: str, first: bytes) -> None:
        self._file = file
        self._path = path
        self._input = first
        self._unpacker = zlib.decompressobj(wbits=31)
        self._produced = 0
        self._failure: str | None = None
        self.consumed = len(first)

    def read(self) -> bytes:
        while self._failure is None:
            if self._unpacker.eof and not self._next_member():
                return b""
            at_end = not self._input and not self._refill()
            unpacked = self._unpack()
            if unpacked:
                self._produced += len(unpacked)
                return unpacked
            if at_end and not self._unpacker.eof:
                self._fail("the gzip stream ends in the middle")
        raise DamagedInputError(self._path, self._produced, self._failure)

    def _refill(self) -> bool:
        self._input, failure = _read(self._file, _COMPRESSED_PIECE)
        if failure is not None:
            self._fail(failure)
        self.consumed += len(self._input)
        return bool(self._input)

    def _unpack(self) -> bytes:
        # zlib drops its output if it finds an error in the same call; the copy made before the call processes
        # that input again, byte by byte, up to the error.
        before = self._unpacker.copy()
        try:
            unpacked = self._unpacker.decompress(self._input, PIECE)
        except zlib.error as error:
            self._fail(f"the gzip stream is corrupt: {_reason(error)}")
            return _up_to_the_error(before, self._input)
        self._input = self._unpacker.unconsumed_tail
        return unpacked

    def _fail(self, reason: str) -> None:
        if self._failure is None:
            self._failure = f"{reason} (the offset counts uncompressed bytes)"

    def _next_member(self) -> bool:
        """Return whether another member follows; tools pad the last one with zeros."""
        self._input = self._unpacker.unused_data.lstrip(b"\0")
        while not self._input:
            if not self._refill():
                return False
            self._input = self._input.lstrip(b"\0")
        self._unpacker = zlib.decompressobj(wbits=31)
        return True


def _up_to_the_error(unpacker: "zlib._Decompress", packed: bytes) -> bytes:
    unpacked = bytearray()
    try:
        for index in range(len(packed)):
            unpacked += unpacker.decompress(packed[index : index + 1])
    except zlib.error:
        pass
    return bytes(unpacked)


def _reason(error: zlib.error) -> str:
    # "Error -3 while decompressing data: invalid distance too far back"
    return str(error).rpartition(": ")[2]
