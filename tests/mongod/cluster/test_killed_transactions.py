"""A cluster killed while transactions over its shards commit: each is whole, and shown once."""

import random
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from tests.mongod.server.served import served

Document = dict[str, Any]

SEED = 19
KILLS = 3
WRITERS = 3
QUICK: Document = {"serverSelectionTimeoutMS": 300}
OPTIONS = ("--shards", "2", "--log-level", "warning")


def test_transactions_under_kills(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    acknowledged: set[str] = set()
    start: Document | None = None
    for kill in range(KILLS):
        with served(tmp_path, *OPTIONS) as process:
            with process.client() as client:
                if start is None:
                    start = prepared(client)
                check_whole(client, acknowledged)
            stop = threading.Event()
            writers = [
                threading.Thread(
                    target=write, args=(process.client(**QUICK), f"{kill}-{number}", acknowledged, stop)
                )
                for number in range(WRITERS)
            ]
            for writer in writers:
                writer.start()
            # The moment is random, not a wait for something: transactions begin and end all the time.
            stop.wait(rng.uniform(0.2, 0.8))
            process.kill()
            stop.set()
            for writer in writers:
                writer.join()
        assert process.faults() == []
    with served(tmp_path, *OPTIONS) as process, process.client() as client:
        committed = check_whole(client, acknowledged)
        assert len(acknowledged) > KILLS, f"{SEED=}: hardly anything happened"
        assert list(client.config.transaction_coordinators.find()) == []
        assert start is not None
        check_shown(client, start, committed)


def prepared(client: "MongoClient[Document]") -> Document:
    """Create a database on each shard; returns the start of streams."""
    for name, shard in (("left", "shard0"), ("right", "shard1")):
        client.admin.command("enableSharding", name, primaryShard=shard)
        client[name].create_collection("items")
    with client.watch() as stream:
        token = stream.resume_token
    assert token is not None
    return dict(token)


def write(client: "MongoClient[Document]", name: str, acknowledged: set[str], stop: threading.Event) -> None:
    """Transactions with a document for each shard, one after the other, until the server is killed."""
    number = 0
    with client:
        while not stop.is_set():
            number += 1
            document = {"_id": f"{name}-{number}"}
            try:
                with client.start_session() as session, session.start_transaction():
                    client.left.items.insert_one(document, session=session)
                    client.right.items.insert_one(document, session=session)
            except PyMongoError:
                return  # the server is gone; the data shows the outcome
            acknowledged.add(document["_id"])


def check_whole(client: "MongoClient[Document]", acknowledged: set[str]) -> set[str]:
    """Both shards have the same documents, including everything acknowledged; returns them."""
    left, right = ({found["_id"] for found in client[name].items.find()} for name in ("left", "right"))
    assert left == right, f"{SEED=}"
    assert acknowledged <= left, f"{SEED=}"
    return left


def check_shown(client: "MongoClient[Document]", start: Document, committed: set[str]) -> None:
    """A stream from the beginning shows both halves of each transaction once, and nothing else."""
    client.left.items.insert_one({"_id": "end"})
    shown: defaultdict[str, list[Document]] = defaultdict(list)
    with client.watch(resume_after=start) as stream:
        for event in stream:
            identity = event["documentKey"]["_id"]
            if identity == "end":
                break
            shown[identity].append(event)
    assert shown.keys() == committed, f"{SEED=}"
    for events in shown.values():
        assert sorted(event["ns"]["db"] for event in events) == ["left", "right"], f"{SEED=}"
        assert len({(event["lsid"]["id"], event["txnNumber"]) for event in events}) == 1, f"{SEED=}"
