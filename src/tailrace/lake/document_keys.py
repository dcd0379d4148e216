"""Document keys as canonical Extended JSON, quickly where the key is one `_id` of a usual type."""

from collections.abc import Callable
from typing import Final

from tailrace.bson import raw as rawbson
from tailrace.bson.extjson import dumps_canonical
from tailrace.errors import BsonError

_read_int32 = rawbson.INT32_LE.unpack_from
_read_int64 = rawbson.INT64_LE.unpack_from


def key_text(key: bytes | None) -> str | None:
    """The text of a document key; None if there is no key, or it is damaged.

    >>> key_text(rawbson.document(rawbson.element(rawbson.INT32, b"_id", bytes(4))))
    '{"_id": {"$numberInt": "0"}}'
    """
    if key is None:
        return None
    write = _SINGLE_IDS.get((key[4:9], len(key)))
    if write is not None:
        return write(key)
    try:
        return dumps_canonical(key)
    except BsonError:
        return None  # a key is copied from the oplog unread; the event still has its bytes


def id_text(document: bytes) -> str | None:
    """The text of the `_id` of a document, as that of its key; None if it has none, or it is damaged.

    >>> id_text(rawbson.document(rawbson.element(rawbson.INT32, b"_id", bytes(4))))
    '{"_id": {"$numberInt": "0"}}'
    """
    found = rawbson.find(document, b"_id")
    if found is None:
        return None
    kind, name, start, end = found
    return key_text(rawbson.document(rawbson.element(kind, name, document[start:end])))


_SINGLE_IDS: Final[dict[tuple[bytes, int], Callable[[bytes], str]]] = {
    (b"\x07_id\0", 22): lambda key: f'{{"_id": {{"$oid": "{key[9:21].hex()}"}}}}',
    (b"\x10_id\0", 14): lambda key: f'{{"_id": {{"$numberInt": "{_read_int32(key, 9)[0]}"}}}}',
    (b"\x12_id\0", 18): lambda key: f'{{"_id": {{"$numberLong": "{_read_int64(key, 9)[0]}"}}}}',
}
"""By the type and name of the first field and the size of the whole key, which leaves no room for a second"""
