"""A cluster killed while it moves data: nothing is lost or duplicated, and no stream shows it."""

import threading
from pathlib import Path
from random import Random
from typing import Any

from bson import Timestamp
from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

from tests.mongod.cluster.killing import kill_at_work, serving

Document = dict[str, Any]

SEED = 7
ROUNDS = 3
OPTIONS: Document = {"shards": 3, "serverSelectionTimeoutMS": 2000, "retryWrites": False}
SHARDS = ("shard0", "shard1", "shard2")
KEYS: tuple[Document, ...] = ({"k": 1}, {"z": 1}, {"k": "hashed"})


def write_until_it_fails(
    client: "MongoClient[Document]", rng: Random, documents: dict[Any, Document], unsure: set[Any]
) -> None:
    """Insert, change and delete; a kill leaves at most one document in an unknown state."""
    while True:
        name = rng.choice(("items", "plain"))
        known = [key for key in documents if key[0] == name and key not in unsure]
        key = (name, rng.getrandbits(60)) if not known or rng.random() < 0.5 else rng.choice(known)
        collection = client.shop[name]
        query = {"_id": key[1]}
        unsure.add(key)
        try:
            if key not in documents:
                document = {**query, "k": rng.randrange(100), "z": rng.randrange(100), "n": 0}
                collection.insert_one(document)
                documents[key] = document
            elif rng.random() < 0.3:
                assert collection.delete_one(query).deleted_count == 1
                del documents[key]
            else:
                assert collection.update_one(query, {"$inc": {"n": 1}}).modified_count == 1
                documents[key]["n"] += 1
        except PyMongoError:
            return
        unsure.discard(key)


def move_until_it_fails(client: "MongoClient[Document]", rng: Random, done: list[str]) -> None:
    while True:
        to = rng.choice(SHARDS)
        commands: tuple[Document, ...] = (
            {"moveRange": "shop.items", "min": {"k": 30}, "max": {"k": 60}, "toShard": to},
            {"moveRange": "shop.items", "min": {"k": 60}, "max": {"k": 90}, "toShard": to},
            {"movePrimary": "shop", "to": to},
            {"moveCollection": "shop.plain", "toShard": to},
            {"reshardCollection": "shop.items", "key": rng.choice(KEYS), "forceRedistribution": True},
        )
        command = rng.choice(commands)
        try:
            client.admin.command(command)
        except OperationFailure as error:
            # A range that was split since, or of another key.
            if error.code not in (2, 72):
                done.append(str(error))
                return
        except PyMongoError:
            return
        done.append(next(iter(command)))


def test_killed_while_moving(tmp_path: Path) -> None:
    rng = Random(SEED)
    documents: dict[Any, Document] = {}
    unsure: set[Any] = set()
    done: list[str] = []
    begin: Timestamp | None = None
    for _ in range(ROUNDS):
        with serving(tmp_path, **OPTIONS) as (process, client):
            if begin is None:
                client.admin.command("shardCollection", "shop.items", key={"k": 1})
                client.shop.create_collection("plain")
                begin = client.admin.command("ping")["operationTime"]
            check(client, documents, unsure, begin)
            writer = threading.Thread(
                target=write_until_it_fails, args=(client, Random(rng.random()), documents, unsure)
            )
            mover = threading.Thread(target=move_until_it_fails, args=(client, Random(rng.random()), done))
            kill_at_work(process, rng, done, mover, writer, more=4, within=0.1)
    with serving(tmp_path, **OPTIONS) as (_, client):
        assert begin is not None
        check(client, documents, unsure, begin)


def check(
    client: "MongoClient[Document]", documents: dict[Any, Document], unsure: set[Any], begin: Timestamp
) -> None:
    """Compare the documents, and the events of a stream from the beginning, with what was acknowledged."""
    found = [
        ((name, document["_id"]), document)
        for name in ("items", "plain")
        for document in client.shop[name].find()
    ]
    there = dict(found)
    assert len(there) == len(found), SEED
    for key in unsure:
        documents.pop(key, None)
        if key in there:
            documents[key] = there[key]
    unsure.clear()
    assert there == documents, SEED
    assert folded(client, begin) == documents, SEED
    assert client.shop.items.count_documents({}) == sum(key[0] == "items" for key in documents), SEED
    assert not [name for name in client.shop.list_collection_names() if "resharding" in name]


def folded(client: "MongoClient[Document]", begin: Timestamp) -> dict[Any, Document]:
    """The documents that result from all events so far."""
    documents: dict[Any, Document] = {}
    last = client.shop.last.insert_one({}).inserted_id
    with client.shop.watch(start_at_operation_time=begin) as stream:
        for event in stream:
            if event["operationType"] not in ("insert", "update", "delete"):
                continue
            key = (event["ns"]["coll"], event["documentKey"]["_id"])
            if key[0] == "last":
                if key[1] == last:
                    return documents
            elif event["operationType"] == "insert":
                assert key not in documents, event
                documents[key] = event["fullDocument"]
            elif event["operationType"] == "update":
                documents[key].update(event["updateDescription"]["updatedFields"])
            else:
                del documents[key]
    raise AssertionError("the stream ended")
