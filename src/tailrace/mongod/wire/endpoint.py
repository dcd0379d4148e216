"""The base of both ends of a connection: turns received bytes into messages.

A message is returned as soon as it is complete, so messages before a fault are not lost. After a `WireError`
the start of the next message is unknown; every further call raises with the same reason.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from enum import Enum
from typing import Final, Generic, Literal, TypeVar

from tailrace.errors import WireError
from tailrace.mongod.wire.compression import COMPRESSORS, Compressor, decompress
from tailrace.mongod.wire.header import Header, OpCode
from tailrace.mongod.wire.receive_buffer import ReceiveBuffer

MessageT = TypeVar("MessageT")

_LAST_ID: Final = 2**31 - 1


class NeedData(Enum):
    """The type of `NEED_DATA`."""

    NEED_DATA = "NEED_DATA"


NEED_DATA: Final = NeedData.NEED_DATA
"""No complete message has arrived; call `receive_data` first."""


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

    def next_message(self) -> MessageT | Literal[NeedData.NEED_DATA]:
        """The next message, or `NEED_DATA`."""
        self._check_usable()
        try:
            framed = self._buffer.next_frame()
            return NEED_DATA if framed is None else self._open(*framed)
        except WireError as fault:
            # The error itself would keep its frames, and with them a message of up to 48 MB.
            self._failure = str(fault)
            self._buffer.clear()
            raise

    def _open(self, header: Header, payload: bytes) -> MessageT:
        if header.op_code is not OpCode.OP_COMPRESSED:
            return self._decode(header, payload, None)
        header, payload, compressor = decompress(header, payload, self._compressors)
        return self._decode(header, payload, compressor)

    @abstractmethod
    def _decode(self, header: Header, payload: bytes, compressor: Compressor | None) -> MessageT:
        """Decode a message that came with ``compressor``."""

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise WireError(f"the connection has to be closed: {self._failure}")

    def _new_request_id(self) -> int:
        self._request_id = self._request_id % _LAST_ID + 1
        return self._request_id
