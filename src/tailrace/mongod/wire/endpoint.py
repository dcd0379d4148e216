"""What both ends of a connection have in common: bytes arrive, messages come out, and a fault is final.

A message is handed out as soon as it is complete, so messages in front of a fault are not lost. After a
`WireError` nobody can tell where the next message begins; the endpoint then refuses everything, repeating
the reason.
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
"""No whole message is there; call `receive_data` first."""


class Endpoint(ABC, Generic[MessageT]):
    """One end; a subclass says what a message means to it."""

    def __init__(self, compressors: Iterable[str] = COMPRESSORS) -> None:
        """Messages packed with anything but ``compressors`` are refused."""
        self._compressors = frozenset(compressors)
        self._buffer = ReceiveBuffer()
        self._failure: WireError | None = None
        self._request_id = 0

    @property
    def buffered(self) -> int:
        """How many received bytes were not handed out yet.

        The endpoint keeps what it is given. To bound that, read on only when `next_message` needs data.
        """
        return len(self._buffer)

    def receive_data(self, data: bytes | bytearray | memoryview) -> None:
        """Take what was read from the socket."""
        self._check_usable()
        self._buffer.append(bytes(data))

    def next_message(self) -> MessageT | Literal[NeedData.NEED_DATA]:
        """The next message, or `NEED_DATA`."""
        self._check_usable()
        try:
            framed = self._buffer.next_frame()
            return NEED_DATA if framed is None else self._open(*framed)
        except WireError as fault:
            self._failure = fault
            self._buffer.clear()
            raise

    def _open(self, header: Header, payload: bytes) -> MessageT:
        if header.op_code is not OpCode.OP_COMPRESSED:
            return self._decode(header, payload, None)
        header, payload, compressor = decompress(header, payload, self._compressors)
        return self._decode(header, payload, compressor)

    @abstractmethod
    def _decode(self, header: Header, payload: bytes, compressor: Compressor | None) -> MessageT:
        """The message behind a header, which was packed with ``compressor``."""

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise WireError(f"the connection has to be closed: {self._failure}")

    def _new_request_id(self) -> int:
        self._request_id = self._request_id % _LAST_ID + 1
        return self._request_id
