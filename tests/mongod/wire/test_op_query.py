"""OP_QUERY and OP_REPLY: the legacy handshake."""

from struct import pack

import pytest

from tailrace.errors import WireError
from tailrace.mongod.wire import op_query, op_reply
from tailrace.mongod.wire.op_query import OpQuery
from tailrace.mongod.wire.op_reply import OpReply
from tests.mongod.wire.messages import doc, framed, message, unhex

HELLO_HEX = "10000000 10 68656c6c6f00 01000000 00"
NAMESPACE_HEX = "61646d696e2e24636d6400"

QUERIES = {
    "hello": (
        f"""37000000 01000000 00000000 d4070000 | header
            00000000 {NAMESPACE_HEX}            | no flags, admin.$cmd
            00000000 ffffffff                   | skip 0, return -1
            {HELLO_HEX}""",
        OpQuery("admin.$cmd", doc(hello=1)),
    ),
    "with fields": (
        f"""45000000 01000000 00000000 d4070000
            44000000 {NAMESPACE_HEX} 02000000 01000000
            {HELLO_HEX}
            0e000000 10 5f696400 01000000 00""",
        OpQuery("admin.$cmd", doc(hello=1), 0x44, 2, 1, doc(_id=1)),
    ),
}
REPLIES = {
    "ok": (
        """35000000 01000000 09000000 01000000 | header
           08000000 0000000000000000           | await capable, no cursor
           00000000 01000000                   | from 0, one document
           11000000 01 6f6b00 000000000000f03f 00""",
        OpReply((doc(ok=1.0),)),
    ),
    "two documents": (
        """40000000 01000000 09000000 01000000
           02000000 ffffffffffffffff 03000000 02000000
           0e000000 10 5f696400 01000000 00 0e000000 10 5f696400 02000000 00""",
        OpReply((doc(_id=1), doc(_id=2)), 2, -1, 3),
    ),
    "nothing": (
        "24000000 01000000 09000000 01000000 00000000 0000000000000000 00000000 00000000",
        OpReply((), 0),
    ),
}


@pytest.mark.parametrize(("encoded", "value"), QUERIES.values(), ids=QUERIES)
def test_queries_both_ways(encoded: str, value: OpQuery) -> None:
    assert op_query.encode(value, 1) == unhex(encoded)
    assert op_query.decode(framed(unhex(encoded))[1]) == value


@pytest.mark.parametrize(("encoded", "value"), REPLIES.values(), ids=REPLIES)
def test_replies_both_ways(encoded: str, value: OpReply) -> None:
    assert op_reply.encode(value, 1, 9) == unhex(encoded)
    assert op_reply.decode(framed(unhex(encoded))[1]) == value


HELLO = unhex(HELLO_HEX)
START = bytes(4) + b"admin.$cmd\0" + pack("<ii", 0, -1)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "before its query"),
        (bytes(3), "before its query"),
        (bytes(4) + b"admin.$cmd", "before its query"),
        (START[:-1], "before its query"),
        (START, "last 0 bytes"),
        (START + HELLO[:-1], "does not fit"),
        (START + pack("<i", -1) + HELLO[4:], "-1 bytes does not fit"),
        (START + HELLO + b"\0", "last 1 bytes"),
        (START + HELLO + HELLO[:-1], "does not fit"),
        (START + HELLO + HELLO + b"\0", "bytes after"),
        (START.replace(b"admin", b"\xff\xff\xff\xff\xff") + HELLO, "not UTF-8"),
    ],
)
def test_broken_queries(payload: bytes, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        op_query.decode(framed(message(2004, payload))[1])


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (bytes(19), "before its documents"),
        (bytes(16) + pack("<i", 1), "promises 1 documents and has 0"),
        (bytes(16) + pack("<i", 0) + HELLO, "promises 0 documents and has 1"),
        (bytes(16) + pack("<i", -1), "promises -1 documents"),
        (bytes(16) + pack("<i", 2**31 - 1) + HELLO, "promises 2147483647 documents"),
        (bytes(16) + pack("<i", 1) + HELLO[:-1], "does not fit"),
    ],
)
def test_broken_replies(payload: bytes, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        op_reply.decode(framed(message(1, payload))[1])
