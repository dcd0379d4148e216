"""PyMongo on a real socket: commands and replies in both directions."""

import time

import pymongo
import pytest
from pymongo import InsertOne, WriteConcern

from tests.mongod.wire.heartbeats import Heartbeats
from tests.mongod.wire.loopback import Loopback, driver


@pytest.mark.parametrize("compressor", ["", "snappy", "zlib", "zstd"])
def test_commands_round_trip(compressor: str) -> None:
    server = Loopback()
    with driver(server, **({"compressors": compressor} if compressor else {})) as client:
        payload = {"text": "ä" * 1000, "list": [*range(100)]}
        assert client.admin.command({"ping": 1, "payload": payload})["echo"] == payload
        documents = [{"_id": number, "item": "lamp" * 20} for number in range(2000)]
        assert len(client["shop"]["orders"].insert_many(documents).inserted_ids) == 2000
        large = {"_id": 1, "x": bytes(4_000_000)}
        client["shop"]["orders"].insert_one(large)
    assert server.requests[0].name in ("hello", "ismaster")
    assert server.requests[0].compressor is None
    inserts = server.named("insert")
    assert [len(request.sequences["documents"]) for request in inserts] == [2000, 1]
    assert {request.database for request in inserts} == {"shop"}
    used = {request.compressor.name if request.compressor else "" for request in inserts}
    assert used == {compressor}


def test_the_clients_order_decides_which_compressor_is_used() -> None:
    server = Loopback(compressors=("snappy", "zlib"))
    with driver(server, compressors="zstd,zlib,snappy") as client:
        client.admin.command("ping")
    (ping,) = server.named("ping")
    assert ping.compressor is not None
    assert ping.compressor.name == "zlib"


def test_unacknowledged_writes_get_no_reply() -> None:
    server = Loopback()
    with driver(server) as client:
        orders = client["shop"]["orders"].with_options(write_concern=WriteConcern(w=0))
        for number in range(20):
            orders.insert_one({"_id": number})
        assert client.admin.command("ping")["ok"] == 1.0
    assert [request.expects_reply for request in server.named("insert")] == [False] * 20


def test_a_bulk_write_has_two_sequences() -> None:
    server = Loopback()
    with driver(server) as client:
        client.bulk_write([InsertOne({"_id": number}, namespace="shop.orders") for number in range(3)])
    (request,) = server.named("bulkWrite")
    assert {name: len(found) for name, found in request.sequences.items()} == {"ops": 3, "nsInfo": 1}


def test_an_exhaust_cursor() -> None:
    server = Loopback()
    with driver(server) as client:
        found = client["test"]["c"].find(cursor_type=pymongo.CursorType.EXHAUST)
        assert [document["_id"] for document in found] == [1, 2, 3, 4]
    assert len(server.named("getMore")) == 1


def test_streamed_hellos() -> None:
    heartbeats = Heartbeats()
    server = Loopback()
    with driver(server, event_listeners=[heartbeats]) as client:
        client.admin.command("ping")
        deadline = time.monotonic() + 5
        while heartbeats.streamed < 5 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert heartbeats.streamed >= 5
    awaited = [request for request in server.requests if request.exhaust_allowed]
    assert len(awaited) == 1  # five replies, one request


def test_every_byte_of_a_session_is_accounted_for() -> None:
    """The received bytes, split by the sizes in the headers, are one message for each request."""
    server = Loopback()
    with driver(server, compressors="zstd") as client:
        client["shop"]["orders"].insert_one({"_id": 1})
    assert len(server.messages()) == len(server.requests)
    assert not [request.error for request in server.requests if request.error]
