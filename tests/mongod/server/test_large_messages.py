"""Messages of megabytes: read in pieces, in order, within a budget, and with the results of small ones."""

import random
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import decode, encode
from tailrace.mongod.wire import header
from tests.mongod.server.random_values import random_value
from tests.mongod.server.raw_client import RawClient, raw_client
from tests.mongod.server.running import RunningServer, running, wait_for

LARGE = 300_000
BUDGET = "tailraceMaxMessageMemoryBytes"
TIMEOUT = "tailraceHalfMessageTimeoutSecs"


@pytest.mark.parametrize("seed", range(2))
def test_a_large_command_arrives_exactly(raw: RawClient, seed: int) -> None:
    seed = seed or random.randrange(10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    values: list[Any] = []
    size = 0
    while size < LARGE or len(values) < 100:
        values.append(random_value(rng))
        size += len(encode({"": values[-1]}))
    command = {"echo": values[1:], **{f"more{number}": value for number, value in enumerate(values[:100])}}
    body = encode({**command, "$db": "admin"})
    raw.socket.sendall(raw.message(body))
    assert encode(decode(raw.receive().document)["echo"]) == body


def nested(levels: int) -> bytes:
    inner = rawbson.EMPTY
    for _ in range(levels - 1):
        inner = rawbson.document(rawbson.element(rawbson.DOCUMENT, b"a", inner))
    return inner


def array(*elements: bytes) -> bytes:
    return rawbson.document(*elements)


FILL = [rawbson.element(rawbson.DOCUMENT, b"%d" % number, rawbson.EMPTY) for number in range(60_000)]
FAULTY = {
    "text that is not UTF-8": (rawbson.element(rawbson.STRING, b"x", b"\x02\0\0\0\xff\0"), 22),
    "a boolean of 2": (rawbson.element(rawbson.BOOL, b"x", b"\x02"), 22),
    "an unknown type": (rawbson.element(0x42, b"x", b""), 22),
    "201 levels": (rawbson.element(rawbson.DOCUMENT, b"x", nested(200)), 15),
    "a length beyond the end": (rawbson.element(rawbson.DOCUMENT, b"x", b"\xff\xff\0\0\0"), 22),
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_fault_in_a_large_command_has_the_code_of_one_in_a_small(raw: RawClient, name: str) -> None:
    element, code = FAULTY[name]
    for fill in (FILL[:3], FILL):
        comment = rawbson.element(rawbson.ARRAY, b"comment", array(*fill, element))
        database = rawbson.string(b"$db", b"admin")
        body = rawbson.document(rawbson.element(rawbson.INT32, b"ping", b"\1\0\0\0"), comment, database)
        assert raw.call_raw(body)["code"] == code, len(fill)
    assert raw.call({"ping": 1})["ok"] == 1


def test_a_field_that_is_given_twice_is_refused_far_apart(raw: RawClient) -> None:
    once = rawbson.element(rawbson.INT32, b"comment", b"\1\0\0\0")
    fill = rawbson.element(rawbson.ARRAY, b"filler", array(*FILL))
    body = rawbson.document(
        rawbson.element(rawbson.INT32, b"ping", b"\1\0\0\0"),
        once,
        fill,
        once,
        rawbson.string(b"$db", b"admin"),
    )
    assert raw.call_raw(body)["code"] == 40413


def test_requests_of_a_connection_keep_their_order(raw: RawClient) -> None:
    document = {"_id": 1, "items": [{} for _ in range(60_000)]}
    raw.send({"insert": "ordered", "documents": [document], "$db": "large"})
    raw.send({"find": "ordered", "projection": {"_id": 1}, "$db": "large"})
    raw.send({"insert": "ordered", "$db": "large"}, sequences={"documents": [encode({**document, "_id": 2})]})
    raw.send({"count": "ordered", "$db": "large"})
    replies = [decode(raw.receive().document) for _ in range(4)]
    assert [reply.get("n") for reply in replies] == [1, None, 1, 2]
    assert replies[1]["cursor"]["firstBatch"] == [{"_id": 1}]


@pytest.fixture(scope="module")
def narrow() -> Iterator[RunningServer]:
    """A server with memory for about one large message, whose half-sent messages end soon."""
    with running(parameters={BUDGET: 1_500_000, TIMEOUT: 0.4}) as server:
        yield server


def insert_large(server: RunningServer, number: int) -> Any:
    with raw_client(server) as raw:
        document = {"_id": number, "text": "x" * 1_000_000}
        return raw.call({"insert": "items", "documents": [document], "$db": "narrow"})["n"]


def test_large_messages_wait_for_each_other(narrow: RunningServer) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda number: insert_large(narrow, number), range(8))) == [1] * 8


def test_clients_that_give_up_do_not_use_up_the_budget(narrow: RunningServer) -> None:
    for _ in range(5):
        with raw_client(narrow) as waiting:
            body = encode({"ping": 1, "comment": "x" * 1_400_000, "$db": "admin"})
            waiting.socket.sendall(waiting.message(body)[:700_000])
    assert insert_large(narrow, 100) == 1


def test_a_half_sent_message_ends_its_connection(narrow: RunningServer) -> None:
    message = header.frame(header.OpCode.OP_MSG, 1, 0, bytes(100))
    with raw_client(narrow) as idle, raw_client(narrow) as stalled, raw_client(narrow) as large:
        assert idle.call({"ping": 1})["ok"] == 1
        stalled.socket.sendall(message[:50])
        large.socket.sendall(struct.pack("<iiii", 40_000_000, 1, 0, 2013) + bytes(100_000))
        assert stalled.is_closed()
        assert large.is_closed()
        assert idle.call({"ping": 1})["ok"] == 1
    wait_for(lambda: "Connection closed because a message did not arrive completely" in narrow.messages())


def test_an_unacknowledged_large_write_of_a_client_that_has_gone_is_stored(server: RunningServer) -> None:
    documents = [encode({"_id": number, "text": "x" * 1000}) for number in range(1000)]
    with raw_client(server) as raw:
        raw.send({"insert": "gone", "$db": "large"}, sequences={"documents": documents}, more_to_come=True)
        raw.socket.shutdown(socket.SHUT_WR)
    with raw_client(server) as other:
        wait_for(lambda: other.call({"count": "gone", "$db": "large"})["n"] == 1000)
