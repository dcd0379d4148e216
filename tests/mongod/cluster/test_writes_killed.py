"""A cluster killed while documents change their owners: retries are executed once."""

import random
import socket
import threading
import uuid
from itertools import count
from pathlib import Path
from typing import Any

from bson import Binary, Int64
from pymongo import MongoClient

from tests.mongod.cluster.killing import serving
from tests.mongod.server.raw_client import TIMEOUT_SECONDS, RawClient

Document = dict[str, Any]

SEED = 11
ROUNDS, ANSWERED = 3, 5
LSID = {"id": Binary(uuid.UUID(int=SEED).bytes, 4)}
CHANGE = {"x": {"$mod": [{"$add": ["$x", 10]}, 20]}, "n": {"$add": ["$n", 1]}}
"""Each time the document moves to the other shard"""


def send_until_it_fails(
    client: "MongoClient[Document]", numbers: "count[int]", first: int | None, killer: threading.Timer
) -> int:
    """Send one command after another; returns the number of the first one without a reply.

    The kill begins after some replies, however long they take.
    """
    assert client.address is not None
    with socket.create_connection(client.address, timeout=TIMEOUT_SECONDS) as endpoint:
        raw = RawClient(endpoint)
        number = next(numbers) if first is None else first
        for answered in count():
            if answered == ANSWERED:
                killer.start()
            update = {"q": {"_id": 1}, "u": [{"$set": CHANGE}]}
            command = {"update": "things", "updates": [update], "lsid": LSID, "txnNumber": Int64(number)}
            try:
                reply = raw.call({**command, "$db": "shop"})
            except (OSError, AssertionError):
                return number
            assert (reply["ok"], reply.get("n"), reply.get("nModified")) == (1.0, 1, 1), reply
            number = next(numbers)
    raise AssertionError("unreachable: there is no end to counting")


def test_a_move_between_shards_is_done_once(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    numbers = count()
    unanswered: int | None = None
    for round_ in range(ROUNDS):
        with serving(tmp_path) as (process, client):
            if not round_:
                client.admin.command("shardCollection", "shop.things", key={"x": 1})
                client.admin.command("split", "shop.things", middle={"x": 10})
                primary = client.config.databases.find_one({"_id": "shop"})
                assert primary is not None
                (other,) = {"shard0", "shard1"} - {primary["primary"]}
                client.admin.command("moveChunk", "shop.things", find={"x": 10}, to=other)
                client.shop.things.insert_one({"_id": 1, "x": 0, "n": 0})
            client.admin.command("ping")
            killer = threading.Timer(rng.uniform(0, 0.1), process.kill)
            unanswered = send_until_it_fails(client, numbers, unanswered, killer)
            killer.join()
    assert unanswered is not None
    with serving(tmp_path) as (_, client):
        (found,) = client.shop.things.find()
        # The last one may have been executed or not; it was not retried.
        assert found["n"] in (unanswered, unanswered + 1), SEED
        assert found["n"] >= ROUNDS * ANSWERED
