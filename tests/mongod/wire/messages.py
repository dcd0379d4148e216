"""Messages in hex, and the ways to pass them to a codec."""

from collections.abc import Iterator
from pathlib import Path
from struct import pack
from typing import Any

from tailrace.bson.documents import encode
from tailrace.mongod.wire.header import Header, OpCode
from tailrace.mongod.wire.receive_buffer import ReceiveBuffer

RECORDED = Path(__file__).parent / "recorded"


def doc(**fields: Any) -> bytes:
    return encode(fields)


def unhex(text: str) -> bytes:
    """Hex digits with a comment after each `|`."""
    return bytes.fromhex("".join(line.partition("|")[0] for line in text.splitlines()))


def message(code: int, payload: bytes, *, length: int | None = None, request_id: int = 1) -> bytes:
    """A message whose header may be wrong."""
    size = 16 + len(payload) if length is None else length
    return pack("<iiii", size, request_id, 0, code) + payload


def feeds(data: bytes) -> Iterator[list[bytes]]:
    """The same message whole, byte by byte, in two halves, and followed by the beginning of another."""
    yield [data]
    yield [data[index : index + 1] for index in range(len(data))]
    yield [data[: len(data) // 2], data[len(data) // 2 :]]
    yield [data + b"\x10"]
    yield [data[:12], data[12:] + message(OpCode.OP_MSG, b"")[:15]]


def framed(data: bytes) -> tuple[Header, bytes]:
    """Header and payload, which must be the same for all ways of arrival."""
    results = []
    for pieces in feeds(data):
        buffer = ReceiveBuffer()
        for piece in pieces[:-1]:
            buffer.append(piece)
            assert buffer.next_frame() is None
        buffer.append(pieces[-1])
        results.append(buffer.next_frame())
        assert buffer.next_frame() is None
        assert len(buffer) == sum(map(len, pieces)) - len(data)
    assert results[0] is not None
    assert results.count(results[0]) == len(results)
    return results[0]


def recorded(name: str) -> bytes:
    """A message that a driver sent, from a hexdump."""
    lines = (RECORDED / f"{name}.hex").read_text().splitlines()
    return bytes.fromhex("".join(line[10:58] for line in lines))


def hexdump(data: bytes) -> str:
    """The format that `recorded` reads."""
    lines = []
    for start in range(0, len(data), 16):
        row = data[start : start + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:08x}  {row.hex(' '):48}  |{text}|\n")
    return "".join(lines)
