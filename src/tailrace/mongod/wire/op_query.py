"""OP_QUERY, which MongoDB since 5.1 accepts only for the first `hello` of a connection.

::

    int32 flags | name, 00 | int32 skip | int32 number to return | query | fields to return (optional)

The query is on the collection `$cmd` of a database, and its document is a command. Drivers begin with it
because they do not know yet whether the server is new enough for OP_MSG.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from tailrace.errors import WireError
from tailrace.mongod.wire.header import OpCode, frame
from tailrace.mongod.wire.payload_document import document_end

EXHAUST: Final = 1 << 6

_INT32: Final = Struct("<i")
_SKIP_AND_NUMBER: Final = Struct("<ii")


@dataclass(frozen=True, slots=True)
class OpQuery:
    """A query; the lengths of its documents are checked, their contents are not."""

    namespace: str
    query: bytes
    flags: int = 0
    skip: int = 0
    number_to_return: int = -1
    fields: bytes | None = None


def encode(message: OpQuery, request_id: int, response_to: int = 0) -> bytes:
    """The whole message, header included."""
    payload = b"".join(
        (
            _INT32.pack(message.flags),
            message.namespace.encode(),
            b"\0",
            _SKIP_AND_NUMBER.pack(message.skip, message.number_to_return),
            message.query,
            message.fields or b"",
        )
    )
    return frame(OpCode.OP_QUERY, request_id, response_to, payload)


def decode(payload: bytes) -> OpQuery:
    """Decode the payload."""
    name_end = payload.find(b"\0", 4)
    query_start = name_end + 1 + _SKIP_AND_NUMBER.size
    if name_end < 0 or query_start > len(payload):
        raise WireError("an OP_QUERY ends before its query")
    try:
        namespace = payload[4:name_end].decode()
    except UnicodeDecodeError:
        raise WireError("the namespace of an OP_QUERY is not UTF-8") from None
    skip, number_to_return = _SKIP_AND_NUMBER.unpack_from(payload, name_end + 1)
    query_end = document_end(payload, query_start, len(payload))
    fields = None
    if query_end < len(payload):
        if document_end(payload, query_end, len(payload)) != len(payload):
            raise WireError("an OP_QUERY has bytes after its documents")
        fields = payload[query_end:]
    flags: int = _INT32.unpack_from(payload)[0]
    return OpQuery(namespace, payload[query_start:query_end], flags, skip, number_to_return, fields)
