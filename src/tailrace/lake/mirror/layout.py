"""The columns of a collection's table, and what its keys are.

A row is a document. Rows are sorted by `_key`, and the files of a table have disjoint ranges of keys. Beside
the columns here a table has those of the documents' fields (`lake/columns/`), `_id` among them.
"""

from typing import Final

import pyarrow as pa

from tailrace.bson import keystring
from tailrace.bson import raw as rawbson
from tailrace.errors import BsonError
from tailrace.lake.columns.evolve import Policy

FORMAT: Final = 1
"""Counts changes of the columns or of what they hold"""

KEY: Final = "_key"
DOCUMENT: Final = "_bson"
TIME: Final = "_cluster_time"
INCREMENT: Final = "_increment"

OWN_SCHEMA: Final = pa.schema([
    pa.field(KEY, pa.binary(), nullable=False),
    pa.field(DOCUMENT, pa.binary(), nullable=False),
    pa.field(TIME, pa.timestamp("us", tz="UTC"), nullable=False),
    pa.field(INCREMENT, pa.int64(), nullable=False),
    pa.field("_token", pa.string()),
])  # fmt: skip
"""What every table has; the cluster time and the token are those of the document's last change"""
POLICY: Final = Policy(reserved=tuple(OWN_SCHEMA.names))

_OBJECT_ID: Final = b"\x07_id\0"
_OID_TYPE: Final = b"\x64"
_END: Final = b"\x04"


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
    for kind, name, start, end in rawbson.elements(document):
        if name == b"_id":
            alone = rawbson.document(rawbson.element(kind, b"_id", document[start:end]))
            return bytes(keystring.encode(alone).data)
    raise BsonError("a document has no _id")
