"""DDL, migrations and writes at the same time on two routers: collections stay the same on every shard."""

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from tailrace.bson.documents import encode
from tailrace.mongod.store.catalog import Collection
from tailrace.testing.sharded_cluster import ShardedCluster

Document = dict[str, Any]
Step = Callable[["MongoClient[Document]", random.Random], Any]

SEEDS = (1, 2)
THREADS = 4
STEPS = 60
NAMES = ("a", "b", "c")
EXPECTED_CODES = frozenset(
    {2, 20, 23, 26, 27, 48, 61, 67, 70, 72, 85, 86, 117, 118, 125, 361, 370, 11000, 28769}
)
"""Errors of commands that lost a race"""


def any_name(rng: random.Random) -> str:
    return rng.choice(NAMES)


def any_ns(rng: random.Random) -> str:
    return f"shop.{any_name(rng)}"


STEPS_OF: tuple[Step, ...] = (
    lambda client, rng: client.shop.command("create", any_name(rng)),
    lambda client, rng: client.shop[any_name(rng)].drop(),
    lambda client, rng: client.shop[any_name(rng)].rename(any_name(rng), dropTarget=rng.random() < 0.5),
    lambda client, rng: client.shop[any_name(rng)].create_index(rng.choice("xyz")),
    lambda client, rng: client.shop[any_name(rng)].create_index([("_id", 1), ("u", 1)], unique=True),
    lambda client, rng: client.shop.command("dropIndexes", any_name(rng), index=rng.choice(("*", "x_1"))),
    lambda client, rng: client.shop.command("collMod", any_name(rng), validationLevel="moderate"),
    lambda client, rng: client.admin.command("shardCollection", any_ns(rng), key={"_id": "hashed"}),
    lambda client, rng: client.admin.command("shardCollection", any_ns(rng), key={"k": 1}),
    lambda client, rng: client.admin.command(
        "moveChunk", any_ns(rng), find={"k": 1, "_id": 1}, to=rng.choice(("shard0", "shard1"))
    ),
    lambda client, rng: client.shop[any_name(rng)].insert_many(
        [{"k": rng.randrange(100), "x": 1} for _ in range(5)]
    ),
    lambda client, rng: client.shop[any_name(rng)].insert_one({"k": rng.randrange(100)}),
    lambda client, rng: client.shop[any_name(rng)].aggregate([{"$out": any_name(rng)}]),
    lambda client, rng: client.drop_database("shop") if rng.random() < 0.2 else None,
)


def work(client: "MongoClient[Document]", seed: int, faults: list[str]) -> None:
    rng = random.Random(seed)
    for _ in range(STEPS):
        step = rng.randrange(len(STEPS_OF))
        try:
            STEPS_OF[step](client, rng)
        except OperationFailure as error:
            codes = {error.code, *(e["code"] for e in (error.details or {}).get("writeErrors", ()))}
            if not codes & EXPECTED_CODES:
                faults.append(f"seed {seed}, step {step}: {error.code} {str(error)[:100]}")


def described(collection: Collection) -> tuple[Any, ...]:
    """The part that must be the same on all shards."""
    indexes = {index.name: encode(dict(index.spec)) for index in collection.indexes}
    return collection.uuid, encode(dict(collection.options)), indexes, collection.shard_key


@pytest.fixture
def cluster() -> Iterator[ShardedCluster]:
    with ShardedCluster(shards=2, routers=2) as cluster:
        yield cluster


@pytest.mark.parametrize("seed", SEEDS)
def test_collections_are_the_same_on_all_their_shards(cluster: ShardedCluster, seed: int) -> None:
    faults: list[str] = []
    threads = [
        threading.Thread(target=work, args=(cluster.client(router=number % 2), seed * 100 + number, faults))
        for number in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive(), "somebody waits without end"
    assert faults == []

    inside = cluster.cluster
    placement = inside.placement
    catalogs = {name: shard.store.catalog for name, shard in inside.shards.items()}
    for ns, placed in placement.collections.items():
        versions = [catalogs[name].collection(ns) for name in placed.shards]
        assert None not in versions, ns
        assert len({repr(described(found)) for found in versions if found is not None}) == 1, ns
        assert {found.uuid for found in versions if found is not None} == {placed.uuid}, ns
    client = cluster.client()
    for name in client.shop.list_collection_names():
        found = list(client.shop[name].find())
        assert len({document["_id"] for document in found}) == len(found)
        assert client.shop.command("validate", name)["valid"]
    uuids = {document["uuid"] for document in client.config.collections.find()}
    assert set(client.config.chunks.distinct("uuid")) == uuids
    assert client.config["system.sharding_ddl_coordinators"].count_documents({}) == 0
