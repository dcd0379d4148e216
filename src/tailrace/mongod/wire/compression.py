"""OP_COMPRESSED: another message, compressed.

::

    int32 original opcode | int32 uncompressed size | uint8 compressor | the compressed payload

The header of the original message is not included; its size and opcode follow from these fields. The size is
checked before anything is decompressed, and no compressor may produce more than that.
"""

import sys
import zlib
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from io import BytesIO
from struct import Struct
from typing import Any, Final

import cramjam

from tailrace.errors import WireError
from tailrace.mongod.wire.header import HEADER_SIZE, MAX_MESSAGE_SIZE, Header, OpCode, frame, op_code
from tailrace.mongod.wire.header import decode as decode_header

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

NEVER_COMPRESSED: Final = frozenset(
    {
        "hello", "ismaster", "saslstart", "saslcontinue", "getnonce", "authenticate",
        "createuser", "updateuser", "copydbsaslstart", "copydbgetnonce", "copydb",
    }
)  # fmt: skip
"""Commands a client never compresses, in lower case: the handshake, and commands that contain secrets."""

_LAYOUT: Final = Struct("<iiB")
# A snappy element of three bytes copies at most 64.
_BEST_SNAPPY_RATIO: Final = 22
_BLOCK: Final = 1 << 19
_WRONG_END: Final = "a compressed message does not end where its content does"


@dataclass(frozen=True, slots=True)
class Compressor:
    """A compression method; ``unpack`` gets the expected size and returns at most one byte more."""

    name: str
    id: int
    pack: Callable[[memoryview], bytes]
    unpack: Callable[[bytes | memoryview, int], bytes]


def _unpack_snappy(packed: bytes | memoryview, size: int) -> bytes:
    # The compressed bytes begin with the size; snappy allocates that much before it reads further.
    if size > len(packed) * _BEST_SNAPPY_RATIO or cramjam.snappy.decompress_raw_len(packed) != size:
        raise WireError(f"{len(packed)} bytes of snappy do not hold {size} bytes")
    return bytes(cramjam.snappy.decompress_raw(packed))


def _unpack_zlib(packed: bytes | memoryview, size: int) -> bytes:
    return _unpack_in_blocks(zlib.decompressobj(), packed, size)


def _unpack_zstd(packed: bytes | memoryview, size: int) -> bytes:
    return _unpack_in_blocks(zstd.ZstdDecompressor(), packed, size)


def _unpack_in_blocks(unpacker: Any, packed: bytes | memoryview, size: int) -> bytes:
    """Unpack a block at a time: other threads wait until a block is copied, not until a message is."""
    content = BytesIO()
    for start in range(0, len(packed), _BLOCK):
        given: bytes | memoryview | None = packed[start : start + _BLOCK]
        while given is not None:
            if unpacker.eof or content.tell() > size:
                raise WireError(_WRONG_END)
            most = min(_BLOCK, size + 1 - content.tell())
            block = unpacker.decompress(given, most)
            content.write(block)
            # zlib returns the input that it has not used; zstd keeps it.
            rest: bytes = getattr(unpacker, "unconsumed_tail", b"")
            is_complete = unpacker.eof or (not rest and len(block) < most)
            given = None if is_complete else rest
    if not unpacker.eof or unpacker.unused_data:
        raise WireError(_WRONG_END)
    return content.getvalue()


COMPRESSORS: Final = {
    compressor.name: compressor
    for compressor in (
        Compressor("noop", 0, bytes, lambda packed, _: bytes(packed)),
        Compressor("snappy", 1, lambda content: bytes(cramjam.snappy.compress_raw(content)), _unpack_snappy),
        Compressor("zlib", 2, zlib.compress, _unpack_zlib),
        Compressor("zstd", 3, zstd.compress, _unpack_zstd),
    )
}
"""Every compressor, by the name used in the negotiation; `noop` is for tests, as in MongoDB."""

OFFERED: Final = ("snappy", "zstd", "zlib")
"""What a server accepts, with or without a negotiation, as MongoDB does."""

_BY_ID: Final = {compressor.id: compressor for compressor in COMPRESSORS.values()}
_FAULTS: Final = (cramjam.DecompressionError, zlib.error, zstd.ZstdError)


def negotiate(client: Iterable[str], server: Iterable[str]) -> list[str]:
    """The compressors that both sides support, in the client's order; `compression` in the reply of `hello`.

    >>> negotiate(["zstd", "lz4", "snappy"], ["snappy", "zstd", "zlib"])
    ['zstd', 'snappy']
    """
    known = set(server)
    return [name for name in dict.fromkeys(client) if name in known]


def compress(message: bytes, compressor: Compressor) -> bytes:
    """A message as OP_COMPRESSED; the original message if that would be too large to send."""
    _, request_id, response_to, code = decode_header(message, 0)
    packed = compressor.pack(memoryview(message)[HEADER_SIZE:])
    if HEADER_SIZE + _LAYOUT.size + len(packed) > MAX_MESSAGE_SIZE:
        return message
    fields = _LAYOUT.pack(code, len(message) - HEADER_SIZE, compressor.id)
    return frame(OpCode.OP_COMPRESSED, request_id, response_to, fields + packed)


def unpacked_size(payload: bytes) -> int:
    """The size that the beginning of an OP_COMPRESSED claims for its content; at most that of a message."""
    if len(payload) < _LAYOUT.size:
        return 0
    size: int = _LAYOUT.unpack_from(payload)[1]
    return min(max(size, 0), MAX_MESSAGE_SIZE)


def decompress(
    header: Header, payload: bytes | memoryview, accepted: Container[str] = COMPRESSORS
) -> tuple[Header, bytes, Compressor]:
    """Header and payload of the original message, and its compressor, which must be one of ``accepted``."""
    if len(payload) < _LAYOUT.size:
        raise WireError("an OP_COMPRESSED ends before its content")
    code, size, compressor_id = _LAYOUT.unpack_from(payload)
    original = op_code(code)
    if original is OpCode.OP_COMPRESSED:
        raise WireError("an OP_COMPRESSED holds an OP_COMPRESSED")
    if not 0 <= size <= MAX_MESSAGE_SIZE - HEADER_SIZE:
        raise WireError(f"an OP_COMPRESSED claims to hold {size} bytes")
    compressor = _BY_ID.get(compressor_id)
    if compressor is None or compressor.name not in accepted:
        raise WireError(f"compressor {compressor_id} is not available")
    try:
        content = compressor.unpack(payload[_LAYOUT.size :], size)
    except _FAULTS as fault:
        raise WireError(f"a message is not valid {compressor.name}: {fault}") from None
    if len(content) != size:
        raise WireError(f"a message should unpack to {size} bytes and does not")
    unpacked = Header(HEADER_SIZE + size, header.request_id, header.response_to, original)
    return unpacked, content, compressor
