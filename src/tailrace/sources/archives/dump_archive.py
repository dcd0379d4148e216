"""Read the oplog in a file that `mongodump --archive` wrote, which has all collections of a dump.

The file is a sequence of BSON documents and of terminators, four bytes of ones::

    magic number, header, a document for each collection, terminator,
    segments: {db, collection, EOF: false}, some documents of that collection, terminator
    and ends: {db, collection, EOF: true, CRC: checksum of its documents}, terminator

Segments of several collections alternate. The oplog is in `oplog`, without a database, if it was dumped with
``--oplog``; else in `local.oplog.rs`. An archive that is not complete is damaged, as a file that is cut off.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import decode
from tailrace.errors import BsonError, DamagedInputError, UsageError
from tailrace.sources.archives.byte_streams import ByteStream
from tailrace.sources.archives.crc64 import Crc64Check

MAGIC: Final = bytes.fromhex("6de29981")
_OPLOGS: Final = (("", "oplog"), ("local", "oplog.rs"))
_read_int32 = rawbson.INT32_LE.unpack_from


class _Header(NamedTuple):
    """What precedes a segment, or ends a collection."""

    is_oplog: bool
    is_end: bool
    checksum: int


def oplog_documents(path: str, stream: ByteStream, start: bytes) -> Iterator[tuple[int, bytes]]:
    """Return the entries of the oplog with their offsets; ``start`` are the first bytes.

    Raises `UsageError` if the archive has no oplog, `DamagedInputError` after the entries before a damaged
    place.
    """
    parts = _parts(path, stream, start)
    for _, document in parts:  # what the archive says of the dump and of its collections
        if not document:
            break
    check = Crc64Check()
    has_oplog = False
    for offset, document in parts:
        header = _header(path, offset, document)
        has_oplog = has_oplog or header.is_oplog
        for place, found in parts:
            if not found:
                break
            if header.is_end:
                raise DamagedInputError(path, place, "a document follows the end of its collection")
            if header.is_oplog:
                check.add(found)
                yield place, found
        if header.is_oplog and header.is_end:
            if not check.ends_with(header.checksum):
                reason = "the oplog that ends there does not have the checksum that mongodump computed"
                raise DamagedInputError(path, offset, reason)
            return
    if has_oplog:
        raise DamagedInputError(path, stream.consumed, "the archive ends before its oplog does")
    raise UsageError(
        f"{path} was written by mongodump --archive without its oplog; add --oplog, or dump the collection "
        "oplog.rs of the database local"
    )


def _header(path: str, offset: int, document: bytes) -> _Header:
    try:
        fields = decode(document)
        name = fields["db"], fields["collection"]
        return _Header(name in _OPLOGS, bool(fields["EOF"]), int(fields["CRC"]))
    except (BsonError, KeyError, TypeError, ValueError):
        raise DamagedInputError(path, offset, "the header of a collection was expected there") from None


def _parts(path: str, stream: ByteStream, buffer: bytes) -> Iterator[tuple[int, bytes]]:
    """Return the documents after the magic number with their offsets; a terminator is an empty one."""
    base, position = 0, len(MAGIC)  # of the buffer's first byte, and in the buffer
    while True:
        end = len(buffer)
        while end - position >= 4:
            length: int = _read_int32(buffer, position)[0]
            if length == -1:
                yield base + position, b""
                position += 4
                continue
            stop = position + length
            if not 5 <= length <= rawbson.MAX_INTERNAL_SIZE:
                raise DamagedInputError(path, base + position, f"impossible document length {length}")
            if stop > end:
                break
            if buffer[stop - 1]:
                raise DamagedInputError(path, base + position, "a document does not end in a NUL")
            yield base + position, buffer[position:stop]
            position = stop
        base, buffer = base + position, buffer[position:]
        position = 0
        piece = stream.read()
        if not piece:
            if buffer:
                raise DamagedInputError(path, base, "the file ends in the middle of a document")
            return
        buffer += piece
