"""Random input on sockets: every connection gets a reply or is closed, and the server keeps running.

Random bytes, messages with a few wrong bits, and well-formed commands with invalid contents. A reply is never
an internal error. `TAILRACE_SEED` shifts the seeds; a failure shows its seed.
"""

import random
import socket
from collections import Counter
from collections.abc import Iterator
from struct import pack, pack_into, unpack_from

import pytest
from bson import Binary, Int64

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import decode, encode
from tailrace.error_codes import ErrorCode
from tailrace.mongod.wire import ClientConnection, OpCode
from tests.laws.law_seeds import BASE_SEED
from tests.mongod.server.random_commands import RandomCommands
from tests.mongod.server.raw_client import RawClient, raw_client
from tests.mongod.server.running import Document, RunningServer, connected, running
from tests.mongod.wire.messages import RECORDED, message, recorded

CONNECTIONS, SLOW_CONNECTIONS = 400, 20_000
COMMANDS, SLOW_COMMANDS = 1_500, 60_000
PER_CONNECTION = 50
TIMEOUT_SECONDS = 20
SAMPLES = [recorded(path.stem) for path in sorted(RECORDED.glob("*.hex"))]
SAMPLES += [
    ClientConnection(checksum=True).send(encode({"ping": 1, "$db": "admin"})),
    ClientConnection().send_handshake(encode({"hello": 1})),
    ClientConnection().send(
        encode({"find": "c", "filter": {"a": [{"b": 1}]}, "$db": "fuzz", "maxTimeMS": 500})
    ),
    ClientConnection().send(
        encode({"insert": "c", "$db": "fuzz"}), {"documents": [encode({"_id": n}) for n in range(3)]}
    ),
    ClientConnection().send(
        encode({"aggregate": 1, "pipeline": [{"$changeStream": {}}], "cursor": {}, "$db": "fuzz"})
    ),
]


@pytest.fixture(scope="module")
def fuzzed() -> Iterator[RunningServer]:
    with running(log_level="warning") as server:
        yield server


@pytest.fixture(autouse=True)
def sound(fuzzed: RunningServer) -> Iterator[None]:
    """After every test the server answers other clients, works as before, and has logged no error."""
    yield
    with connected(fuzzed) as client:
        assert client.admin.command("ping")["ok"] == 1.0
        assert client.sound.things.insert_one({}).acknowledged
    assert [line for line in fuzzed.log() if line["s"] == "E"] == []
    assert not any("Traceback" in str(line) for line in fuzzed.log())


# -- bytes --------------------------------------------------------------------------------------------------


def converse(server: RunningServer, data: bytes, rng: random.Random) -> list[Document]:
    """Send bytes in pieces, half-close the socket, and read until the server closes it."""
    answered = b""
    with socket.create_connection(server.address, timeout=TIMEOUT_SECONDS) as connection:
        try:
            position = 0
            while position < len(data):
                size = rng.choice((1, 7, 100, 100_000))
                connection.sendall(data[position : position + size])
                position += size
            connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(65536):
                answered += piece
        except TimeoutError:
            raise
        except OSError:
            pass  # closed before everything was sent, which is a valid reaction
    return replies_in(answered)


def replies_in(data: bytes) -> list[Document]:
    """The documents of all complete replies; compressed ones are left out."""
    found = []
    position = 0
    while position + 16 <= len(data):
        size, code = unpack_from("<i8xi", data, position)
        payload = data[position + 16 : position + size]
        position += size
        if code == OpCode.OP_MSG:
            found.append(decode(payload[5 : 5 + unpack_from("<i", payload, 5)[0]]))
        elif code == OpCode.OP_REPLY:
            found.append(decode(payload[20:]))
    return found


def check_answers(answers: list[Document], what: object) -> None:
    for answer in answers:
        assert answer.get("code") != ErrorCode.InternalError, (what, answer)


def random_bytes(rng: random.Random) -> bytes:
    return rng.randbytes(rng.choice((1, 15, 16, 17, 100, 5000)))


def random_message(rng: random.Random) -> bytes:
    """A valid header with random contents."""
    code = rng.choice([*map(int, OpCode), 0, 1, 2001, 2002, 2005, 2006, 2007, -1, 2**31 - 1])
    start = rng.choice((b"", bytes(4), bytes(5), pack("<I", 1) + b"\0", pack("<I", 0x10000)))
    return message(code, start + rng.randbytes(rng.randrange(60)))


def mutated_message(rng: random.Random) -> bytes:
    """A driver's message with a mutation, and a valid one after it."""
    data = bytearray(rng.choice(SAMPLES))
    for _ in range(rng.choice((1, 1, 2, 4))):
        if len(data) < 21:
            break
        place = rng.randrange(len(data))
        kind = rng.randrange(6)
        if kind == 0:
            data[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[place] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            del data[place:]
        elif kind == 3:
            pack_into("<i", data, rng.choice((0, 16, min(place, len(data) - 4))), rng.choice(LENGTHS))
        elif kind == 4:
            pack_into("<i", data, 12, rng.choice([*map(int, OpCode), 0, 7]))
        else:
            data[place:place] = rng.randbytes(rng.randrange(1, 9))
    if len(data) >= 4 and rng.random() < 0.6:
        pack_into("<i", data, 0, len(data))
    return bytes(data) + rng.choice(SAMPLES)


LENGTHS = (0, 1, 4, 15, 16, 17, 21, 255, 65536, 48_000_000, 48_000_001, 2**31 - 1, -1, -(2**31))


def fuzz_bytes(server: RunningServer, seeds: range) -> None:
    for seed in seeds:
        rng = random.Random(seed)
        data = rng.choice((random_bytes, random_message, mutated_message, mutated_message))(rng)
        check_answers(converse(server, data, rng), f"seed {seed}")


def test_bytes(fuzzed: RunningServer) -> None:
    fuzz_bytes(fuzzed, range(BASE_SEED, BASE_SEED + CONNECTIONS))


@pytest.mark.slow
def test_many_bytes(fuzzed: RunningServer) -> None:
    fuzz_bytes(fuzzed, range(BASE_SEED + CONNECTIONS, BASE_SEED + CONNECTIONS + SLOW_CONNECTIONS))


def test_a_malformed_connection_logs_one_line_and_disturbs_no_other(fuzzed: RunningServer) -> None:
    with raw_client(fuzzed) as other:
        before = len(fuzzed.log())
        with raw_client(fuzzed) as raw:
            raw.socket.sendall(message(OpCode.OP_MSG, b"", length=48_000_001))
            assert raw.is_closed()
        assert other.call({"ping": 1})["ok"] == 1.0
        (line,) = fuzzed.log()[before:]
        assert "violated the protocol" in line["msg"]


def test_connections_that_stop_in_the_middle(fuzzed: RunningServer) -> None:
    """Half a message delays neither others nor the end of the connection."""
    sample = SAMPLES[0]
    for cut in range(1, len(sample), 7):
        with raw_client(fuzzed) as raw:
            raw.socket.sendall(sample[:cut])
    with raw_client(fuzzed) as raw:
        assert raw.call({"ping": 1})["ok"] == 1.0


@pytest.mark.parametrize("depth", [50, 99, 100, 150, 179, 180, 200, 201, 1_000, 20_000])
@pytest.mark.parametrize("kind", [rawbson.DOCUMENT, rawbson.ARRAY])
def test_deep_nesting(fuzzed: RunningServer, depth: int, kind: int) -> None:
    """As a document to store, as a filter, as a pipeline, as an expression: each gets a reply."""
    deep = rawbson.EMPTY
    for level in range(depth):
        name = b"0" if kind == rawbson.ARRAY else b"a" if level % 2 else b"$not"
        deep = rawbson.document(rawbson.element(kind, name, deep))
    for command, field in (
        ({"find": "c"}, b"filter"),
        ({"aggregate": "c", "cursor": {}}, b"pipeline"),
        ({"count": "c"}, b"query"),
        ({"insert": "c"}, b"documents"),
        ({"ping": 1}, b"comment"),
    ):
        body = rawbson.document(
            rawbson.body(encode({**command, "$db": "fuzz"})), rawbson.element(kind, field, deep)
        )
        with raw_client(fuzzed) as raw:
            raw.socket.sendall(ClientConnection().send(body))
            check_answers([decode(raw.receive().document)], (depth, command))
            assert raw.call({"ping": 1})["ok"] == 1.0


# -- the query language -------------------------------------------------------------------------------------


class Conversation:
    """Commands on one connection: alone, or in transactions that are started again after an error."""

    def __init__(self, raw: RawClient, number: int) -> None:
        self._raw = raw
        self._is_transacting = number % 3 == 0
        self._session = {"id": Binary(number.to_bytes(16, "big"), 4)}
        self._number = 0
        self._is_open = False

    def call(self, command: Document) -> list[Document]:
        """The reply, and those of getMore if there is a cursor."""
        replies = [self._send({**command, "$db": command.get("$db", "fuzz"), "maxTimeMS": 5000})]
        while (number := replies[-1].get("cursor", {}).get("id")) and len(replies) < 4:
            name = replies[-1]["cursor"]["ns"].partition(".")[2]
            more = {"getMore": Int64(number), "collection": name, "batchSize": 2, "$db": "fuzz"}
            if is_watching(command):
                more["maxTimeMS"] = 1
            replies.append(self._send(more))
        return replies

    def _send(self, command: Document) -> Document:
        if not self._is_transacting:
            return self._raw.call(command)
        start: Document = {}
        if not self._is_open:
            self._number += 1
            start = {"startTransaction": True}
        reply = self._raw.call({**command, **start, **self._transaction()})
        self._is_open = reply["ok"] == 1.0
        if not self._is_open:
            # Not every error ends a transaction, and an open one would block the next commands.
            self._raw.call({"abortTransaction": 1, "$db": "admin", **self._transaction()})
        return reply

    def _transaction(self) -> Document:
        return {"lsid": self._session, "txnNumber": Int64(self._number), "autocommit": False}

    def end(self) -> Document:
        """Commit the last transaction."""
        if not self._is_open:
            return {"ok": 1.0}
        return self._send({"commitTransaction": 1, "$db": "admin"})


def is_watching(command: Document) -> bool:
    return any("$changeStream" in stage for stage in command.get("pipeline", []) if isinstance(stage, dict))


def fuzz_commands(server: RunningServer, seeds: range) -> Counter[int]:
    """Commands in groups, each on its own connection; returns how often each code was returned."""
    answers: Counter[int] = Counter()
    for first in seeds[::PER_CONNECTION]:
        with raw_client(server) as raw:
            raw.socket.settimeout(TIMEOUT_SECONDS)
            prepare(raw, first)
            conversation = Conversation(raw, first // PER_CONNECTION)
            for seed in range(first, min(first + PER_CONNECTION, seeds.stop)):
                command = RandomCommands(random.Random(seed)).command()
                for reply in conversation.call(command):
                    codes = codes_of(reply)
                    assert ErrorCode.InternalError not in codes, (seed, command, reply)
                    answers.update(codes)
            assert conversation.end().get("code") != ErrorCode.InternalError
    return answers


def prepare(raw: RawClient, seed: int) -> None:
    """Documents of all kinds, indexes on them, a view."""
    queries = RandomCommands(random.Random(seed))
    raw.call({"drop": "c", "$db": "fuzz"})
    documents = [queries.document() for _ in range(12)]
    raw.call({"insert": "c", "documents": documents, "ordered": False, "$db": "fuzz"})
    indexes = [{"key": {"a": 1}, "name": "a_1"}, {"key": {"b": -1, "nested.x": 1}, "name": "b"}]
    raw.call({"createIndexes": "c", "indexes": indexes, "$db": "fuzz"})
    raw.call({"create": "d", "$db": "fuzz"})
    raw.call({"create": "seen", "viewOn": "c", "pipeline": [{"$match": {"a": 1}}], "$db": "fuzz"})


def codes_of(reply: Document) -> list[int]:
    """The code of a reply, and those of the write errors in it."""
    codes = [reply.get("code", 0)]
    codes += [error["code"] for error in reply.get("writeErrors", [])]
    if "cursor" in reply:
        codes += [one["code"] for one in reply["cursor"].get("firstBatch", []) if one.get("ok") == 0.0]
    return codes


def test_invalid_queries(fuzzed: RunningServer) -> None:
    answers = fuzz_commands(fuzzed, range(BASE_SEED, BASE_SEED + COMMANDS))
    assert answers[0] > COMMANDS / 20, "not everything may be nonsense"
    assert len(answers) > 30, "all are refused for the same few reasons"


@pytest.mark.slow
def test_many_invalid_queries(fuzzed: RunningServer) -> None:
    fuzz_commands(fuzzed, range(BASE_SEED + COMMANDS, BASE_SEED + COMMANDS + SLOW_COMMANDS))
