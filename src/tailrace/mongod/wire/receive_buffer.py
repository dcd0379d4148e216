"""What has arrived and was not read yet, cut into messages.

A read from a socket usually holds whole messages, so the bytes of a read are kept as they are and cut up by
an offset. Only a message that spans reads is collected, in one bytearray that grows in place. Either way a
byte is copied a fixed number of times, whatever the sizes of reads and messages.
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
        self._header: Header | None = None  # of the message at the front, once it was read

    def __len__(self) -> int:
        return len(self._data) - self._start

    def append(self, data: bytes) -> None:
        """Put what was received behind the rest."""
        if self._start == len(self._data):
            self._data, self._start = data, 0
            return
        if not isinstance(self._data, bytearray):
            self._data, self._start = bytearray(memoryview(self._data)[self._start :]), 0
        elif self._start > len(self._data) // 2:  # what is moved is less than what was read since
            del self._data[: self._start]
            self._start = 0
        self._data += data

    def next_frame(self) -> tuple[Header, bytes] | None:
        """The next message, as its header and what follows it; None until all of it is there."""
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
        """Forget everything."""
        self._data, self._start, self._header = _NOTHING, 0, None
