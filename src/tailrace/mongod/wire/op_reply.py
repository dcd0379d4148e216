"""OP_REPLY, a server's reply to an OP_QUERY.

::

    int32 flags | int64 cursor id | int32 starting from | int32 number of documents | documents
"""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final

from tailrace.errors import WireError
from tailrace.mongod.wire.header import OpCode, frame
from tailrace.mongod.wire.payload_document import document_end

QUERY_FAILURE: Final = 1 << 1
"""The one document is `{$err, code}`."""
AWAIT_CAPABLE: Final = 1 << 3
"""Set in every reply since MongoDB 1.6."""

_LAYOUT: Final = Struct("<iqii")


@dataclass(frozen=True, slots=True)
class OpReply:
    """A reply; that to a command has one document."""

    documents: Sequence[bytes]
    flags: int = AWAIT_CAPABLE
    cursor_id: int = 0
    starting_from: int = 0


def encode(message: OpReply, request_id: int, response_to: int) -> bytes:
    """The whole message, header included."""
    fields = _LAYOUT.pack(message.flags, message.cursor_id, message.starting_from, len(message.documents))
    return frame(OpCode.OP_REPLY, request_id, response_to, b"".join((fields, *message.documents)))


def decode(payload: bytes) -> OpReply:
    """Decode the payload."""
    if len(payload) < _LAYOUT.size:
        raise WireError("an OP_REPLY ends before its documents")
    flags, cursor_id, starting_from, promised = _LAYOUT.unpack_from(payload)
    documents = []
    position = _LAYOUT.size
    while position < len(payload):
        start, position = position, document_end(payload, position, len(payload))
        documents.append(payload[start:position])
    if len(documents) != promised:
        raise WireError(f"an OP_REPLY promises {promised} documents and has {len(documents)}")
    return OpReply(tuple(documents), flags, cursor_id, starting_from)
