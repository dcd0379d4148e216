"""OP_MSG: layouts in both directions, faults with an error reply, faults that close a connection."""

from struct import pack

import google_crc32c
import pytest

from tailrace.bson.documents import decode as decode_document
from tailrace.errors import CommandError, WireError
from tailrace.mongod.wire import op_msg
from tailrace.mongod.wire.header import Header, OpCode
from tailrace.mongod.wire.header import decode as decode_header
from tailrace.mongod.wire.op_msg import CHECKSUM_PRESENT, EXHAUST_ALLOWED, MORE_TO_COME, OpMsg
from tests.mongod.wire.messages import doc, framed, message, recorded, unhex

PING = doc(ping=1)
PING_HEX = "0f000000 10 70696e6700 01000000 00"
ONE, TWO = doc(_id=1), doc(_id=2)

CASES = {
    "body": (
        f"""24000000 01000000 00000000 dd070000 | header
            00000000                            | no flags
            00 {PING_HEX}                       | body""",
        OpMsg(PING),
    ),
    "checksum": (
        f"""28000000 01000000 00000000 dd070000
            01000000                            | checksumPresent
            00 {PING_HEX}
            ad90aa79                            | CRC-32C""",
        OpMsg(PING, flags=CHECKSUM_PRESENT),
    ),
    "more to come": (
        f"24000000 01000000 00000000 dd070000 02000000 00 {PING_HEX}",
        OpMsg(PING, flags=MORE_TO_COME),
    ),
    "exhaust allowed": (
        f"24000000 01000000 00000000 dd070000 00000100 00 {PING_HEX}",
        OpMsg(PING, flags=EXHAUST_ALLOWED),
    ),
    "optional flags nobody knows": (
        f"24000000 01000000 00000000 dd070000 000000a0 00 {PING_HEX}",
        OpMsg(PING, flags=0xA0000000),
    ),
    "one sequence": (
        f"""49000000 01000000 00000000 dd070000 00000000
            00 {PING_HEX}
            01                                  | a document sequence
            24000000 6f707300                   | of 36 bytes called ops
            0e000000 10 5f696400 01000000 00    | {{_id: 1}}
            0e000000 10 5f696400 02000000 00    | {{_id: 2}}""",
        OpMsg(PING, {"ops": [ONE, TWO]}),
    ),
    "two sequences, one empty": (
        f"""47000000 01000000 00000000 dd070000 00000000 00 {PING_HEX}
            01 16000000 6f707300 0e000000 10 5f696400 02000000 00
            01 0b000000 6e73496e666f00          | nothing but its name""",
        OpMsg(PING, {"ops": [TWO], "nsInfo": []}),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("encoded", "value"), CASES.values(), ids=CASES)
def test_both_ways(encoded: str, value: OpMsg) -> None:
    data = unhex(encoded)
    assert op_msg.encode(value, 1) == data
    assert op_msg.decode(*framed(data)) == value


@pytest.mark.parametrize(
    ("name", "flags", "sequences"),
    [
        ("ping", 0, {}),
        ("insert", 0, {"documents": [{"_id": 1, "item": "lamp"}, {"_id": 2, "item": "rope"}]}),
        ("insert-unacknowledged", MORE_TO_COME, {"documents": [{"_id": 3}]}),
        ("find", 0, {}),
        ("getMore-exhaust", EXHAUST_ALLOWED, {}),
        ("hello-exhaust", EXHAUST_ALLOWED, {}),
        ("bulkWrite", 0, {"ops": [{"insert": 0, "document": {"_id": 4}}], "nsInfo": [{"ns": "test.c"}]}),
    ],
)
def test_messages_that_pymongo_sent(
    name: str, flags: int, sequences: dict[str, list[dict[str, object]]]
) -> None:
    data = recorded(name)
    header, payload = framed(data)
    decoded = op_msg.decode(header, payload)
    assert decoded.flags == flags
    assert next(iter(decode_document(decoded.body))) == name.partition("-")[0]
    assert {key: [*map(decode_document, found)] for key, found in decoded.sequences.items()} == sequences
    assert op_msg.encode(decoded, header.request_id) == data


def test_sections_may_be_in_any_order() -> None:
    payload = unhex(f"00000000 01 16000000 6f707300 0e000000 10 5f696400 01000000 00 00 {PING_HEX}")
    assert op_msg.decode(*framed(message(2013, payload))) == OpMsg(PING, {"ops": [ONE]})


def test_merging_gives_the_document_without_sequences() -> None:
    many = [doc(_id=number, x="ä" * number) for number in range(120)]
    merged = OpMsg(doc(insert="c", ordered=True), {"documents": many, "none": []}).merged()
    expected = {"insert": "c", "ordered": True, "documents": [*map(decode_document, many)], "none": []}
    assert decode_document(merged) == expected
    assert merged == doc(**expected)
    assert OpMsg(PING).merged() is PING


def sequence(name: bytes, *documents: bytes) -> bytes:
    content = name + b"\0" + b"".join(documents)
    return b"\1" + pack("<i", len(content) + 4) + content


def nested(depth: int) -> bytes:
    document = b"\5\0\0\0\0"
    for _ in range(depth):
        document = pack("<i", len(document) + 8) + b"\x03a\0" + document + b"\0"
    return document


BODY = b"\0" + PING
ANSWERED = {
    "two bodies": (BODY + BODY, 40430),
    "no body": (sequence(b"ops", ONE), 40587),
    "nothing": (b"", 40587),
    "the same sequence twice": (BODY + sequence(b"ops") + sequence(b"ops", ONE), 40431),
    "a section of kind 2": (BODY + b"\2", 40432),
    "a section of kind 255 in front": (b"\xff" + BODY, 40432),
    "a field that is a sequence, too": (BODY + sequence(b"ping", ONE), 40433),
    "a body that is not BSON": (b"\0" + unhex("0f000000 10 70696e6700 01000000 01"), 22),
    "an unknown type": (b"\0" + unhex("0f000000 20 70696e6700 01000000 00"), 22),
    "a sequence with a document that is not BSON": (BODY + sequence(b"ops", ONE, b"\6\0\0\0\x10\0"), 22),
    "a body that is too deep": (b"\0" + nested(201), 15),
    "a body that is absurdly deep": (b"\0" + nested(20_000), 15),
    "a document that is too deep": (BODY + sequence(b"ops", nested(201)), 15),
    "a document that is too large": (BODY + sequence(b"ops", doc(x=bytes(16 * 1024 * 1024 + 16384))), 10334),
}


@pytest.mark.parametrize(("sections", "code"), ANSWERED.values(), ids=ANSWERED)
def test_faults_with_an_error_reply(sections: bytes, code: int) -> None:
    payload = b"\0\0\0\0" + sections
    with pytest.raises(CommandError) as raised:
        op_msg.decode(Header(16 + len(payload), 1, 0, OpCode.OP_MSG), payload)
    assert raised.value.code == code


def test_two_hundred_levels_are_accepted() -> None:
    payload = b"\0\0\0\0\0" + nested(200) + sequence(b"ops", nested(200))
    assert op_msg.decode(*framed(message(2013, payload))).body == nested(200)


CLOSING = {
    "no flags": (b"\0\0\0", "before its flags"),
    "an unknown required flag": (b"\4\0\0\0" + BODY, "0x0004 are not known .223 IllegalOpMsgFlag"),
    "all flags": (b"\xff\xff\xff\xff" + BODY, "0xfffc are not known"),
    "a checksum that is not there": (b"\1\0\0\0\0\0\0", "before its checksum"),
    "a wrong checksum": (b"\1\0\0\0" + BODY + b"\0\0\0\0", "checksum .*288 ChecksumMismatch"),
    "three sequences": (
        b"\0\0\0\0" + BODY + sequence(b"a") + sequence(b"b") + sequence(b"c"), "233 TooManyDocumentSequences"
    ),
    "a body longer than the message": (b"\0\0\0\0\0" + pack("<i", 99) + PING[4:], "99 bytes does not fit"),
    "a body shorter than any": (b"\0\0\0\0\0" + pack("<i", 4) + PING[4:], "4 bytes does not fit"),
    "a body of negative length": (b"\0\0\0\0\0" + pack("<i", -5) + PING[4:], "-5 bytes does not fit"),
    "a body cut off in its length": (b"\0\0\0\0\0\0\0", "last 2 bytes"),
    "a sequence cut off in its size": (b"\0\0\0\0" + BODY + b"\1\0\0", "within its size"),
    "a sequence longer than the message": (b"\0\0\0\0" + BODY + b"\1" + pack("<i", 9) + b"ab\0c", "9 bytes"),
    "a sequence of no size": (b"\0\0\0\0" + BODY + b"\1" + pack("<i", 0) + b"ab\0c", "of 0 bytes"),
    "a sequence of negative size": (b"\0\0\0\0" + BODY + b"\1" + pack("<i", -1) + b"ab\0c", "of -1 bytes"),
    "a sequence whose name has no end": (b"\0\0\0\0" + BODY + b"\1" + pack("<i", 6) + b"ab\0c", "no name"),
    "a sequence whose name is no text": (b"\0\0\0\0" + BODY + sequence(b"\xff"), "not UTF-8"),
    "a document longer than its sequence": (
        b"\0\0\0\0" + BODY + sequence(b"ops", ONE[:-1]) + sequence(b"more", ONE), "14 bytes does not fit"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("payload", "reason"), CLOSING.values(), ids=CLOSING)
def test_faults_that_close_a_connection(payload: bytes, reason: str) -> None:
    header, received = framed(message(2013, payload))
    with pytest.raises(WireError, match=reason):
        op_msg.decode(header, received)


def test_the_checksum_covers_every_bit() -> None:
    data = op_msg.encode(OpMsg(PING, {"ops": [ONE]}, CHECKSUM_PRESENT), 7, 8)
    assert data[-4:] == google_crc32c.value(data[:-4]).to_bytes(4, "little")
    ids, rest = range(4, 12), range(16, len(data))  # a wrong size or opcode makes it another message
    for bit in (8 * byte + bit for byte in (*ids, *rest) for bit in range(8)):
        if bit == 8 * 16:
            continue  # the flag for a checksum
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(WireError):
            op_msg.decode(decode_header(damaged, 0), bytes(damaged[16:]))
