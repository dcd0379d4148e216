"""A process with many open change streams that uses little processor time, to measure the server.

``python -m bench.watchers PORT STREAMS WAIT_MS`` opens collection streams on `bench.events`, each with its
own connection and session, as drivers do, and prints ``open``. Then it sends a getMore for each stream, and
the next one after every reply. When its standard input ends, it prints one JSON object: for each value of the
field `number` the times at which the streams received its document, by `time.monotonic`, which all processes
of a machine share; the number of replies; and the share of a core that this process used.

A getMore is encoded once; of a reply only the numbers and the time are read. WAIT_MS 0 sends no `maxTimeMS`,
so that the server waits its default of one second.
"""

import json
import re
import selectors
import socket
import sys
import time
import uuid
from typing import Any

from bson import Binary, Int64

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import decode, encode
from tailrace.mongod.wire import NEED_DATA, ClientConnection

_NUMBER = re.compile(rb"\x12number\0(.{8})", re.DOTALL)
_TIME = b"\x11clusterTime\0"
_RECEIVE = 1 << 16


class Stream:
    """One connection with one stream."""

    def __init__(self, port: int, wait_ms: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._wire = ClientConnection()
        session = {"id": Binary(uuid.uuid4().bytes, 4)}
        self._call({"hello": 1, "$db": "admin"})
        pipeline: list[dict[str, Any]] = [{"$changeStream": {}}]
        reply = self._call(
            {"aggregate": "events", "pipeline": pipeline, "cursor": {}, "lsid": session, "$db": "bench"}
        )
        get_more: dict[str, Any] = {"getMore": Int64(reply["cursor"]["id"]), "collection": "events"}
        if wait_ms:
            get_more["maxTimeMS"] = wait_ms
        get_more |= {"lsid": session, "$clusterTime": reply["$clusterTime"], "$db": "bench"}
        self._get_more = bytearray(self._wire.send(encode(get_more)))
        self._time_at = self._get_more.index(_TIME) + len(_TIME)
        self._partial = b""

    def _call(self, command: dict[str, Any]) -> dict[str, Any]:
        self.socket.sendall(self._wire.send(encode(command)))
        while (reply := self._wire.next_message()) is NEED_DATA:
            self._wire.receive_data(self.socket.recv(_RECEIVE))
        document = decode(reply.document)
        if document["ok"] != 1.0:
            raise SystemExit(f"the server refused a command: {document}")
        return document

    def ask(self) -> None:
        """Send the next getMore."""
        self.socket.sendall(self._get_more)

    def receive(self) -> bytes | None:
        """Return the reply; None until it is complete."""
        data = self.socket.recv(_RECEIVE)
        if not data:
            raise SystemExit("the server closed a stream's connection")
        if self._partial:
            data = self._partial + data
        if len(data) < rawbson.INT32_LE.unpack_from(data)[0]:
            self._partial = data
            return None
        self._partial = b""
        # The last one in a reply is in `$clusterTime`; a driver sends the newest that it has received.
        time_at = data.rindex(_TIME) + len(_TIME)
        self._get_more[self._time_at : self._time_at + 8] = data[time_at : time_at + 8]
        return data


def main(port: int, count: int, wait_ms: int) -> None:
    streams = [Stream(port, wait_ms) for _ in range(count)]
    waiting = selectors.DefaultSelector()
    waiting.register(sys.stdin, selectors.EVENT_READ)
    for stream in streams:
        waiting.register(stream.socket, selectors.EVENT_READ, stream)
        stream.ask()
    print("open", flush=True)
    arrivals: dict[int, list[float]] = {}
    replies = 0
    began, used_before = time.monotonic(), time.process_time()
    while True:
        for key, _ in waiting.select():
            if key.data is None:
                used = (time.process_time() - used_before) / (time.monotonic() - began)
                print(json.dumps({"replies": replies, "arrivals": arrivals, "used": used}), flush=True)
                return
            reply = key.data.receive()
            if reply is not None:
                now = time.monotonic()
                key.data.ask()
                replies += 1
                for number in _NUMBER.findall(reply):
                    arrivals.setdefault(int.from_bytes(number, "little"), []).append(now)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
