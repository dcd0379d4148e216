"""The server's end of one connection.

A reply has the form of its request: OP_REPLY answers OP_QUERY, and checksum and compressor are those of the
request. Requests may be answered in any order, although clients wait for a reply before the next request.

>>> from tailrace.mongod.wire.client import ClientConnection
>>> from tailrace.bson.documents import decode, encode
>>> client, server = ClientConnection(), Connection()
>>> server.receive_data(client.send(encode({"ping": 1, "$db": "admin"})))
>>> request = server.next_message()
>>> request.name, request.database
('ping', 'admin')
>>> client.receive_data(server.send(request, encode({"ok": 1.0})))
>>> decode(client.next_message().document)
{'ok': 1.0}
>>> server.next_message()
<NeedData.NEED_DATA: 'NEED_DATA'>
"""

from collections.abc import Iterable
from functools import partial

from tailrace.bson import raw
from tailrace.bson.documents import encode
from tailrace.bson.in_pieces import LARGE, Steps
from tailrace.errors import WireError
from tailrace.mongod.wire import op_msg, op_reply
from tailrace.mongod.wire.compression import COMPRESSORS, Compressor, compress
from tailrace.mongod.wire.endpoint import Endpoint
from tailrace.mongod.wire.header import Header, OpCode, check_size
from tailrace.mongod.wire.op_reply import OpReply
from tailrace.mongod.wire.repeated_command import RepeatedCommand
from tailrace.mongod.wire.request import READERS, Request, error_document, is_removed_operation, read_op_msg
from tailrace.pacing import aside, finished


class Connection(Endpoint[Request]):
    """Bytes from a client become requests; replies become bytes for it."""

    def __init__(self, compressors: Iterable[str] = COMPRESSORS) -> None:
        super().__init__(compressors)
        self._repeated = RepeatedCommand()
        self._exhausting: dict[int, int] = {}
        """From the id of a request to that of its newest reply, while more replies follow"""

    def send(self, request: Request, document: bytes, *, more_to_come: bool = False) -> bytes:
        """The bytes of a reply; none if the client does not expect one.

        With ``more_to_come`` another reply to the same request follows, without a further request. In a
        sequence of replies each answers the one before.
        """
        self._check_usable()
        if not request.expects_reply:
            return b""
        if more_to_come and not request.exhaust_allowed:
            raise ValueError(f"the client of request {request.request_id} accepts only one reply")
        reply_id = self._new_request_id()
        response_to = self._exhausting.get(request.request_id, request.request_id)
        if request.op_code is OpCode.OP_MSG:
            flags = request.flags & op_msg.CHECKSUM_PRESENT | (op_msg.MORE_TO_COME if more_to_come else 0)
            message = op_msg.encode_body(document, flags, reply_id, response_to)
        else:
            flags = op_reply.QUERY_FAILURE if is_removed_operation(request) else op_reply.AWAIT_CAPABLE
            message = op_reply.encode(OpReply((document,), flags), reply_id, response_to)
        check_size(message)
        if more_to_come:
            self._exhausting[request.request_id] = reply_id
        else:
            self._exhausting.pop(request.request_id, None)
        if request.compressor is None:
            return message
        work = partial(compress, message, request.compressor)
        return work() if len(message) <= LARGE else aside(work)

    def refuse(self, request: Request, times: bytes = b"") -> bytes:
        """The bytes of the reply to a request that has an error; ``times`` are its last elements."""
        error = request.error
        if error is None:
            raise ValueError(f"request {request.request_id} has no error")
        if is_removed_operation(request):
            return self.send(request, encode({"$err": error.message, "code": error.code, "ok": 0.0}))
        reply = raw.document(raw.body(encode(error_document(error))), times)
        return self.send(request, reply)

    def _decode(self, header: Header, payload: bytes, compressor: Compressor | None) -> Request:
        return finished(self.read(header, payload, compressor))

    def read(
        self, header: Header, payload: bytes | memoryview, compressor: Compressor | None
    ) -> Steps[Request]:
        """The request in a message, which was taken with `take_frame` and is not compressed, in steps."""
        if isinstance(payload, memoryview):
            if header.op_code is OpCode.OP_MSG:
                return (yield from read_op_msg(header, payload, compressor))
            payload = bytes(payload)
        if header.op_code is OpCode.OP_MSG:
            repeated = self._repeated.read(header, payload, compressor)
            if repeated is not None:
                return repeated
        reader = READERS.get(header.op_code)
        if reader is None:
            raise WireError(f"a server since MongoDB 5.1 does not accept {header.op_code.name}")
        request = yield from reader(header, payload, compressor)
        if header.op_code is OpCode.OP_MSG:
            self._repeated.note(payload, request)
        return request
