"""Documents that stand one behind the other, as the server's replies and `mongodump` files hold them."""

from collections.abc import Iterator
from typing import Any, cast

from pymongo.cursor import Cursor, RawBatchCursor

from tailrace.bson import raw as rawbson
from tailrace.errors import BsonError

_read_int32 = rawbson.INT32_LE.unpack_from


def split_documents(buffer: bytes) -> list[bytes]:
    r"""The documents of a buffer that holds nothing but whole ones.

    >>> split_documents(rawbson.EMPTY * 2)
    [b'\x05\x00\x00\x00\x00', b'\x05\x00\x00\x00\x00']
    """
    documents, rest = whole_documents(buffer)
    if rest != len(buffer):
        raise BsonError("a reply of the source breaks off inside a document")
    return documents


def whole_documents(buffer: bytes) -> tuple[list[bytes], int]:
    """The documents at the beginning of a buffer, and where the first one begins that is not whole."""
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


def raw_batches(cursor: Cursor[dict[str, Any]]) -> Iterator[bytes]:
    """What the cursor yields; PyMongo declares the type of a decoded document."""
    return cast("Iterator[bytes]", iter(cursor))


def documents_of(cursor: RawBatchCursor[dict[str, Any]]) -> Iterator[bytes]:
    """The documents of a cursor one by one; it is closed with the iterator."""
    with cursor:
        for batch in raw_batches(cursor):
            yield from split_documents(batch)
