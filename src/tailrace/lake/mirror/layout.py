"""The columns of a collection's table, and what its keys are.

A row is a document. Rows are sorted by `_key`, and the files of a table have disjoint ranges of keys.
"""

from typing import Final

import pyarrow as pa

from tailrace.bson import keystring
from tailrace.bson import raw as rawbson
from tailrace.bson.extjson import dumps_canonical
from tailrace.errors import BsonError
from tailrace.lake.schema import SCHEMA as HISTORY_SCHEMA

FORMAT: Final = 1
"""Counts changes of the columns or of what they hold"""

KEY: Final = "_key"
DOCUMENT: Final = "document"
ID: Final = "_id"
TOKEN: Final = "token"

SCHEMA: Final = pa.schema([
    pa.field(KEY, pa.binary(), nullable=False),
    pa.field(ID, pa.string(), nullable=False),
    pa.field(DOCUMENT, pa.binary(), nullable=False),
    HISTORY_SCHEMA.field("cluster_time"),
    HISTORY_SCHEMA.field("increment"),
    pa.field(TOKEN, pa.string()),
])  # fmt: skip
"""What every table has; `cluster_time` and `increment` are those of the document's last change"""

_OBJECT_ID: Final = b"\x07_id\0"
_OID_TYPE: Final = b"\x64"
_END: Final = b"\x04"
_PREFIX: Final = len('{"_id": ')


def document_key(document: bytes) -> tuple[bytes, str]:
    r"""The key of a document, and its `_id` as canonical Extended JSON.

    >>> from tailrace.bson.documents import encode
    >>> document_key(encode({"_id": 5, "name": "a"}))
    (b'+\n\x04', '{"$numberInt": "5"}')
    >>> document_key(encode({"_id": 5.0}))[0] == document_key(encode({"_id": 5}))[0]
    True
    """
    if document.startswith(_OBJECT_ID, 4):
        value = document[9:21]
        return b"".join((_OID_TYPE, value, _END)), f'{{"$oid": "{value.hex()}"}}'
    for kind, name, start, end in rawbson.elements(document):
        if name == b"_id":
            alone = rawbson.document(rawbson.element(kind, b"_id", document[start:end]))
            return _key_of(alone), dumps_canonical(alone)[_PREFIX:-1]
    raise BsonError("a document has no _id")


def key_of_document_key(document_key: bytes) -> bytes:
    """The key of a change's `documentKey`: that of its `_id`; the fields of a shard key do not matter."""
    if document_key.startswith(_OBJECT_ID, 4):
        return b"".join((_OID_TYPE, document_key[9:21], _END))
    for kind, name, start, end in rawbson.elements(document_key):
        if name == b"_id":
            return _key_of(rawbson.document(rawbson.element(kind, b"_id", document_key[start:end])))
    raise BsonError("the key of a change has no _id")


def _key_of(alone: bytes) -> bytes:
    return bytes(keystring.encode(alone).data)
