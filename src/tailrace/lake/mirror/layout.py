"""How the rows of a collection's table are laid out, and what its keys are.

The live rows, one for each document that exists, are sorted by `_key`, and their files have disjoint ranges
of keys. Past rows (`lake/columns/kinds.py`) are in files of their own, which changes do not touch. So a batch
costs the same for every kind of table, however long its past is.
"""

from typing import Final

from tailrace.bson import keystring
from tailrace.bson import raw as rawbson
from tailrace.errors import BsonError
from tailrace.lake.columns.evolve import Policy
from tailrace.lake.columns.kinds import TableKind, reserved_names

FORMAT: Final = 1
"""Counts changes of the columns or of what they hold"""


_OBJECT_ID: Final = b"\x07_id\0"
_OID_TYPE: Final = b"\x64"
_END: Final = b"\x04"


def policy_of(kind: TableKind) -> Policy:
    """How the columns of a table of a kind are chosen."""
    return Policy(reserved=reserved_names(kind))


def dead_letters_place(place: str) -> str:
    """Where the dead letters of the table at a place are: below the mirror, beside the databases.

    >>> dead_letters_place("s3://bucket/lake/shop/orders")
    's3://bucket/lake/_dead_letters/shop/orders'
    """
    root, database, collection = place.rsplit("/", 2)
    return f"{root}/_dead_letters/{database}/{collection}"


def row_key(document: bytes) -> bytes:
    r"""The key of a document, or of a change's `documentKey`: that of its `_id`.

    >>> from tailrace.bson.documents import encode
    >>> row_key(encode({"_id": 5, "name": "a"}))
    b'+\n\x04'
    >>> row_key(encode({"name": "a", "_id": 5.0}))
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
    found = rawbson.find(document, b"_id")
    if found is None:
        raise BsonError("a document has no _id")
    return found
