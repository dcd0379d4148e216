"""The client's end of one connection: commands become bytes, bytes become replies.

>>> from tailrace.bson.documents import encode
>>> client = ClientConnection()
>>> client.send(encode({"ping": 1, "$db": "admin"}))[:16].hex(" ", 4)
'33000000 01000000 00000000 dd070000'
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tailrace.bson import raw
from tailrace.errors import CommandError, WireError
from tailrace.mongod.wire import op_msg, op_query, op_reply
from tailrace.mongod.wire.compression import COMPRESSORS, NEVER_COMPRESSED, Compressor, compress
from tailrace.mongod.wire.endpoint import Endpoint
from tailrace.mongod.wire.header import Header, OpCode, check_size
from tailrace.mongod.wire.op_msg import OpMsg
from tailrace.mongod.wire.op_query import OpQuery
from tailrace.mongod.wire.payload_document import check_document


@dataclass(frozen=True, slots=True)
class Reply:
    """A server's reply: the message it answers, and whether further replies follow."""

    request_id: int
    response_to: int
    op_code: OpCode
    document: bytes
    flags: int = 0
    compressor: Compressor | None = None

    @property
    def more_to_come(self) -> bool:
        """Whether another reply follows."""
        return self.op_code is OpCode.OP_MSG and bool(self.flags & op_msg.MORE_TO_COME)


class ClientConnection(Endpoint[Reply]):
    """Encodes commands; `next_message` returns the replies."""

    def __init__(
        self,
        *,
        compressor: str | None = None,
        checksum: bool = False,
        compressors: Iterable[str] = COMPRESSORS,
    ) -> None:
        """Send with ``compressor`` and ``checksum``; both may be changed between commands."""
        super().__init__(compressors)
        self.compressor = compressor
        self.checksum = checksum

    @property
    def last_request_id(self) -> int:
        """The id of the last message sent; its reply contains it."""
        return self._request_id

    def send(
        self,
        command: bytes,
        sequences: Mapping[str, Sequence[bytes]] | None = None,
        *,
        more_to_come: bool = False,
        exhaust_allowed: bool = False,
    ) -> bytes:
        """The bytes of a command, which has its database in `$db`.

        With ``more_to_come`` the server does not reply; with ``exhaust_allowed`` it may reply repeatedly.
        """
        self._check_usable()
        flags = (
            (op_msg.CHECKSUM_PRESENT if self.checksum else 0)
            | (op_msg.MORE_TO_COME if more_to_come else 0)
            | (op_msg.EXHAUST_ALLOWED if exhaust_allowed else 0)
        )
        message = op_msg.encode(OpMsg(command, sequences or {}, flags), self._new_request_id())
        check_size(message)
        name = (raw.first_name(command) or b"").decode().lower()
        if self.compressor is None or name in NEVER_COMPRESSED:
            return message
        return compress(message, COMPRESSORS[self.compressor])

    def send_handshake(self, command: bytes, database: str = "admin") -> bytes:
        """The bytes of a `hello` as an OP_QUERY, which servers of every version accept; it has no `$db`."""
        self._check_usable()
        return op_query.encode(OpQuery(f"{database}.$cmd", command), self._new_request_id())

    def _decode(self, header: Header, payload: bytes, compressor: Compressor | None) -> Reply:
        try:
            document, flags = _document_and_flags(header, payload)
        except CommandError as fault:
            raise WireError(f"the server's reply cannot be read: {fault}") from None
        return Reply(header.request_id, header.response_to, header.op_code, document, flags, compressor)


def _document_and_flags(header: Header, payload: bytes) -> tuple[bytes, int]:
    if header.op_code is OpCode.OP_MSG:
        message = op_msg.decode(header, payload)
        return message.body, message.flags
    if header.op_code is not OpCode.OP_REPLY:
        raise WireError(f"a client does not accept {header.op_code.name}")
    reply = op_reply.decode(payload)
    if len(reply.documents) != 1:
        raise WireError(f"the reply to a command has one document, not {len(reply.documents)}")
    check_document(reply.documents[0])
    return reply.documents[0], reply.flags
