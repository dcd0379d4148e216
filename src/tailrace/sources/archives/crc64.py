"""Check the CRC-64 of documents, as the archives of `mongodump` have it.

The standard library has this checksum only as that of xz files. So the bytes become such a file, without
being compressed, and its decoder compares: hundreds of megabytes a second. A loop over bytes checks ten.
"""

import lzma
import struct
import zlib
from typing import Final

_FLAGS: Final = b"\0\x04"
"""The checksum of each block is a CRC-64."""
_FILTER: Final = b"\x02\0\x21\x01\0\0\0\0"
"""The header of a block has twelve bytes, and one filter: LZMA2 with a dictionary of 4 KiB."""
_BEGINNING: Final = b"".join(
    (
        b"\xfd7zXZ\0",
        _FLAGS,
        struct.pack("<I", zlib.crc32(_FLAGS)),
        _FILTER,
        struct.pack("<I", zlib.crc32(_FILTER)),
    )
)
_FIRST_CHUNK: Final = 1
"""Stored as it is, with a new dictionary; later chunks keep it."""
_LATER_CHUNK: Final = 2
_CHUNK_BYTES: Final = 1 << 16
_CHUNK_HEADER: Final = struct.Struct(">BH")
_BLOCK_ALIGNMENT: Final = 4


class Crc64Check:
    """Compares the checksum of bytes that are added piece by piece.

    >>> check = Crc64Check()
    >>> check.add(b"1234"); check.add(b"56789")
    >>> check.ends_with(0x995DC9BBDF1939FA)
    True
    """

    def __init__(self) -> None:
        self._decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ)
        self._decoder.decompress(_BEGINNING)
        self._waiting = bytearray()
        self._kind = _FIRST_CHUNK
        self._written = 0

    def add(self, piece: bytes) -> None:
        self._waiting += piece
        while len(self._waiting) >= _CHUNK_BYTES:
            self._write_chunk()

    def ends_with(self, checksum: int) -> bool:
        """Return whether this is the checksum of all that was added; nothing can be added after that."""
        if self._waiting:
            self._write_chunk()
        end = b"\0"
        padding = bytes(-(self._written + len(end)) % _BLOCK_ALIGNMENT)
        try:
            self._decoder.decompress(end + padding + struct.pack("<Q", checksum % (1 << 64)))
        except lzma.LZMAError:
            return False
        return True

    def _write_chunk(self) -> None:
        chunk = bytes(self._waiting[:_CHUNK_BYTES])
        del self._waiting[:_CHUNK_BYTES]
        header = _CHUNK_HEADER.pack(self._kind, len(chunk) - 1)
        self._decoder.decompress(header + chunk)
        self._kind = _LATER_CHUNK
        self._written += len(header) + len(chunk)
