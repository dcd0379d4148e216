"""A client that behaves, in a process of its own: a ping every 20 ms and an insert after every fifth.

::

    python -m attack.good_client PORT

It runs until its standard input is closed, then prints the waiting times as JSON. A request that is sent
late, because the one before it had no answer yet, has waited since the moment it was due.
"""

import json
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import bson

from bench.figures import percentile

INTERVAL_SECONDS: Final = 0.02
_INSERT_EVERY: Final = 5
_GIVE_UP_SECONDS: Final = 60
_OP_MSG: Final = 2013


@dataclass(frozen=True, slots=True)
class Waits:
    """What the good client has waited, in seconds."""

    pings: Sequence[float]
    inserts: Sequence[float]

    @property
    def ping_p99(self) -> float:
        return percentile(self.pings, 99)

    @property
    def insert_p99(self) -> float:
        return percentile(self.inserts, 99)


class GoodClient:
    """The process; its measurement begins when it has had a first answer."""

    def __init__(self, port: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "attack.good_client", str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise SystemExit("the good client could not begin")

    def waits(self) -> Waits:
        """End the process and return what it has measured."""
        found = json.loads(self._process.communicate(timeout=2 * _GIVE_UP_SECONDS)[0])
        return Waits(found["pings"], found["inserts"])


class Raw:
    """One socket with commands in OP_MSG, without a driver's own work."""

    def __init__(self, port: int, seconds: float = _GIVE_UP_SECONDS) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> "Raw":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, command: dict[str, Any]) -> None:
        self.socket.sendall(message(command))

    def receive(self) -> dict[str, Any]:
        size, _, _, code = struct.unpack("<iiii", self._read(16))
        content = self._read(size - 16)
        if code != _OP_MSG:
            content = _unpacked(content)
        return bson.decode(content[5:])

    def call(self, command: dict[str, Any]) -> dict[str, Any]:
        self.send(command)
        return self.receive()

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            got = self.socket.recv(min(size - len(parts), 1 << 20))
            if not got:
                raise ConnectionError("the server closed the connection")
            parts += got
        return bytes(parts)


def _unpacked(content: bytes) -> bytes:
    """The content of an OP_COMPRESSED: only answers to compressed requests are compressed."""
    from tailrace.mongod.wire.compression import COMPRESSORS

    _, size, number = struct.unpack_from("<iiB", content)
    return next(one for one in COMPRESSORS.values() if one.id == number).unpack(content[9:], size)


def message(command: dict[str, Any], request: int = 1) -> bytes:
    """An OP_MSG with one command."""
    body = bson.encode(command)
    return struct.pack("<iiiiiB", 21 + len(body), request, 0, _OP_MSG, 0, 0) + body


def main(port: int) -> None:
    connection = Raw(port)
    connection.call({"ping": 1, "$db": "admin"})
    print("ready", flush=True)
    pings: list[float] = []
    inserts: list[float] = []
    due = time.perf_counter()
    count = 0
    while not select.select([sys.stdin], [], [], max(due - time.perf_counter(), 0))[0]:
        try:
            connection.call({"ping": 1, "$db": "admin"})
        except OSError:  # no answer: this wait is counted, and the loop goes on with another connection
            connection = Raw(port)
        pings.append(time.perf_counter() - due)
        count += 1
        if count % _INSERT_EVERY == 0:
            began = time.perf_counter()
            try:
                connection.call({"insert": "good", "documents": [{"n": count}], "$db": "good"})
            except OSError:
                connection = Raw(port)
            inserts.append(time.perf_counter() - began)
        due += INTERVAL_SECONDS
    print(json.dumps({"pings": pings or [0.0], "inserts": inserts or [0.0]}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
