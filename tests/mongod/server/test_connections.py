"""Sockets: malformed messages, clients that disconnect, replies that are not read."""

import gc
import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from pymongo import MongoClient
from pymongo.uri_parser import parse_uri

from tailrace.bson.documents import decode, encode
from tailrace.mongod.wire import ClientConnection
from tailrace.testing.replica_set import ReplicaSet
from tests.mongod.server.raw_client import raw_client
from tests.mongod.server.running import Document, RunningServer, connected, running, wait_for

BROKEN = "Connection closed because it violated the protocol"


def header(length: int, code: int = 2013) -> bytes:
    return struct.pack("<iiii", length, 1, 0, code)


@pytest.mark.parametrize(
    "data",
    [
        header(48_000_001),
        header(15),
        header(-1),
        header(20, code=77) + b"\0" * 4,
        header(20, code=2002) + b"\0" * 4,
        header(26) + b"\0\0\0\0\0" + struct.pack("<i", 500) + b"\0",
        header(21) + b"\0\0\0\0\1",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
    ids=["oversized", "undersized", "negative", "unknown", "removed", "bad document", "bad section", "http"],
)
def test_a_malformed_message_closes_its_connection_and_logs_one_line(
    own_server: RunningServer, own_client: MongoClient[Document], data: bytes
) -> None:
    with raw_client(own_server) as raw:
        raw.call({"ping": 1})
        raw.socket.sendall(data)
        assert raw.is_closed()
    lines = [line for line in own_server.log() if line["msg"] == BROKEN]
    assert len(lines) == 1
    assert lines[0]["s"] == "W"
    assert lines[0]["attr"]["error"]
    assert own_client.admin.command("ping")["ok"] == 1.0


def test_messages_before_a_malformed_one_are_answered(server: RunningServer) -> None:
    with raw_client(server) as raw:
        raw.socket.sendall(ClientConnection().send(encode({"ping": 1, "$db": "admin"})) + header(-5))
        assert decode(raw.receive().document)["ok"] == 1.0
        assert raw.is_closed()


def test_a_message_with_invalid_content_gets_an_error_and_the_connection_stays_open(
    server: RunningServer,
) -> None:
    wire = ClientConnection()
    with raw_client(server) as raw:
        raw.socket.sendall(wire.send(encode({"ping": 1})))
        assert decode(raw.receive().document)["code"] == 40571
        assert raw.call({"ping": 1})["ok"] == 1.0


def test_a_message_in_many_pieces(server: RunningServer) -> None:
    with raw_client(server) as raw:
        for byte in ClientConnection().send(encode({"ping": 1, "$db": "admin"})):
            raw.socket.sendall(bytes([byte]))
        assert decode(raw.receive().document)["ok"] == 1.0


def test_requests_of_one_connection_are_answered_in_order(server: RunningServer) -> None:
    with raw_client(server) as raw:
        for _ in range(200):
            raw.send({"ping": 1})
            raw.send({"whatsmyuri": 1})
        for _ in range(200):
            assert "you" not in decode(raw.receive().document)
            assert "you" in decode(raw.receive().document)


def test_a_checksum_is_answered_with_one(server: RunningServer) -> None:
    wire = ClientConnection(checksum=True)
    with raw_client(server) as raw:
        raw.socket.sendall(wire.send(encode({"ping": 1, "$db": "admin"})))
        assert raw.receive().flags & 1


def test_unacknowledged_commands_run_without_a_reply(server: RunningServer) -> None:
    with raw_client(server) as raw:
        before = raw.call({"ping": 1})["operationTime"]
        for _ in range(5):
            raw.send({"appendOplogNote": 1, "data": {}}, more_to_come=True)
        raw.send({"nonsense": 1}, more_to_come=True)
        after = raw.call({"ping": 1})["operationTime"]
        assert after > before


def test_unacknowledged_writes_of_a_disconnected_client_are_executed(own_server: RunningServer) -> None:
    before = own_server.server.last_write_time()
    with raw_client(own_server) as raw:
        for _ in range(50):
            raw.send({"appendOplogNote": 1, "data": {}}, more_to_come=True)
    wait_for(lambda: own_server.server.first.counters.commands["appendOplogNote"].total == 50)
    wait_for(lambda: not own_server.server.first.operations)
    assert own_server.server.last_write_time() - before >= 50


def test_a_wait_ends_when_its_client_disconnects(own_server: RunningServer) -> None:
    with raw_client(own_server) as raw:
        version = raw.call({"hello": 1})["topologyVersion"]
        raw.send({"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 60_000})
        wait_for(lambda: len(own_server.server.first.operations) == 1)
    wait_for(lambda: not own_server.server.first.operations)
    wait_for(lambda: not own_server.server.first.listener.connections)


def test_a_waiting_write_ends_when_its_client_disconnects(own_server: RunningServer) -> None:
    with raw_client(own_server) as raw:
        block = {"failCommands": ["insert"], "blockConnection": True, "blockTimeMS": 60_000}
        raw.call({"configureFailPoint": "failCommand", "mode": {"times": 1}, "data": block})
        raw.send({"insert": "orders", "documents": [{"_id": 1}], "$db": "shop"})
        wait_for(lambda: len(own_server.server.first.operations) == 1)
    wait_for(lambda: not own_server.server.first.operations)
    with raw_client(own_server) as raw:
        assert raw.call({"find": "orders", "$db": "shop"})["cursor"]["firstBatch"] == []


def test_a_waiting_stream_ends_when_its_client_disconnects(own_server: RunningServer) -> None:
    with raw_client(own_server) as raw:
        pipeline: list[Document] = [{"$changeStream": {}}]
        opened = raw.call({"aggregate": "orders", "pipeline": pipeline, "cursor": {}, "$db": "shop"})
        raw.send({
            "getMore": opened["cursor"]["id"], "collection": "orders", "maxTimeMS": 60_000, "$db": "shop"
        })  # fmt: skip
        wait_for(lambda: len(own_server.server.first.operations) == 1)
    wait_for(lambda: not own_server.server.first.operations)
    wait_for(lambda: not len(own_server.server.first.cursors))


def test_a_client_that_resets_its_connection(own_server: RunningServer) -> None:
    with raw_client(own_server) as raw:
        raw.call({"ping": 1})
        raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for _ in range(100):
            raw.send({"listCommands": 1})
    wait_for(lambda: not own_server.server.first.listener.connections)
    with raw_client(own_server) as raw:
        assert raw.call({"ping": 1})["ok"] == 1.0
    assert not [line for line in own_server.log() if line["s"] == "E"]


def test_a_client_that_reads_late_gets_everything(own_server: RunningServer) -> None:
    """Replies accumulate until the sockets are full; the server waits until they are read."""
    with raw_client(own_server) as raw:
        number = 3000
        for _ in range(number):
            raw.send({"listCommands": 1})
        with raw_client(own_server) as other:
            assert other.call({"ping": 1})["ok"] == 1.0
        for _ in range(number):
            assert b"commands" in raw.receive().document


def test_servers_in_one_process_do_not_mix(server: RunningServer, own_server: RunningServer) -> None:
    def ask(target: RunningServer, name: str) -> set[str]:
        with raw_client(target) as raw:
            asked = [raw.call({"find": name, "comment": name * 50, "$db": name}) for _ in range(300)]
        return {reply["cursor"]["ns"] for reply in asked}

    names = ["first", "second", "third", "fourth"]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, [server, own_server] * 2, names)) == [{f"{n}.{n}"} for n in names]


def test_more_connections_than_allowed() -> None:
    with running(max_connections=2) as server, raw_client(server) as first, raw_client(server) as second:
        assert first.call({"ping": 1})["ok"] == second.call({"ping": 1})["ok"] == 1.0
        with raw_client(server) as third:
            assert third.is_closed()
        assert first.call({"serverStatus": 1})["connections"]["rejected"] == 1


def test_stopping_sends_an_error_to_waiting_clients() -> None:
    with running() as server, raw_client(server) as raw:
        version = raw.call({"hello": 1})["topologyVersion"]
        raw.send({"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 60_000})
        wait_for(lambda: len(server.server.first.operations) == 1)
        server.call(server.server.stop())
        reply = decode(raw.receive().document)
        assert reply["code"] == 91
        assert reply["topologyVersion"]["counter"] == version["counter"] + 1
        assert raw.is_closed()


def test_stopping_interrupts_running_commands() -> None:
    with running() as server, raw_client(server) as raw:
        raw.send({"waitForFailPoint": "failCommand", "timesEntered": 1})
        wait_for(lambda: len(server.server.first.operations) == 1)
        server.call(server.server.stop())
        assert decode(raw.receive().document)["code"] == 11600


def test_the_shutdown_command() -> None:
    with running() as server, raw_client(server) as raw:
        raw.send({"shutdown": 1})
        assert raw.is_closed()
        server.call(server.server.wait_stopped())
        assert server.messages()[-1] == "Shut down"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(server.address, timeout=5)


def test_a_temporary_data_directory_is_removed_with_the_server() -> None:
    with running() as server:
        temporary = Path(server.log()[0]["attr"]["data"])
        assert temporary.exists()
    assert not temporary.exists()


def test_many_clients_at_once(server: RunningServer) -> None:
    with connected(server, maxPoolSize=50) as client, ThreadPoolExecutor(50) as pool:
        replies = list(pool.map(lambda _: client.admin.command("ping"), range(500)))
    assert all(reply["ok"] == 1.0 for reply in replies)


def test_a_stopping_server_closes_sockets_that_are_just_connecting() -> None:
    for _ in range(20):
        replica_set = ReplicaSet()
        replica_set.start()
        sockets: list[socket.socket] = []

        _, port = parse_uri(replica_set.uri)["nodelist"][0]

        def knock(port: int = port, found: list[socket.socket] = sockets) -> None:
            with suppress(OSError):
                while True:
                    found.append(socket.create_connection(("127.0.0.1", port), timeout=10))

        knocking = threading.Thread(target=knock)
        knocking.start()
        replica_set.stop()
        knocking.join()
        for knocked in sockets:
            knocked.close()
    gc.collect()  # an unclosed socket is a warning, and warnings are errors
