"""Any input gives requests, requests with an error, or a `WireError`, with bounded memory."""

import tracemalloc
from struct import pack

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tailrace.bson.documents import decode
from tailrace.errors import WireError
from tailrace.mongod.wire import (
    COMPRESSORS,
    MAX_MESSAGE_SIZE,
    NEED_DATA,
    ClientConnection,
    Connection,
    OpCode,
)
from tailrace.mongod.wire.compression import Compressor, compress
from tests.mongod.wire.messages import RECORDED, doc, message, recorded

OK = doc(ok=1.0)
SAMPLES = [recorded(path.stem) for path in sorted(RECORDED.glob("*.hex"))]
SAMPLES += [
    ClientConnection(checksum=True).send(doc(ping=1, **{"$db": "x"}), {"ops": [OK, OK]}),
    ClientConnection().send_handshake(doc(hello=1)),
]
op_codes = st.sampled_from([int(code) for code in OpCode] + [OpCode.OP_MSG] * 8)


def run(data: bytes, sizes: list[int]) -> None:
    """Receive in pieces of these sizes and reply to everything, on both ends."""
    server, client = Connection(), ClientConnection()
    position = index = 0
    while position < len(data):
        size = sizes[index % len(sizes)]
        piece, position, index = data[position : position + size], position + size, index + 1
        try:
            server.receive_data(piece)
            while (request := server.next_message()) is not NEED_DATA:
                if request.error is not None:
                    answer = server.refuse(request)
                else:
                    decode(request.merged_command())
                    answer = server.send(request, OK, more_to_come=request.exhaust_allowed)
                assert bool(answer) is request.expects_reply
                client.receive_data(answer)
                assert (client.next_message() is not NEED_DATA) is bool(answer)
        except WireError:
            break
    reader = ClientConnection()
    try:
        reader.receive_data(data)
        while reader.next_message() is not NEED_DATA:
            pass
    except WireError:
        pass


piece_sizes = st.lists(st.integers(1, 60), min_size=1, max_size=5)


@settings(max_examples=150, derandomize=False, print_blob=True, deadline=None)
@given(st.binary(max_size=200), piece_sizes)
def test_random_bytes(data: bytes, sizes: list[int]) -> None:
    run(data, sizes)


@settings(max_examples=300, derandomize=False, print_blob=True, deadline=None)
@given(
    op_codes, st.sampled_from([b"", bytes(4), bytes(5), b"\2\0\1\0\0"]), st.binary(max_size=60), piece_sizes
)
def test_random_payloads(code: int, start: bytes, payload: bytes, sizes: list[int]) -> None:
    run(message(code, start + payload) * 2, sizes)


changes = st.lists(
    st.tuples(st.integers(16, 200), st.sampled_from(["set", "cut", "insert"]), st.binary(max_size=5)),
    min_size=1,
    max_size=4,
)


def mutated(data: bytes, edits: list[tuple[int, str, bytes]]) -> bytes:
    """The message with a damaged payload and the right length."""
    damaged = bytearray(data)
    for place, kind, piece in edits:
        position = place % len(damaged)
        if kind == "set":
            damaged[position : position + len(piece)] = piece
        elif kind == "cut":
            del damaged[position : position + len(piece)]
        else:
            damaged[position:position] = piece
    assume(len(damaged) >= 16)
    damaged[:4] = pack("<i", len(damaged))
    return bytes(damaged)


@settings(max_examples=350, derandomize=False, print_blob=True, deadline=None)
@given(st.sampled_from(SAMPLES), changes, piece_sizes)
def test_damaged_messages(sample: bytes, edits: list[tuple[int, str, bytes]], sizes: list[int]) -> None:
    run(mutated(sample, edits) + sample, sizes)


@settings(max_examples=150, derandomize=False, print_blob=True, deadline=None)
@given(st.sampled_from(SAMPLES), changes, st.sampled_from([*COMPRESSORS.values()]))
def test_damaged_compressed_messages(
    sample: bytes, edits: list[tuple[int, str, bytes]], compressor: Compressor
) -> None:
    packed = compress(sample[:16] + mutated(sample, edits)[16:], compressor)
    run(packed + sample, [len(packed)])


@settings(max_examples=150, derandomize=False, print_blob=True, deadline=None)
@given(
    st.integers(-1, MAX_MESSAGE_SIZE) | st.integers(0, 100),
    st.integers(0, 4),
    st.binary(max_size=40),
    op_codes,
)
def test_random_compressed_content(size: int, compressor: int, content: bytes, code: int) -> None:
    run(message(OpCode.OP_COMPRESSED, pack("<iiB", code, size, compressor) + content), [1000])


def test_memory_is_not_allocated_for_stated_lengths() -> None:
    """Headers and lengths with the largest sizes, followed by few bytes."""
    large = MAX_MESSAGE_SIZE
    claims = [
        message(OpCode.OP_MSG, b"", length=large),
        message(OpCode.OP_MSG, bytes(5) + pack("<i", large)),
        message(OpCode.OP_MSG, bytes(4) + b"\1" + pack("<i", large) + b"ops\0"),
        message(OpCode.OP_REPLY, bytes(16) + pack("<i", 2**31 - 1)),
        *(
            message(OpCode.OP_COMPRESSED, pack("<iiB", 2013, large - 16, number) + b"\0" * 9)
            for number in range(4)
        ),
    ]
    tracemalloc.start()
    try:
        for claim in claims:
            run(claim, [len(claim)])
        assert tracemalloc.get_traced_memory()[1] < 500_000
    finally:
        tracemalloc.stop()
