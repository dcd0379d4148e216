"""What a hostile client may cost a server that runs as a process: memory, log, processor time."""

import signal
import socket
from pathlib import Path
from struct import pack

import bson
import pytest
from pymongo import MongoClient
from pymongo.uri_parser import parse_uri

from tailrace.mongod.wire.compression import COMPRESSORS
from tailrace.mongod.wire.header import MAX_MESSAGE_SIZE, OpCode
from tailrace.testing.replica_set import ReplicaSet
from tests.cli.serving import end, serving
from tests.mongod.server.endless import COMMANDS, Running, operations, prepare
from tests.mongod.server.running import wait_for

MEGABYTE = 1 << 20


def resident_bytes(process_id: int) -> int:
    pages = int(Path(f"/proc/{process_id}/statm").read_text().split()[1])
    return pages * 4096


def bomb() -> bytes:
    """A compressed message of zeros, as large as a message may be; no OP_MSG begins like that."""
    content = bytes(MAX_MESSAGE_SIZE - 16)
    packed = COMPRESSORS["zstd"].pack(memoryview(content))
    payload = pack("<iiB", OpCode.OP_MSG, len(content), 3) + packed
    return pack("<iiii", 16 + len(payload), 1, 0, OpCode.OP_COMPRESSED) + payload


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_a_refused_compressed_message_is_freed() -> None:
    message = bomb()
    with serving() as (process, uri):
        address = parse_uri(uri)["nodelist"][0]
        before = resident_bytes(process.pid)
        for _ in range(12):
            with socket.create_connection(address, timeout=10) as attacker:
                attacker.sendall(message)
                assert attacker.recv(1) == b""  # it is closed
        with MongoClient[dict[str, object]](uri, serverSelectionTimeoutMS=10_000) as client:
            client.admin.command("ping")
        grown = resident_bytes(process.pid) - before
    # Each holds 46 MB as long as it is not freed.
    assert grown < 200 * MEGABYTE, f"{grown / MEGABYTE:.0f} MB"


@pytest.mark.parametrize(("name", "is_answered"), [("zlib", True), ("snappy", True), ("noop", False)])
def test_compression_without_a_negotiation(name: str, is_answered: bool) -> None:
    """A real server answers what it could have negotiated, and closes for what is turned off there."""
    content = bytes(5) + bson.encode({"ping": 1, "$db": "admin"})
    compressor = COMPRESSORS[name]
    payload = pack("<iiB", OpCode.OP_MSG, len(content), compressor.id) + compressor.pack(memoryview(content))
    message = pack("<iiii", 16 + len(payload), 1, 0, OpCode.OP_COMPRESSED) + payload
    with ReplicaSet() as server, socket.create_connection(("127.0.0.1", server.server.port), 10) as client:
        client.sendall(message)
        assert (client.recv(1) != b"") == is_answered


def test_without_file_descriptors_connections_wait_and_the_log_stays_short() -> None:
    run_by = ["sh", "-c", 'ulimit -n 64 && exec "$@"', "sh"]
    with (
        serving(run_by=run_by) as (process, uri),
        MongoClient[dict[str, object]](uri, maxPoolSize=1, serverSelectionTimeoutMS=10_000) as client,
    ):
        client.admin.command("ping")
        address = parse_uri(uri)["nodelist"][0]
        crowd = [socket.create_connection(address, timeout=10) for _ in range(200)]
        try:
            for _ in range(5):
                assert client.admin.command("ping")["ok"] == 1
        finally:
            for one in crowd:
                one.close()
        with MongoClient[dict[str, object]](uri, serverSelectionTimeoutMS=10_000) as later:
            assert later.admin.command("ping")["ok"] == 1
        _, log = end(process, signal.SIGTERM)
    about_descriptors = [line for line in log if "file descriptors" in str(line["msg"])]
    assert len(about_descriptors) == 1
    assert len(log) < 20, log[:40]


def test_a_client_that_leaves_without_reading_is_no_line_of_another_form() -> None:
    """asyncio prints a bare line for writes to a connection that is lost."""
    body = bson.encode({"ping": 1, "$db": "admin"})
    message = pack("<iiii", 21 + len(body), 1, 0, OpCode.OP_MSG) + bytes(5) + body
    with serving() as (process, uri):
        address = parse_uri(uri)["nodelist"][0]
        for _ in range(40):
            with socket.create_connection(address, timeout=10) as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, pack("ii", 1, 0))
                one.sendall(message * 500)
        with MongoClient[dict[str, object]](uri, serverSelectionTimeoutMS=10_000) as client:
            client.admin.command("ping")
        _, log = end(process, signal.SIGTERM)  # every line is JSON
    assert "socket.send" not in str(log)


@pytest.mark.parametrize("options", [(), ("--shards", "2")], ids=["replica set", "cluster"])
def test_a_signal_ends_the_process_while_clients_compute(options: tuple[str, ...]) -> None:
    names = ("find", "windows", "update", "validator")
    with (
        serving(*options) as (process, uri),
        MongoClient[dict[str, object]](uri, serverSelectionTimeoutMS=1000) as client,
    ):
        prepare(client.shop)
        commands = [Running(uri, "shop", COMMANDS[name]) for name in names]
        wait_for(lambda: len(operations(client, "shop")) >= len(commands))
        _, log = end(process, signal.SIGTERM)
        assert [line["msg"] for line in log].count("Shut down") >= 1
        for command in commands:
            command.client.close()
