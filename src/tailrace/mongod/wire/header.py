"""The header of every message: its size, its id, the id of the message it answers, its opcode.

Four little-endian int32. A header is checked as soon as it has arrived: a bad size or opcode is an error
before anything is allocated for the message.
"""

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, WireError

HEADER_SIZE: Final = 16
MAX_MESSAGE_SIZE: Final = 48_000_000
"""`maxMessageSizeBytes` in the reply of `hello`; includes the header."""

_LAYOUT: Final = Struct("<iiii")


class OpCode(IntEnum):
    """Kinds of messages; all but the last two belong to MongoDB before 5.1."""

    OP_REPLY = 1
    OP_UPDATE = 2001
    OP_INSERT = 2002
    OP_GET_BY_OID = 2003
    OP_QUERY = 2004
    OP_GET_MORE = 2005
    OP_DELETE = 2006
    OP_KILL_CURSORS = 2007
    OP_COMMAND = 2010
    OP_COMMANDREPLY = 2011
    OP_COMPRESSED = 2012
    OP_MSG = 2013


_OP_CODES: Final = {int(code): code for code in OpCode}


class Header(NamedTuple):
    """A message header.

    >>> Header(38, 7, 0, OpCode.OP_MSG).encode().hex(" ", 4)
    '26000000 07000000 00000000 dd070000'
    """

    length: int
    request_id: int
    response_to: int
    op_code: OpCode

    def encode(self) -> bytes:
        return _LAYOUT.pack(*self)


def decode(data: bytes | bytearray, start: int) -> Header:
    """Decode and check the header at ``start``."""
    length, request_id, response_to, code = _LAYOUT.unpack_from(data, start)
    if not HEADER_SIZE <= length <= MAX_MESSAGE_SIZE:
        raise WireError(f"a message cannot be {length} bytes long; the limit is {MAX_MESSAGE_SIZE}")
    return Header(length, request_id, response_to, op_code(code))


def op_code(code: int) -> OpCode:
    """The opcode of a number; raises `WireError` for an unknown one."""
    known = _OP_CODES.get(code)
    if known is None:
        raise WireError(f"there is no opcode {code}")
    return known


def frame(code: OpCode, request_id: int, response_to: int, payload: bytes) -> bytes:
    """A message with header and payload."""
    return Header(HEADER_SIZE + len(payload), request_id, response_to, code).encode() + payload


def check_size(message: bytes) -> None:
    """Raise BSONObjectTooLarge if a message is too large to be sent."""
    if len(message) > MAX_MESSAGE_SIZE:
        reason = f"a message of {len(message)} bytes is larger than {MAX_MESSAGE_SIZE}"
        raise CommandError(ErrorCode.BSONObjectTooLarge, reason)
