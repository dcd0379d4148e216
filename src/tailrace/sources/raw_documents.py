"""Split bytes into the BSON documents that follow each other in them."""

from tailrace.bson import raw as rawbson
from tailrace.errors import BsonError

_read_int32 = rawbson.INT32_LE.unpack_from


def split_documents(buffer: bytes) -> list[bytes]:
    r"""Return the documents of a buffer that contains whole ones only.

    >>> split_documents(rawbson.EMPTY * 2)
    [b'\x05\x00\x00\x00\x00', b'\x05\x00\x00\x00\x00']
    """
    documents, end = whole_documents(buffer)
    if end != len(buffer):
        raise BsonError("a reply of the source breaks off inside a document")
    return documents


def whole_documents(buffer: bytes) -> tuple[list[bytes], int]:
    """Return the documents at the beginning of a buffer, and where the first one begins that is not whole."""
    documents: list[bytes] = []
    keep = documents.append
    read = _read_int32
    position, end = 0, len(buffer)
    last = end - 4
    while position <= last:
        (length,) = read(buffer, position)
        stop = position + length
        if length < 5 or stop > end:
            break
        keep(buffer[position:stop])
        position = stop
    return documents, position
