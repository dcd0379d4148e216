"""Attacks below the commands: connections, frames, compressed messages, clients that do not read."""

import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import bson
import cramjam
from bson import Binary, Int64

from attack.good_client import message
from attack.servers import Server

_OP_COMPRESSED: Final = 2012
_OP_MSG: Final = 2013
_ZSTD: Final = 3
_MAX_MESSAGE: Final = 48_000_000

Document = dict[str, Any]
Attack = Callable[[Server], str]
"""Attack a server and return what happened."""


def idle_connections(server: Server) -> str:
    with _crowd(server, 3000) as crowd:
        with server.connect() as one:
            one.call(_PING)
        return f"{len(crowd)} open"


def connects_and_closes(server: Server) -> str:
    for _ in range(2000):
        _socket(server).close()
    return "2000 closed"


def slow_loris(server: Server) -> str:
    with _crowd(server, 500) as crowd:
        whole = message(_PING)
        for position in range(min(50, len(whole) - 1)):
            for one in crowd:
                one.sendall(whole[position : position + 1])
        return "500 half-sent messages"


def large_halves(server: Server) -> str:
    head = struct.pack("<iiii", 47_000_000, 1, 0, _OP_MSG)
    with _crowd(server, 200) as crowd:
        for one in crowd:
            one.sendall(head + bytes(1 << 20))
        return "200 MB of half-sent messages"


def bad_headers(server: Server) -> str:
    closed = 0
    sizes = (0, -1, 15, 16, 48_000_001, 2**31 - 1, -(2**31))
    for number in range(1000):
        with _socket(server) as one:
            one.sendall(struct.pack("<iiii", sizes[number % len(sizes)], 1, 0, _OP_MSG) + bytes(16))
            closed += _is_closed(one)
    return f"{closed} of 1000 closed"


def random_bytes(server: Server) -> str:
    rng = random.Random(1)
    for _ in range(1000):
        with _socket(server) as one:
            one.sendall(rng.randbytes(rng.randrange(1, 400)))
    return "1000 sent"


def zstd_bombs(server: Server) -> str:
    """Zeros, which are no message: each is closed and its memory freed."""
    bomb = _compressed(bytes(_MAX_MESSAGE - 16))
    closed = 0
    for _ in range(60):
        with _socket(server) as one:
            one.sendall(bomb)
            closed += _is_closed(one)
    return f"{closed} of 60 closed, {len(bomb)} bytes each"


def _packed_commands(command: bytes, times: int) -> Attack:
    def attack(server: Server) -> str:
        sent = _compressed(bytes(5) + command)
        with server.connect() as one:
            one.socket.sendall(sent * times)
            codes = [one.receive().get("code", 0) for _ in range(times)]
        return f"{times} of {len(sent)} bytes, codes {sorted(set(codes))}"

    return attack


def pings_with_large_comments() -> Iterator[tuple[str, Attack]]:
    elements: tuple[dict[str, object], ...] = ({}, {"a": 1}, {"a": 1, "b": 2})
    for element in elements:
        count = 15_000_000 // (len(bson.encode(element)) + 9)
        command = bson.encode({"ping": 1, "comment": [element] * count, "$db": "admin"})
        yield f"8 pings with {count:,} times {element}, zstd", _packed_commands(command, 8)
    count = 800_000
    find = bson.encode({"find": "items", "filter": {"a": {"$in": list(range(count))}}, "$db": "attack"})
    yield f"4 finds with $in of {count:,}, zstd", _packed_commands(find, 4)


def unread_replies(server: Server) -> str:
    with ExitStack() as stack:
        pings = stack.enter_context(_socket(server))
        pings.settimeout(5)
        _send_what_fits(pings, message(_PING) * 20_000)
        for _ in range(20):
            finds = stack.enter_context(_socket(server))
            finds.settimeout(2)
            _send_what_fits(finds, message({"find": "items", "batchSize": 20_000, "$db": "attack"}) * 50)
        with server.connect() as one:
            one.call(_PING)
    return "20,000 pings and 1000 finds, nothing read"


def inserts_of_47_megabytes(server: Server) -> str:
    text = "x" * 15_000_000
    codes: list[int] = []

    def insert(number: int) -> None:
        documents = [{"_id": f"{number}-{i}", "text": text} for i in range(3)]
        with server.connect(300) as one:
            one.socket.sendall(_with_sequence({"insert": "large", "$db": "attack"}, "documents", documents))
            codes.append(one.receive().get("code", 0))

    threads = [threading.Thread(target=insert, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return f"12 inserts of 45 MB, codes {sorted(set(codes))}"


def open_cursors(server: Server) -> str:
    find = {"find": "items", "batchSize": 1, "$db": "attack"}
    with server.connect() as one:
        ids = [one.call(find)["cursor"]["id"] for _ in range(5000)]
        for start in range(0, len(ids), 1000):
            one.call({"killCursors": "items", "cursors": ids[start : start + 1000], "$db": "attack"})
    return "5000 opened and closed"


def sorted_cursors(server: Server) -> str:
    """Each holds a sorted copy of the collection."""
    command = {
        "aggregate": "items",
        "pipeline": [{"$sort": {"text": 1}}, {"$addFields": {"x": 1}}],
        "cursor": {"batchSize": 1},
        "$db": "attack",
    }
    with server.connect() as one:
        replies = [one.call(command) for _ in range(100)]
        ids = [reply["cursor"]["id"] for reply in replies if reply["ok"] == 1]
        held = server.megabytes()
        one.call({"killCursors": "items", "cursors": ids, "$db": "attack"})
    return f"{len(ids)} of 100 opened, {held:.0f} MB while they were open"


def sessions(server: Server) -> str:
    rng = random.Random(2)
    with server.connect() as one:
        for _ in range(20_000):
            one.call({"ping": 1, "lsid": {"id": Binary(rng.randbytes(16), 4)}, "$db": "admin"})
    return "20,000 sessions"


def streams_with_costly_filters(server: Server) -> str:
    """A stream whose own `$match` loops, and writes that it looks at."""
    loop = {
        "$reduce": {"input": {"$range": [0, 3000]}, "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}
    }
    loops = {
        "$reduce": {
            "input": {"$range": [0, 3000]},
            "initialValue": 0,
            "in": {"$add": ["$$value", loop, "$fullDocument._id"]},
        }
    }
    with ExitStack() as stack:
        for _ in range(4):
            one = stack.enter_context(server.connect())
            stages = [{"$changeStream": {}}, {"$match": {"$expr": {"$lt": [loops, 0]}}}]
            reply = one.call({"aggregate": "watched", "pipeline": stages, "cursor": {}, "$db": "attack"})
            cursor = reply["cursor"]["id"]
            one.send({"getMore": cursor, "collection": "watched", "maxTimeMS": 20_000, "$db": "attack"})
        writer = stack.enter_context(server.connect())
        for number in range(200):
            writer.call({"insert": "watched", "documents": [{"_id": number}], "$db": "attack"})
    return "4 streams, 200 writes"


def awaited_hellos(server: Server) -> str:
    with server.connect() as first:
        hello = first.call({"hello": 1, "$db": "admin"})
    command = {
        "hello": 1,
        "topologyVersion": hello["topologyVersion"],
        "maxAwaitTimeMS": Int64(10),
        "$db": "admin",
    }
    body = bson.encode(command)
    exhaust = struct.pack("<iiiiIB", 21 + len(body), 1, 0, _OP_MSG, 1 << 16, 0) + body
    with _crowd(server, 300) as crowd:
        for one in crowd:
            one.sendall(exhaust)
        with server.connect() as other:
            for _ in range(100):
                other.call(_PING)
    return "300 streaming hellos of 10 ms"


def deep_nesting(server: Server) -> str:
    codes = set()
    for depth in (150, 5_000, 100_000):
        inner = bson.encode({"a": 1})
        parts = inner
        head, tail = [], []
        size = len(parts)
        for _ in range(depth):
            size += 8
            head.append(struct.pack("<i", size) + b"\x03a\0")
            tail.append(b"\0")
        nested = b"".join(reversed(head)) + parts + b"".join(tail)
        body = b"\x02ping\0\x05\0\0\0ping\0\x03comment\0" + nested + b"\x02$db\0\x06\0\0\0admin\0"
        whole = struct.pack("<i", len(body) + 5) + body + b"\0"
        with server.connect() as one:
            one.socket.sendall(struct.pack("<iiiiiB", 21 + len(whole), 1, 0, _OP_MSG, 0, 0) + whole)
            try:
                codes.add(one.receive().get("code", 0))
            except ConnectionError:
                codes.add("closed")
    return f"codes {sorted(map(str, codes))}"


_PING: Final = {"ping": 1, "$db": "admin"}


def attacks() -> Iterator[tuple[str, Attack]]:
    yield "3000 idle connections", idle_connections
    yield "2000 connects and closes", connects_and_closes
    yield "slow loris, 500 connections", slow_loris
    yield "200 x 1 MB of a 47 MB message", large_halves
    yield "bad headers", bad_headers
    yield "random bytes", random_bytes
    yield "60 zstd bombs of 48 MB", zstd_bombs
    yield from pings_with_large_comments()
    yield "deep nesting", deep_nesting
    yield "replies that nobody reads", unread_replies
    yield "12 x 45 MB inserts at once", inserts_of_47_megabytes
    yield "5000 open cursors", open_cursors
    yield "100 idle cursors of sorted results", sorted_cursors
    yield "20,000 sessions", sessions
    yield "4 streams with costly filters", streams_with_costly_filters
    yield "300 streaming hellos of 10 ms", awaited_hellos


def _socket(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=120)


@contextmanager
def _crowd(server: Server, count: int) -> Iterator[list[socket.socket]]:
    crowd: list[socket.socket] = []
    try:
        crowd.extend(_socket(server) for _ in range(count))
        yield crowd
    finally:
        for one in crowd:
            one.close()


def _with_sequence(command: Document, name: str, documents: list[Document]) -> bytes:
    """An OP_MSG whose documents are outside of its body, which may not be larger than 16 MB."""
    body = bson.encode(command)
    listed = name.encode() + b"\0" + b"".join(map(bson.encode, documents))
    sequence = b"\1" + struct.pack("<i", 4 + len(listed)) + listed
    size = 21 + len(body) + len(sequence)
    return struct.pack("<iiiiiB", size, 1, 0, _OP_MSG, 0, 0) + body + sequence


def _is_closed(one: socket.socket) -> bool:
    try:
        return one.recv(1) == b""
    except ConnectionResetError:
        return True


def _send_what_fits(one: socket.socket, data: bytes) -> None:
    try:
        one.sendall(data)
    except TimeoutError:
        return  # the server reads no more from a client that does not read


def _compressed(content: bytes) -> bytes:
    packed = bytes(cramjam.zstd.compress(content, level=19))
    payload = struct.pack("<iiB", _OP_MSG, len(content), _ZSTD) + packed
    return struct.pack("<iiii", 16 + len(payload), 1, 0, _OP_COMPRESSED) + payload
