"""OP_COMPRESSED: every compressor in both directions, messages of drivers, and size limits."""

import sys
import tracemalloc
import zlib
from struct import pack

import cramjam
import pytest

from tailrace.errors import WireError
from tailrace.mongod.wire import op_msg
from tailrace.mongod.wire.compression import COMPRESSORS, Compressor, compress, decompress, negotiate
from tailrace.mongod.wire.header import MAX_MESSAGE_SIZE, Header, OpCode, decode
from tailrace.mongod.wire.op_msg import OpMsg
from tests.mongod.wire.messages import doc, framed, message, recorded, unhex

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

every_compressor = pytest.mark.parametrize("compressor", COMPRESSORS.values(), ids=COMPRESSORS)
packing_compressors = pytest.mark.parametrize(
    "compressor", [COMPRESSORS[name] for name in ("snappy", "zlib", "zstd")], ids=lambda item: item.name
)

PING = op_msg.encode(OpMsg(doc(ping=1)), 5, 6)
LAYOUT = """2d000000 05000000 06000000 dc070000  | header
            dd070000 14000000 00                 | OP_MSG, 20 bytes, noop
            00000000 00 0f000000 10 70696e6700 01000000 00"""


def test_the_layout() -> None:
    unpacked = Header(36, 5, 6, OpCode.OP_MSG), PING[16:], COMPRESSORS["noop"]
    assert compress(PING, COMPRESSORS["noop"]) == unhex(LAYOUT)
    assert decompress(*framed(unhex(LAYOUT))) == unpacked


@every_compressor
@pytest.mark.parametrize("size", [0, 1, 100, 65_536, 3_000_000])
def test_both_ways(compressor: Compressor, size: int) -> None:
    original = op_msg.encode(OpMsg(doc(x=b"tailrace" * (size // 8))), 7, 8)
    packed = compress(original, compressor)
    header, payload = framed(packed) if size <= 100 else (decode(packed, 0), packed[16:])
    assert header[1:] == (7, 8, OpCode.OP_COMPRESSED)
    unpacked, content, used = decompress(header, payload)
    assert unpacked.encode() + content == original
    assert used is compressor
    if size > 1000 and compressor.name != "noop":
        assert len(packed) < len(original) / 10


@packing_compressors
def test_messages_that_pymongo_compressed(compressor: Compressor) -> None:
    header, payload, used = decompress(*framed(recorded(f"ping-{compressor.name}")))
    assert used is compressor
    body = op_msg.decode(header, payload).body
    plain = op_msg.decode(*framed(recorded("ping"))).body
    assert len(body) == len(plain)
    assert body[:20] == plain[:20]


def packed_message(content: bytes, size: int, compressor: int, code: int = 2013) -> tuple[Header, bytes]:
    payload = pack("<iiB", code, size, compressor) + content
    return Header(16 + len(payload), 1, 0, OpCode.OP_COMPRESSED), payload


CONTENT = PING[16:]
SNAPPY = bytes(cramjam.snappy.compress_raw(CONTENT))
ZLIB = zlib.compress(CONTENT)
ZSTD = zstd.compress(CONTENT)
SIZE = len(CONTENT)
BROKEN = {
    "a size that is too small, noop": (CONTENT, SIZE - 1, 0, "should unpack to 19 bytes"),
    "a size that is too large, noop": (CONTENT, SIZE + 1, 0, "should unpack to 21 bytes"),
    "a size that is too small, snappy": (SNAPPY, SIZE - 1, 1, "do not hold 19 bytes"),
    "a size that is too large, snappy": (SNAPPY, SIZE + 1, 1, "do not hold 21 bytes"),
    "a size that is too small, zlib": (ZLIB, SIZE - 1, 2, "does"),
    "a size that is too large, zlib": (ZLIB, SIZE + 1, 2, "should unpack to 21 bytes"),
    "a size that is too small, zstd": (ZSTD, SIZE - 1, 3, "does"),
    "a size that is too large, zstd": (ZSTD, SIZE + 1, 3, "should unpack to 21 bytes"),
    "snappy cut off": (SNAPPY[:-1], SIZE, 1, "not valid snappy"),
    "zlib cut off": (ZLIB[:-1], SIZE, 2, "does not end"),
    "zstd cut off": (ZSTD[:-1], SIZE, 3, "does not end"),
    "zlib with a tail": (ZLIB + b"\0", SIZE, 2, "does not end"),
    "zstd with a tail": (ZSTD + b"\0", SIZE, 3, "does not end"),
    "no snappy": (b"\x14" + b"\xff" * 20, SIZE, 1, "not valid snappy"),
    "empty snappy": (b"", 0, 1, "."),
    "no zlib": (b"not zlib", SIZE, 2, "not valid zlib"),
    "no zstd": (b"not zstd", SIZE, 3, "not valid zstd"),
    "a negative size": (CONTENT, -1, 0, "claims to hold -1 bytes"),
    "a size over the limit": (CONTENT, MAX_MESSAGE_SIZE - 15, 0, "claims to hold 47999985 bytes"),
    "an unknown compressor": (CONTENT, SIZE, 4, "compressor 4 is not available"),
}


@pytest.mark.parametrize(("content", "size", "compressor", "reason"), BROKEN.values(), ids=BROKEN)
def test_broken_messages(content: bytes, size: int, compressor: int, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        decompress(*packed_message(content, size, compressor))


def test_opcodes_that_cannot_be_compressed() -> None:
    with pytest.raises(WireError, match="holds an OP_COMPRESSED"):
        decompress(*packed_message(CONTENT, SIZE, 0, code=2012))
    with pytest.raises(WireError, match="no opcode 4711"):
        decompress(*packed_message(CONTENT, SIZE, 0, code=4711))
    with pytest.raises(WireError, match="before its content"):
        decompress(*framed(message(2012, bytes(8))))


def test_only_accepted_compressors_are_used() -> None:
    with pytest.raises(WireError, match="compressor 2 is not available"):
        decompress(*packed_message(ZLIB, SIZE, 2), {"snappy", "zstd"})


@packing_compressors
@pytest.mark.parametrize("claimed", [100, 1_000_000])
def test_a_decompression_bomb_is_refused(compressor: Compressor, claimed: int) -> None:
    """Compressed bytes that would expand to far more than the stated size."""
    bomb = compressor.pack(memoryview(bytes(10_000_000)))
    arguments = packed_message(bomb, claimed, compressor.id)
    tracemalloc.start()
    try:
        with pytest.raises(WireError):
            decompress(*arguments)
        assert tracemalloc.get_traced_memory()[1] < len(bomb) + 2 * claimed + 500_000
    finally:
        tracemalloc.stop()


def test_memory_is_not_allocated_for_a_stated_size() -> None:
    """A few bytes of snappy cannot contain 48 MB, regardless of their stated size."""
    claim = MAX_MESSAGE_SIZE - 16
    header = bytes([claim & 0x7F | 0x80, claim >> 7 & 0x7F | 0x80, claim >> 14 & 0x7F | 0x80, claim >> 21])
    assert cramjam.snappy.decompress_raw_len(header + b"\0a") == claim
    with pytest.raises(WireError, match="do not hold"):
        decompress(*packed_message(header + b"\0a", claim, 1))


def test_the_best_ratio_of_snappy_is_accepted() -> None:
    content = bytes(MAX_MESSAGE_SIZE - 16)
    packed = bytes(cramjam.snappy.compress_raw(content))
    assert decompress(*packed_message(packed, len(content), 1))[1] == content


def test_a_message_too_large_when_compressed_is_sent_uncompressed() -> None:
    original = message(2013, bytes(MAX_MESSAGE_SIZE - 16))
    assert compress(original, COMPRESSORS["noop"]) == original


@pytest.mark.parametrize(
    ("client", "server", "both"),
    [
        (["zlib", "snappy"], ["snappy", "zstd", "zlib"], ["zlib", "snappy"]),
        (["snappy", "snappy", "lz4"], ["snappy"], ["snappy"]),
        ([], ["snappy"], []),
        (["zstd"], [], []),
    ],
)
def test_negotiation_keeps_the_clients_order(client: list[str], server: list[str], both: list[str]) -> None:
    assert negotiate(client, server) == both
