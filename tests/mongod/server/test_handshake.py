"""hello: its fields, and how drivers wait for changes."""

import asyncio
import time
from typing import Any

import pytest
from bson import Int64, ObjectId
from pymongo import AsyncMongoClient, MongoClient
from pymongo.errors import OperationFailure

from tailrace.bson.documents import decode
from tailrace.mongod.wire import OpCode
from tests.mongod.server.raw_client import raw_client
from tests.mongod.server.running import Document, RunningServer, connected, running
from tests.mongod.wire.heartbeats import Heartbeats

METADATA = {"driver": {"name": "test", "version": "1"}, "os": {"type": "Linux"}}


def test_a_primary_describes_itself(server: RunningServer, client: MongoClient[Document]) -> None:
    hello = client.admin.command("hello")
    member = f"127.0.0.1:{server.server.port}"
    assert hello["setName"] == "rs0"
    assert hello["hosts"] == [member]
    assert hello["me"] == hello["primary"] == member
    assert hello["isWritablePrimary"] is True
    assert hello["secondary"] is False
    assert hello["maxWireVersion"] >= 21
    assert hello["minWireVersion"] == 0
    assert hello["maxBsonObjectSize"] == 16 * 1024 * 1024
    assert hello["maxMessageSizeBytes"] == 48_000_000
    assert hello["maxWriteBatchSize"] == 100_000
    assert hello["logicalSessionTimeoutMinutes"] == 30
    assert hello["lastWrite"]["opTime"]["ts"] == hello["operationTime"]
    assert hello["electionId"].binary[:4] == b"\x7f\xff\xff\xff"
    assert isinstance(hello["topologyVersion"]["processId"], ObjectId)


@pytest.mark.parametrize("name", ["isMaster", "ismaster"])
def test_the_old_names_answer_with_the_old_field(client: MongoClient[Document], name: str) -> None:
    hello = client.admin.command(name)
    assert hello["ismaster"] is True
    assert "isWritablePrimary" not in hello


def test_a_standalone_server_has_no_set_and_no_cluster_time() -> None:
    with running(replica_set=None) as server, connected(server) as client:
        hello = client.admin.command("hello")
        assert hello["isWritablePrimary"] is True
        assert "setName" not in hello
        assert "hosts" not in hello
        assert "$clusterTime" not in hello
        assert "operationTime" not in hello
        assert client.topology_description.topology_type_name == "Single"


def test_the_legacy_handshake(server: RunningServer) -> None:
    with raw_client(server) as raw:
        reply = raw.handshake({"isMaster": 1, "helloOk": True, "client": METADATA})
        document = decode(reply.document)
        assert reply.op_code is OpCode.OP_REPLY
        assert document["ismaster"] is True
        assert document["helloOk"] is True
        assert raw.call({"hello": 1})["isWritablePrimary"] is True


@pytest.mark.parametrize("compressor", ["snappy", "zlib", "zstd"])
def test_compressors(server: RunningServer, compressor: str) -> None:
    with raw_client(server) as raw:
        assert raw.call({"hello": 1, "compression": ["lz4", compressor]})["compression"] == [compressor]
    with connected(server, compressors=compressor) as client:
        payload = ["a" * 10_000] * 10
        assert client.admin.command({"ping": 1, "comment": payload})["ok"] == 1.0


def test_no_common_compressor(server: RunningServer) -> None:
    with raw_client(server) as raw:
        assert "compression" not in raw.call({"hello": 1, "compression": ["lz4"]})


async def ask_asynchronously(uri: str) -> Document:
    async with AsyncMongoClient[Document](uri) as client:
        return await client.admin.command("ping")


def test_an_asynchronous_client(uri: str) -> None:
    assert asyncio.run(ask_asynchronously(uri))["ok"] == 1.0


# -- metadata ---------------------------------------------------------------------------------------------


def test_metadata_is_accepted_once(server: RunningServer) -> None:
    with raw_client(server) as raw:
        assert raw.call({"hello": 1, "client": METADATA})["ok"] == 1.0
        assert raw.call({"hello": 1, "client": METADATA})["code"] == 186
        assert raw.call({"hello": 1})["ok"] == 1.0


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ({"driver": {"name": "x", "version": "1"}}, 183),
        ({"driver": {"name": "x"}, "os": {"type": "y"}}, 183),
        ({"driver": {"name": 5, "version": "1"}, "os": {"type": "y"}}, 14),
        ({"driver": 1, "os": {"type": "y"}}, 14),
        ({**METADATA, "application": {"name": "x" * 129}}, 184),
        ({**METADATA, "platform": "x" * 600}, 185),
        ("me", 14),
    ],
)
def test_wrong_metadata_is_refused(server: RunningServer, metadata: Any, code: int) -> None:
    with raw_client(server) as raw:
        assert raw.call({"hello": 1, "client": metadata})["code"] == code


# -- waiting for a change -----------------------------------------------------------------------------------


def test_an_awaitable_hello_answers_at_once_if_the_topology_differs(server: RunningServer) -> None:
    with raw_client(server) as raw:
        version = {"processId": ObjectId(), "counter": Int64(0)}
        started = time.monotonic()
        assert raw.call({"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 20_000})["ok"] == 1.0
        assert time.monotonic() - started < 5


def test_an_awaitable_hello_waits_for_its_time(server: RunningServer) -> None:
    with raw_client(server) as raw:
        version = raw.call({"hello": 1})["topologyVersion"]
        started = time.monotonic()
        reply = raw.call({"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 80})
        assert reply["topologyVersion"] == version
        assert time.monotonic() - started >= 0.08


def test_a_streaming_hello_sends_further_replies(server: RunningServer) -> None:
    with raw_client(server) as raw:
        version = raw.call({"hello": 1})["topologyVersion"]
        raw.send({"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 10}, exhaust_allowed=True)
        replies = [raw.receive() for _ in range(4)]
        assert all(reply.more_to_come for reply in replies)
        assert [reply.response_to for reply in replies[1:]] == [reply.request_id for reply in replies[:-1]]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"maxAwaitTimeMS": 10}, 31368),
        ({"topologyVersion": {"processId": ObjectId(), "counter": Int64(0)}}, 31368),
        ({"topologyVersion": {"processId": ObjectId(), "counter": Int64(-1)}, "maxAwaitTimeMS": 1}, 31372),
        ({"topologyVersion": {"processId": ObjectId(), "counter": Int64(0)}, "maxAwaitTimeMS": -1}, 2),
        ({"topologyVersion": {"processId": ObjectId(), "counter": 0}, "maxAwaitTimeMS": 1}, 14),
        ({"topologyVersion": {"processId": 1, "counter": Int64(0)}, "maxAwaitTimeMS": 1}, 14),
        ({"topologyVersion": {"counter": Int64(0)}, "maxAwaitTimeMS": 1}, 40414),
        ({"topologyVersion": 1, "maxAwaitTimeMS": 1}, 14),
        ({"compression": None}, 10065),
        ({"helloOk": "yes"}, 14),
    ],
)
def test_wrong_hellos(server: RunningServer, fields: Document, code: int) -> None:
    with raw_client(server) as raw:
        assert raw.call({"hello": 1, **fields})["code"] == code


def test_a_topology_from_the_future_is_refused(server: RunningServer) -> None:
    with raw_client(server) as raw:
        version = raw.call({"hello": 1})["topologyVersion"]
        version["counter"] = Int64(version["counter"] + 1)
        reply = raw.call({"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 1})
        assert reply["code"] == 31382


def test_a_driver_streams(server: RunningServer) -> None:
    heartbeats = Heartbeats()
    with connected(server, event_listeners=[heartbeats], heartbeatFrequencyMS=500) as client:
        deadline = time.monotonic() + 30
        while not heartbeats.streamed and time.monotonic() < deadline:
            client.admin.command("ping")
    assert heartbeats.streamed


def test_credentials_are_refused_because_there_are_no_users(server: RunningServer) -> None:
    with (
        connected(server, username="me", password="secret") as client,
        pytest.raises(OperationFailure, match="no users") as failure,
    ):
        client.admin.command("ping")
    assert failure.value.code == 18
