"""The base of both ends of a connection: turns received bytes into messages.

A message is returned as soon as it is complete, so messages before a fault are not lost. After a `WireError`
the start of the next message is unknown; every further call raises with the same reason.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from enum import Enum
from typing import Final, Generic, Literal, NamedTuple, TypeVar

from tailrace.bson.in_pieces import LARGE
from tailrace.bson.raw import INT32_LE
from tailrace.errors import WireError
from tailrace.mongod.wire.compression import COMPRESSORS, Compressor, decompress, unpacked_size
from tailrace.mongod.wire.header import HEADER_SIZE, Header, OpCode
from tailrace.mongod.wire.receive_buffer import ReceiveBuffer

MessageT = TypeVar("MessageT")

_LAST_ID: Final = 2**31 - 1
_BODY_KIND: Final = 4
"""Where an OP_MSG has the kind of its first section, which is 0 for its body."""
_BEGINNING: Final = 9
"""How much of a payload shows its sizes."""


class NeedData(Enum):
    """The type of `NEED_DATA`."""

    NEED_DATA = "NEED_DATA"


NEED_DATA: Final = NeedData.NEED_DATA
"""No complete message has arrived; call `receive_data` first."""


def body_size(payload: bytes | memoryview, most: int) -> int:
    """The size of the body, by the beginning of an OP_MSG; ``most`` if it is not the first section."""
    if len(payload) < _BEGINNING or payload[_BODY_KIND]:
        return most
    size: int = INT32_LE.unpack_from(payload, _BODY_KIND + 1)[0]
    return min(max(size, 0), most)


class Announced(NamedTuple):
    """A large message of which at least the beginning has arrived."""

    length: int
    unpacked: int
    """Its size without compression."""
    body: int
    """The size of the command in it, at most."""
    is_complete: bool


class Endpoint(ABC, Generic[MessageT]):
    """One end of a connection; a subclass decodes its messages."""

    def __init__(self, compressors: Iterable[str] = COMPRESSORS) -> None:
        """Refuse messages with a compressor that is not one of ``compressors``."""
        self._compressors = frozenset(compressors)
        self._buffer = ReceiveBuffer()
        self._failure: str | None = None
        self._request_id = 0

    @property
    def buffered(self) -> int:
        """The number of received bytes that were not returned as messages yet.

        There is no limit here: read from the socket only when `next_message` returned `NEED_DATA`.
        """
        return len(self._buffer)

    def receive_data(self, data: bytes | bytearray | memoryview) -> None:
        """Add bytes that were read from the socket."""
        self._check_usable()
        self._buffer.append(bytes(data))

    def large_message(self) -> "Announced | None":
        """What the next message needs, if it is large; None if it is small or its beginning is missing.

        It need not have arrived completely. Raises like `next_message`.
        """
        if len(self._buffer) < HEADER_SIZE:
            return None
        self._check_usable()
        try:
            found = self._buffer.peek(_BEGINNING)
        except WireError as fault:
            self.fail(fault)
            raise
        if found is None:
            return None
        header, beginning = found
        length = unpacked = header.length
        if header.op_code is OpCode.OP_COMPRESSED:
            unpacked = unpacked_size(beginning)
        if max(unpacked, length) <= LARGE:
            return None
        body = body_size(beginning, length) if header.op_code is OpCode.OP_MSG else unpacked
        return Announced(length, unpacked, body, self._buffer.has_frame)

    def take_frame(self) -> tuple[Header, bytes | memoryview]:
        """Header and payload of the next message, which must be complete; to be opened by the caller."""
        framed = self._buffer.next_large_frame()
        assert framed is not None, "only a complete message can be taken"
        return framed

    def decompressed(
        self, header: Header, payload: bytes | memoryview
    ) -> tuple[Header, bytes | memoryview, Compressor | None]:
        """A message without its compression; may be called in another thread."""
        if header.op_code is not OpCode.OP_COMPRESSED:
            return header, payload, None
        return decompress(header, payload, self._compressors)

    def fail(self, fault: WireError) -> None:
        """Make the connection unusable, because a message that was taken is not valid."""
        # The error itself would keep its frames, and with them a message of up to 48 MB.
        self._failure = str(fault)
        self._buffer.clear()

    def next_message(self) -> MessageT | Literal[NeedData.NEED_DATA]:
        """The next message, or `NEED_DATA`."""
        self._check_usable()
        try:
            framed = self._buffer.next_frame()
            return NEED_DATA if framed is None else self._open(*framed)
        except WireError as fault:
            self.fail(fault)
            raise

    def _open(self, header: Header, payload: bytes) -> MessageT:
        header, content, compressor = self.decompressed(header, payload)
        return self._decode(header, bytes(content), compressor)

    @abstractmethod
    def _decode(self, header: Header, payload: bytes, compressor: Compressor | None) -> MessageT:
        """Decode a message that came with ``compressor``."""

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise WireError(f"the connection has to be closed: {self._failure}")

    def _new_request_id(self) -> int:
        self._request_id = self._request_id % _LAST_ID + 1
        return self._request_id
