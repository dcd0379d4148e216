"""The `_id` of a document, and the key by which its record is found.

Every write and every look-up by `_id` needs these, so the usual case, a leading `_id` that is an ObjectId, a
number, a string or a UUID, is computed from a few bytes. All others take a general path to the same key.
"""

from collections.abc import Collection
from typing import Final

from tailrace.bson import keystring
from tailrace.bson import raw as rawbson
from tailrace.bson.keystring import layout
from tailrace.bson.keystring.numbers import append_int
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.store.indexes.collation_keys import collated
from tailrace.mongod.store.tables import fit_key
from tailrace.query.collation import Collation

_ID_IN_FRONT: Final = b"_id\0"
_VALUE: Final = 9
"""Offset of the value of a leading `_id`: after the length, the type and the name"""
_OBJECT_ID_END: Final = _VALUE + 12
_OBJECT_ID_KEY: Final = bytes([layout.OBJECT_ID])
_OBJECT_ID_DOCUMENT: Final = rawbson.INT32_LE.pack(_OBJECT_ID_END + 1) + b"\x07_id\0"
_STRING_KEY: Final = bytes([layout.STRING])
_BINARY_KEY: Final = bytes([layout.BINARY])
_END: Final = bytes([layout.END])
_TEXT_END: Final = b"\0" + _END
_LONGEST_TEXT: Final = 400
_WITH_STRINGS: Final = frozenset({rawbson.STRING, rawbson.SYMBOL, rawbson.DOCUMENT})
"""Types of an `_id` that a collation changes the key of"""
_read_int32: Final = rawbson.INT32_LE.unpack_from
_read_int64: Final = rawbson.INT64_LE.unpack_from


def id_key(kind: int, value: bytes, collation: Collation | None = None) -> bytes:
    """The KeyString of an `_id`, by which records are found; ``collation`` is that of their collection.

    >>> id_key(rawbson.INT32, bytes([5, 0, 0, 0])).hex()
    '2b0a04'
    """
    if collation is not None and kind in _WITH_STRINGS:
        kind, value = collated(collation, value, kind, 0, len(value))
        return _general_key(kind, value)
    if kind == rawbson.OBJECT_ID:
        return _OBJECT_ID_KEY + value + _END
    if kind == rawbson.INT32:
        return _integer_key(_read_int32(value)[0])
    if kind == rawbson.INT64:
        return _integer_key(_read_int64(value)[0])
    if kind == rawbson.STRING and len(value) <= _LONGEST_TEXT and value.find(0, 4) == len(value) - 1:
        return _STRING_KEY + value[4:-1] + _TEXT_END
    if kind == rawbson.BINARY and len(value) <= layout.LONG_BINARY:
        return b"%b%c%b%b" % (_BINARY_KEY, len(value) - 5, value[4:], _END)
    return _general_key(kind, value)


def id_key_of(document: bytes, collation: Collation | None = None) -> bytes | None:
    """`id_key` of the `_id` of a document or a document key; None without an `_id`."""
    if document[5:_VALUE] == _ID_IN_FRONT:
        kind = document[4]
        if kind == rawbson.OBJECT_ID:
            return _OBJECT_ID_KEY + document[_VALUE:_OBJECT_ID_END] + _END
        return id_key(kind, document[_VALUE : rawbson.value_end(document, kind, _VALUE)], collation)
    found = rawbson.find(document, b"_id")
    return None if found is None else id_key(found[0], document[found[2] : found[3]], collation)


def document_key(document: bytes) -> bytes:
    """`{_id: …}` of a stored document."""
    if document[5:_VALUE] == _ID_IN_FRONT:
        kind = document[4]
        if kind == rawbson.OBJECT_ID:
            return _OBJECT_ID_DOCUMENT + document[_VALUE:_OBJECT_ID_END] + b"\0"
        return rawbson.document(document[4 : rawbson.value_end(document, kind, _VALUE)])
    found = rawbson.find(document, b"_id")
    if found is None:
        raise CommandError(ErrorCode.BadValue, "a stored document has no _id")
    return rawbson.document(rawbson.element(found[0], b"_id", document[found[2] : found[3]]))


def sharded_document_key(document: bytes, paths: Collection[str]) -> bytes:
    """The key of a document of a sharded collection: the fields of the shard key, then `_id`.

    A path is one field whose name contains the dots; fields that the document does not have are left out.

    >>> from tailrace.bson.documents import decode, encode
    >>> decode(sharded_document_key(encode({"_id": 1, "a": {"b": 2}}), ("a.b", "c")))
    {'a.b': 2, '_id': 1}
    """
    found = [_element_at(document, path) for path in paths]
    if "_id" not in paths:
        found.append(rawbson.body(document_key(document)))
    return rawbson.document(*found)


def has_key(document: bytes, key: bytes) -> bool:
    """Whether a document found by its `_id` has the other fields of a document key, too.

    >>> from tailrace.bson.documents import encode
    >>> moved = encode({"_id": 1, "a": {"b": 2.0}})
    >>> has_key(moved, encode({"a.b": 2, "_id": 1})), has_key(moved, encode({"a.b": 1, "_id": 1}))
    (True, False)
    """
    paths = [name.decode() for _, name, _, _ in rawbson.elements(key)]
    if len(paths) == 1:
        return True
    own = sharded_document_key(document, paths)
    return own == key or keystring.encode(own).data == keystring.encode(key).data


def _element_at(document: bytes, path: str) -> bytes:
    """The value at the end of a path as an element named by the path; empty without one."""
    start, kind, end = 0, rawbson.DOCUMENT, len(document)
    for part in path.encode().split(b"."):
        if kind != rawbson.DOCUMENT:
            return b""
        found = next((element for element in rawbson.elements(document, start) if element[1] == part), None)
        if found is None:
            return b""
        kind, _, start, end = found
    return rawbson.element(kind, path.encode(), document[start:end])


def _general_key(kind: int, value: bytes) -> bytes:
    return fit_key(keystring.encode(rawbson.document(rawbson.element(kind, b"", value))).data)


def _integer_key(value: int) -> bytes:
    out = bytearray()
    append_int(out, value)
    out.append(layout.END)
    return bytes(out)
