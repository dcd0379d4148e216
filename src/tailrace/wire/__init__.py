"""MongoDB's wire protocol without I/O: bytes in, requests out; replies in, bytes out.

`Connection` is the server's end of one connection, `ClientConnection` the client's. Neither knows a socket,
a clock or a command; docs/wire.md shows the layouts and says what closes a connection.
"""

from tailrace.wire.client import ClientConnection, Reply
from tailrace.wire.compression import COMPRESSORS, NEVER_COMPRESSED, negotiate
from tailrace.wire.connection import Connection
from tailrace.wire.endpoint import NEED_DATA, NeedData
from tailrace.wire.header import MAX_MESSAGE_SIZE, OpCode
from tailrace.wire.request import Request

__all__ = [
    "COMPRESSORS",
    "MAX_MESSAGE_SIZE",
    "NEED_DATA",
    "NEVER_COMPRESSED",
    "ClientConnection",
    "Connection",
    "NeedData",
    "OpCode",
    "Reply",
    "Request",
    "negotiate",
]
