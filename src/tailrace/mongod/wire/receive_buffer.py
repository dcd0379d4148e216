"""Received bytes, split into messages.

A read from a socket usually contains whole messages, so its bytes are stored unchanged and split by an
offset. Only a message that spans reads is collected, in one bytearray that grows in place. Each byte is
copied a fixed number of times, independent of the sizes of reads and messages.
"""

from typing import Final

from tailrace.mongod.wire.header import HEADER_SIZE, Header, decode

_NOTHING: Final = b""


class ReceiveBuffer:
    """A queue of bytes; `next_frame` takes whole messages from its front.

    >>> buffer = ReceiveBuffer()
    >>> buffer.append(bytes.fromhex("11000000 01000000 00000000 dd070000"))
    >>> buffer.next_frame()
    >>> buffer.append(b"x")
    >>> buffer.next_frame()
    (Header(length=17, request_id=1, response_to=0, op_code=<OpCode.OP_MSG: 2013>), b'x')
    """

    def __init__(self) -> None:
        self._data: bytes | bytearray = _NOTHING
        self._start = 0
        self._header: Header | None = None  # of the first message, once it was decoded

    def __len__(self) -> int:
        return len(self._data) - self._start

    def append(self, data: bytes) -> None:
        """Add received bytes."""
        if self._start == len(self._data):
            self._data, self._start = data, 0
            return
        if not isinstance(self._data, bytearray):
            self._data, self._start = bytearray(memoryview(self._data)[self._start :]), 0
        elif self._start > len(self._data) // 2:  # fewer bytes are moved than were read since
            del self._data[: self._start]
            self._start = 0
        self._data += data

    def peek(self, size: int) -> tuple[Header, bytes] | None:
        """Header and the first ``size`` bytes of the next message's payload, or all; None until they came."""
        available = len(self._data) - self._start
        if available < HEADER_SIZE:
            return None
        header = self._header
        if header is None:
            header = self._header = decode(self._data, self._start)
        size = min(HEADER_SIZE + size, header.length)
        if available < size:
            return None
        return header, bytes(self._data[self._start + HEADER_SIZE : self._start + size])

    @property
    def has_frame(self) -> bool:
        """Whether the next message is complete."""
        return self._header is not None and len(self) >= self._header.length

    def next_large_frame(self) -> tuple[Header, bytes | memoryview] | None:
        """Like `next_frame`; a payload that was collected is not copied, if nothing came after it."""
        header = self._header
        is_last = header is not None and self._start + header.length == len(self._data)
        if header is None or not is_last or not isinstance(self._data, bytearray):
            return self.next_frame()
        payload = memoryview(self._data).toreadonly()[self._start + HEADER_SIZE :]
        self.clear()
        return header, payload

    def next_frame(self) -> tuple[Header, bytes] | None:
        """The next message as header and payload; None until it is complete."""
        available = len(self._data) - self._start
        header = self._header
        if header is None:
            if available < HEADER_SIZE:
                return None
            header = self._header = decode(self._data, self._start)
        if available < header.length:
            return None
        payload_start, end = self._start + HEADER_SIZE, self._start + header.length
        with memoryview(self._data) as view:
            payload = bytes(view[payload_start:end])
        self._start, self._header = end, None
        if end == len(self._data):
            self.clear()
        return header, payload

    def clear(self) -> None:
        self._data, self._start, self._header = _NOTHING, 0, None
