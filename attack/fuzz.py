"""Damaged messages: mutated commands, flipped bytes in sound frames, damaged frames; plain and compressed.

::

    python -m attack.fuzz SERVER_PORT SEED MESSAGES [USER PASSWORD]

is one client. It prints what it has seen as JSON. `clients` runs several of them at once.
"""

import json
import random
import socket
import struct
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from tailrace.bson.documents import decode, encode
from tailrace.mongod.wire.compression import COMPRESSORS
from tailrace.mongod.wire.header import OpCode
from tests.mongod.server.broken_commands import broken
from tests.mongod.server.raw_client import RawClient
from tests.mongod.server.raw_login import log_in
from tests.mongod.server.sample_commands import ADMIN, SAMPLES

INTERNAL_ERROR: Final = 1
_AT_ONCE: Final = 12
_MAX_TIME_MS: Final = 50
_WAIT_SECONDS: Final = 60
_MOST_SHOWN: Final = 5
_BODY_START: Final = 21
_REPLY_START: Final = 36
"""The same in the answer to an OP_QUERY, which a damaged header may be"""


@dataclass(slots=True)
class Seen:
    """What one client has seen, or several together."""

    sent: int = 0
    answered: int = 0
    closed: int = 0
    codes: "Counter[str]" = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    """Internal errors, with what reproduces them."""
    silent: list[str] = field(default_factory=list)
    """What was not answered in a minute, by batch."""

    def add(self, other: "Seen") -> None:
        self.sent += other.sent
        self.answered += other.answered
        self.closed += other.closed
        self.codes += other.codes
        self.faults += other.faults
        self.silent += other.silent


def clients(port: int, seed: int, messages: int, count: int, login: tuple[str, str] | None) -> Seen:
    """Run clients with one seed each, until all have sent their messages."""
    processes = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "attack.fuzz", str(port), str(seed + number), str(messages // count)),
                *(login or ()),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]
    total = Seen()
    for process in processes:
        found = json.loads(process.communicate()[0])
        total.add(Seen(**(found | {"codes": Counter(found["codes"])})))
    return total


class Fuzzer:
    def __init__(self, port: int, seed: int, login: tuple[str, str] | None) -> None:
        self._port = port
        self._seed = seed
        self._login = login
        self._rng = random.Random(seed)
        self._unanswered: dict[int, dict[str, Any]] = {}
        self.seen = Seen()

    def run(self, messages: int) -> None:
        while self.seen.sent < messages:
            with socket.create_connection(("127.0.0.1", self._port), timeout=_WAIT_SECONDS) as endpoint:
                try:
                    self._use(endpoint, messages)
                except (ConnectionError, BrokenPipeError):
                    self.seen.closed += 1
                except TimeoutError:
                    self.seen.silent.append(f"seed {self._seed}: {list(self._unanswered.values())}")

    def _use(self, endpoint: socket.socket, messages: int) -> None:
        """Send batches until the server closes the connection, or a frame was damaged."""
        if self._login is not None:
            log_in(RawClient(endpoint), *self._login)
        while self.seen.sent < messages:
            # Only the last may make the server close the connection: it would not read those after it.
            batch = [self._command(number) for number in range(_AT_ONCE - 1)]
            batch.append(self._command(_AT_ONCE - 1, flips=self._rng.random() < 0.5))
            damaged = self._rng.random() < 0.3
            if damaged:
                batch[-1] = (self._damaged_frame(batch[-1][0]), batch[-1][1])
            self.seen.sent += len(batch)
            endpoint.sendall(b"".join(frame for frame, _ in batch))
            if damaged:
                endpoint.shutdown(socket.SHUT_WR)
            self._read_answers(endpoint, batch)
            if damaged:
                return

    def _command(self, number: int, *, flips: bool = False) -> tuple[bytes, dict[str, Any]]:
        """A frame, and the command in it."""
        rng = self._rng
        while True:
            command = broken(rng, rng.choice(SAMPLES))
            command.setdefault("maxTimeMS", _MAX_TIME_MS)
            name = next(iter(command))
            try:
                body = encode({**command, "$db": "admin" if name in ADMIN else "fuzz"})
            except (ValueError, TypeError, OverflowError):
                continue  # it cannot be encoded
            if flips:
                body = self._flipped(body)
            return self._framed(bytes(4) + b"\0" + body, number), command

    def _flipped(self, body: bytes) -> bytes:
        changed = bytearray(body)
        for _ in range(self._rng.choice((1, 1, 2, 5))):
            changed[self._rng.randrange(len(changed))] = self._rng.randrange(256)
        return bytes(changed)

    def _framed(self, content: bytes, number: int) -> bytes:
        code = OpCode.OP_MSG
        if self._rng.random() < 0.2:
            compressor = COMPRESSORS[self._rng.choice(("zlib", "snappy", "zstd"))]
            packed = compressor.pack(memoryview(content))
            content = struct.pack("<iiB", code, len(content), compressor.id) + packed
            code = OpCode.OP_COMPRESSED
        return struct.pack("<iiii", 16 + len(content), number, 0, code) + content

    def _damaged_frame(self, frame: bytes) -> bytes:
        changed = bytearray(frame)
        position = self._rng.choice((0, 1, 2, 3, 12, 13, 16, 17, 18, 19, 20, 24))
        if position < len(changed):
            changed[position] = self._rng.randrange(256)
        return bytes(changed[: self._rng.choice((len(changed), len(changed) - 1, 10))])

    def _read_answers(self, endpoint: socket.socket, batch: list[tuple[bytes, dict[str, Any]]]) -> None:
        arrived = bytearray()
        self._unanswered = {number: command for number, (_, command) in enumerate(batch)}
        for _ in batch:
            number, reply = _next_answer(endpoint, arrived)
            self.seen.answered += 1
            self._unanswered.pop(number, None)
            codes = [reply.get("code", 0), *(error.get("code") for error in reply.get("writeErrors", ()))]
            self.seen.codes.update(str(code) for code in codes)
            if INTERNAL_ERROR in codes and len(self.seen.faults) < _MOST_SHOWN:
                sent = repr(batch[number][1])[:500] if 0 <= number < len(batch) else "?"
                self.seen.faults.append(f"seed {self._seed}: {sent}: {str(reply)[:300]}")


def _next_answer(endpoint: socket.socket, arrived: bytearray) -> tuple[int, dict[str, Any]]:
    def read(size: int) -> None:
        while len(arrived) < size:
            got = endpoint.recv(1 << 16)
            if not got:
                raise ConnectionError
            arrived.extend(got)

    read(16)
    size, _, number, code = struct.unpack_from("<iiii", arrived)
    read(size)
    frame = bytes(arrived[:size])
    del arrived[:size]
    if code == OpCode.OP_COMPRESSED:
        compressor = next(one for one in COMPRESSORS.values() if one.id == frame[24])
        frame = frame[:16] + bytes(compressor.unpack(frame[25:], struct.unpack_from("<i", frame, 20)[0]))
    return number, decode(frame[_REPLY_START if code == OpCode.OP_REPLY else _BODY_START :])


def main(port: int, seed: int, messages: int, login: tuple[str, str] | None) -> None:
    fuzzer = Fuzzer(port, seed, login)
    fuzzer.run(messages)
    seen = fuzzer.seen
    print(
        json.dumps(
            {
                "sent": seen.sent,
                "answered": seen.answered,
                "closed": seen.closed,
                "codes": seen.codes,
                "faults": seen.faults,
                "silent": seen.silent,
            }
        )
    )


if __name__ == "__main__":
    user = (sys.argv[4], sys.argv[5]) if len(sys.argv) > 5 else None
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), user)
