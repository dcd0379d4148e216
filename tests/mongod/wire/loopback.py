"""A server with fixed replies on 127.0.0.1, sufficient for a driver.

It stores every byte that the driver sent. `python -m tests.mongod.wire.loopback` writes `recorded/` again.
"""

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import pymongo
from bson import Int64, ObjectId
from pymongo import InsertOne, MongoClient, WriteConcern

from tailrace.bson.documents import decode, encode
from tailrace.mongod.wire import NEED_DATA, Connection, OpCode, Request, negotiate
from tests.mongod.wire.messages import RECORDED, hexdump

HELLO: Mapping[str, Any] = {
    "ismaster": True, "helloOk": True, "minWireVersion": 0, "maxWireVersion": 25,
    "maxBsonObjectSize": 16 * 1024 * 1024, "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000,
    "logicalSessionTimeoutMinutes": 30,
    "topologyVersion": {"processId": ObjectId(b"tailrace-wire"[:12]), "counter": Int64(0)},
    "ok": 1.0,
}  # fmt: skip
HEARTBEAT_SECONDS = 0.02


class Loopback:
    """Listens, and runs a thread for each connection."""

    def __init__(self, compressors: tuple[str, ...] = ("snappy", "zstd", "zlib")) -> None:
        self.compressors = compressors
        self.requests: list[Request] = []
        self.streams: list[bytearray] = []
        self.failures: list[BaseException] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()
        self._sockets = [self._listener]

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def close(self) -> None:
        for endpoint in self._sockets:
            shut(endpoint)
        for thread in self._threads:
            thread.join()
        assert not self.failures

    def named(self, name: str) -> list[Request]:
        return [request for request in self.requests if request.name == name]

    def messages(self) -> list[bytes]:
        """Everything received, split by the sizes in the headers."""
        found = []
        for stream in self.streams:
            while stream:
                size = int.from_bytes(stream[:4], "little")
                found.append(bytes(stream[:size]))
                del stream[:size]
        return found

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(peer)
            self._threads.append(threading.Thread(target=self._serve, args=(peer,)))
            self._threads[-1].start()

    def _serve(self, peer: socket.socket) -> None:
        connection, stream = Connection(), bytearray()
        self.streams.append(stream)
        try:
            while data := peer.recv(65536):
                stream += data
                connection.receive_data(data)
                while (request := connection.next_message()) is not NEED_DATA:
                    self.requests.append(request)
                    for reply in self._answer(connection, request):
                        peer.sendall(reply)
        except OSError:
            pass  # the driver or the test has closed the socket
        except BaseException as failure:
            self.failures.append(failure)
        finally:
            peer.close()

    def _answer(self, connection: Connection, request: Request) -> Iterator[bytes]:
        if request.error is not None:
            yield connection.refuse(request)
            return
        command = decode(request.merged_command())
        if request.name in ("hello", "isMaster", "ismaster"):
            hello = {**HELLO, "compression": negotiate(command.get("compression", ()), self.compressors)}
            while request.exhaust_allowed:
                time.sleep(HEARTBEAT_SECONDS)
                yield connection.send(request, encode(hello), more_to_come=True)
            yield connection.send(request, encode(hello))
        elif request.name == "find":
            cursor = {"id": Int64(7), "ns": "test.c", "firstBatch": [{"_id": 1}]}
            yield connection.send(request, encode({"cursor": cursor, "ok": 1.0}))
        elif request.name == "getMore":
            for number in (2, 3, 4):
                last = number == 4
                cursor = {"id": Int64(0 if last else 7), "ns": "test.c", "nextBatch": [{"_id": number}]}
                yield connection.send(request, encode({"cursor": cursor, "ok": 1.0}), more_to_come=not last)
        elif request.name == "insert":
            yield connection.send(request, encode({"n": len(command["documents"]), "ok": 1.0}))
        elif request.name == "bulkWrite":
            cursor = {"id": Int64(0), "ns": "admin.$cmd.bulkWrite", "firstBatch": []}
            counts = {"nErrors": 0, "nInserted": len(command["ops"]), "nMatched": 0, "nModified": 0}
            rest = {"nUpserted": 0, "nDeleted": 0, "ok": 1.0}
            yield connection.send(request, encode({"cursor": cursor, **counts, **rest}))
        else:
            yield connection.send(request, encode({"ok": 1.0, "echo": command.get("payload")}))


def shut(endpoint: socket.socket) -> None:
    with suppress(OSError):
        endpoint.shutdown(socket.SHUT_RDWR)
    endpoint.close()


@contextmanager
def driver(server: Loopback, **options: Any) -> Iterator[MongoClient[dict[str, Any]]]:
    """A PyMongo client of the server; both are closed after the block."""
    try:
        with MongoClient("127.0.0.1", server.port, serverSelectionTimeoutMS=30_000, **options) as client:
            yield client
    finally:
        server.close()


def main() -> None:
    """Write the recordings."""
    wanted: dict[str, bytes] = {}
    for compressor in ("", "snappy", "zlib", "zstd"):
        server = Loopback()
        with driver(server, **({"compressors": compressor} if compressor else {})) as client:
            client.admin.command("ping")
            if not compressor:
                collection = client["test"]["c"]
                collection.insert_many([{"_id": 1, "item": "lamp"}, {"_id": 2, "item": "rope"}])
                collection.with_options(write_concern=WriteConcern(w=0)).insert_one({"_id": 3})
                client.bulk_write([InsertOne({"_id": 4}, namespace="test.c")])
                list(collection.find(cursor_type=pymongo.CursorType.EXHAUST))
                time.sleep(0.1)
        for data in server.messages():
            reader = Connection()
            reader.receive_data(data)
            request = reader.next_message()
            assert request is not NEED_DATA
            if b"client\0" not in request.command and request.name != "endSessions":  # no data of a machine
                wanted.setdefault(recording_name(request), data)
    RECORDED.mkdir(exist_ok=True)
    for name, data in wanted.items():
        (RECORDED / f"{name}.hex").write_text(hexdump(data))


def recording_name(request: Request) -> str:
    traits = [request.name]
    traits += ["legacy"] * (request.op_code is OpCode.OP_QUERY)
    traits += ["unacknowledged"] * (not request.expects_reply)
    traits += ["exhaust"] * request.exhaust_allowed
    traits += [request.compressor.name] if request.compressor else []
    return "-".join(traits)


if __name__ == "__main__":
    main()
