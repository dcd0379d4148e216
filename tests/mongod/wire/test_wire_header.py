"""The header, and the buffer that splits messages."""

import pytest

from tailrace.errors import WireError
from tailrace.mongod.wire.header import MAX_MESSAGE_SIZE, Header, OpCode, decode
from tailrace.mongod.wire.receive_buffer import ReceiveBuffer
from tests.mongod.wire.messages import framed, message, unhex

CASES = [
    ("10000000 01000000 00000000 dd070000", Header(16, 1, 0, OpCode.OP_MSG)),
    ("10000000 ffffff7f 02000000 d4070000", Header(16, 2**31 - 1, 2, OpCode.OP_QUERY)),
    ("10000000 000000ff ffffffff 01000000", Header(16, -(2**24), -1, OpCode.OP_REPLY)),
    ("006cdc02 00000000 00000000 dc070000", Header(48_000_000, 0, 0, OpCode.OP_COMPRESSED)),
]


@pytest.mark.parametrize(("encoded", "header"), CASES, ids=lambda case: str(case)[:8])
def test_both_ways(encoded: str, header: Header) -> None:
    assert decode(unhex(encoded), 0) == header
    assert header.encode() == unhex(encoded)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("0f000000 01000000 00000000 dd070000", "15 bytes long"),
        ("00000000 01000000 00000000 dd070000", "0 bytes long"),
        ("ffffffff 01000000 00000000 dd070000", "-1 bytes long"),
        ("016cdc02 01000000 00000000 dd070000", "48000001 bytes long"),
        ("10000000 01000000 00000000 dd070001", "no opcode 16779229"),
        ("10000000 01000000 00000000 00000000", "no opcode 0"),
        ("47455420 2f204854 54502f31 2e310d0a", "542393671 bytes long"),
    ],
)
def test_a_bad_header_is_refused_before_its_message_arrives(header: str, reason: str) -> None:
    buffer = ReceiveBuffer()
    buffer.append(unhex(header)[:15])
    assert buffer.next_frame() is None
    buffer.append(unhex(header)[15:])
    with pytest.raises(WireError, match=reason):
        buffer.next_frame()


def test_frames_are_the_same_for_all_ways_of_arrival() -> None:
    assert framed(message(2013, b"hello, world")) == (Header(28, 1, 0, OpCode.OP_MSG), b"hello, world")
    assert framed(message(2013, bytes(1000)))[1] == bytes(1000)


def test_a_thousand_messages_in_one_read_and_in_reads_of_any_size() -> None:
    expected = [bytes([number % 251]) * (number % 40) for number in range(1000)]
    data = b"".join(message(2013, payload) for payload in expected)
    for size in (len(data), 1, 7, 16, 17, 999):
        buffer, seen = ReceiveBuffer(), []
        for start in range(0, len(data), size):
            buffer.append(data[start : start + size])
            while (frame := buffer.next_frame()) is not None:
                seen.append(frame[1])
        assert seen == expected
        assert len(buffer) == 0


def test_reads_between_messages_keep_their_order() -> None:
    """One message is taken for each read, so the rest accumulates in the buffer."""
    data = b"".join(message(2013, b"%d" % number) for number in range(200))
    buffer, seen = ReceiveBuffer(), []
    for start in range(0, len(data), 50):
        buffer.append(data[start : start + 50])
        if (frame := buffer.next_frame()) is not None:
            seen.append(frame[1])
    while (frame := buffer.next_frame()) is not None:
        seen.append(frame[1])
    assert seen == [b"%d" % number for number in range(200)]


def test_the_largest_message_in_many_pieces() -> None:
    payload = bytes(range(256)) * ((MAX_MESSAGE_SIZE - 16) // 256)
    data = memoryview(message(2013, payload))
    buffer = ReceiveBuffer()
    for start in range(0, len(data), 100_000):
        assert buffer.next_frame() is None
        buffer.append(bytes(data[start : start + 100_000]))
    frame = buffer.next_frame()
    assert frame is not None
    assert frame[1] == payload
