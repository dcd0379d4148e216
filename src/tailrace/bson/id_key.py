"""The `_id` of a document, and its key: bytes whose order is that of an index on `_id`."""

from typing import Final

from tailrace.bson import keystring
from tailrace.bson import raw as rawbson
from tailrace.errors import BsonError

_OBJECT_ID: Final = b"\x07_id\0"
_FIRST: Final = b"_id\0"
_VALUE: Final = 4 + 1 + len(_FIRST)
_OID_TYPE: Final = b"\x64"
_END: Final = b"\x04"


def id_key(document: bytes) -> bytes:
    r"""The key of a document, or of a change's `documentKey`: that of an index on `_id`.

    >>> from tailrace.bson.documents import encode
    >>> id_key(encode({"_id": 5, "name": "a"}))
    b'+\n\x04'
    >>> id_key(encode({"name": "a", "_id": 5.0}))
    b'+\n\x04'
    """
    if document.startswith(_OBJECT_ID, 4):
        return b"".join((_OID_TYPE, document[9:21], _END))
    kind, _, start, end = _id_element(document)
    out = bytearray()
    keystring.append_value(out, keystring.TypeBits(), document, kind, start, end)
    out.append(keystring.END)
    return bytes(out)


def id_document(document: bytes) -> bytes:
    """The `_id` of a document, alone."""
    kind, name, start, end = _id_element(document)
    return rawbson.document(rawbson.element(kind, name, document[start:end]))


def _id_element(document: bytes) -> rawbson.Element:
    if document.startswith(_FIRST, 5):
        # Usually it is the first field, and of a fixed size.
        kind = document[4]
        end = _VALUE + rawbson.FIXED_SIZE.get(kind, len(document))
        if end < len(document):
            return kind, b"_id", _VALUE, end
    found = rawbson.find(document, b"_id")
    if found is None:
        raise BsonError("a document has no _id")
    return found
