"""The sixteen bytes in front of every message: its size, its id, the message it answers, its kind.

Four little-endian int32. A header is judged as soon as it has arrived: a size or a kind that cannot be is
an error before anything is kept for the message behind it.
"""

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, WireError

HEADER_SIZE: Final = 16
MAX_MESSAGE_SIZE: Final = 48_000_000
"""What `hello` reports as maxMessageSizeBytes; the header counts."""

_LAYOUT: Final = Struct("<iiii")


class OpCode(IntEnum):
    """Kinds of messages; all but the last two belong to servers before 5.1."""

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
    """A header that was read, or is to be written.

    >>> Header(38, 7, 0, OpCode.OP_MSG).encode().hex(" ", 4)
    '26000000 07000000 00000000 dd070000'
    """

    length: int
    request_id: int
    response_to: int
    op_code: OpCode

    def encode(self) -> bytes:
        """The header's bytes."""
        return _LAYOUT.pack(*self)


def decode(data: bytes | bytearray, start: int) -> Header:
    """The header whose sixteen bytes begin at ``start``."""
    length, request_id, response_to, code = _LAYOUT.unpack_from(data, start)
    if not HEADER_SIZE <= length <= MAX_MESSAGE_SIZE:
        raise WireError(f"a message cannot be {length} bytes long; the limit is {MAX_MESSAGE_SIZE}")
    return Header(length, request_id, response_to, op_code(code))


def op_code(code: int) -> OpCode:
    """The kind of message a number stands for."""
    known = _OP_CODES.get(code)
    if known is None:
        raise WireError(f"there is no opcode {code}")
    return known


def frame(code: OpCode, request_id: int, response_to: int, payload: bytes) -> bytes:
    """A whole message around its payload."""
    return Header(HEADER_SIZE + len(payload), request_id, response_to, code).encode() + payload


def check_size(message: bytes) -> None:
    """Raise what a server answers if a message that was to be sent is too large for it."""
    if len(message) > MAX_MESSAGE_SIZE:
        reason = f"a message of {len(message)} bytes is larger than {MAX_MESSAGE_SIZE}"
        raise CommandError(ErrorCode.BSONObjectTooLarge, reason)
