"""A cluster killed while it shards collections: each is sharded and logged once, or neither."""

import random
import threading
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from tests.mongod.cluster.killing import kill_at_work, serving

Document = dict[str, Any]

SEED = 6
ROUNDS = 3
KEYS: tuple[Document, ...] = ({"x": "hashed"}, {"_id": 1}, {"x": 1, "y": 1}, {"_id": "hashed"})


def shard_until_it_fails(client: "MongoClient[Document]", numbers: "count[int]", done: list[str]) -> None:
    for number in numbers:
        ns = f"shop.c{number}"
        try:
            client.admin.command("shardCollection", ns, key=KEYS[number % len(KEYS)])
        except PyMongoError:
            return
        done.append(ns)


def announcements(client: "MongoClient[Document]") -> Counter[str]:
    """The number of shardCollection entries for a collection in the shards' oplogs."""
    found: Counter[str] = Counter()
    hosts = [shard["host"] for shard in client.admin.command("listShards")["shards"]]
    for name, _, member in (host.partition("/") for host in hosts):
        with MongoClient[Document](f"mongodb://{member}/?replicaSet={name}") as shard:
            entries = shard.local.oplog.rs.find({"o2.shardCollection": {"$exists": True}})
            found.update(entry["ns"] for entry in entries)
    return found


def test_sharded_and_logged_once_or_neither(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    numbers, done = count(), list[str]()
    for _ in range(ROUNDS):
        with serving(tmp_path) as (process, client):
            client.admin.command("ping")
            worker = threading.Thread(target=shard_until_it_fails, args=(client, numbers, done))
            kill_at_work(process, rng, done, worker)
    with serving(tmp_path) as (_, client):
        sharded = {document["_id"] for document in client.config.collections.find()}
        assert sharded >= set(done), SEED
        assert announcements(client) == Counter(sharded), SEED
        assert client.config["system.sharding_ddl_coordinators"].count_documents({}) == 0
        uuids = {document["uuid"] for document in client.config.collections.find()}
        assert set(client.config.chunks.distinct("uuid")) == uuids
        for ns in sharded:
            assert list(client.shop[ns.partition(".")[2]].find()) == []
