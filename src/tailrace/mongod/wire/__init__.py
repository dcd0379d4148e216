"""MongoDB's wire protocol without I/O: bytes in, requests out; replies in, bytes out.

`Connection` is the server's end of one connection, `ClientConnection` the client's. Neither uses a socket, a
clock or a command; docs/wire.md has the layouts and the faults that close a connection.
"""

from tailrace.mongod.wire.client import ClientConnection, Reply
from tailrace.mongod.wire.compression import COMPRESSORS, NEVER_COMPRESSED, negotiate
from tailrace.mongod.wire.connection import Connection
from tailrace.mongod.wire.endpoint import NEED_DATA, NeedData
from tailrace.mongod.wire.header import MAX_MESSAGE_SIZE, OpCode
from tailrace.mongod.wire.request import Request

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
