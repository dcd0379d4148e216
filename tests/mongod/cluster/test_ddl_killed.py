"""A cluster killed after some shards have run a command finishes it when it starts."""

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

SEED = 7
ROUNDS = 3
COMMANDS: list[tuple[str, Document]] = [
    ("admin", {"renameCollection": "shop.renamed", "to": "shop.other"}),
    ("shop", {"createIndexes": "indexed", "indexes": [{"key": {"a": 1}, "name": "a_1"}]}),
    ("shop", {"dropIndexes": "stripped", "index": "b_1"}),
    ("shop", {"collMod": "changed", "validator": {"a": 1}}),
]
NAMES = ["renamed", "indexed", "stripped", "changed"]


def shards_of(client: "MongoClient[Document]") -> "list[MongoClient[Document]]":
    hosts = [shard["host"] for shard in client.admin.command("listShards")["shards"]]
    return [MongoClient(f"mongodb://{host.partition('/')[2]}/?directConnection=true") for host in hosts]


def run(client: "MongoClient[Document]", database: str, command: Document) -> None:
    try:
        client[database].command(command)
    except PyMongoError:
        return


def test_after_a_kill_the_other_shard_finishes_the_command(tmp_path: Path) -> None:
    with serving(tmp_path) as (process, client):
        for name in NAMES:
            client.admin.command("shardCollection", f"shop.{name}", key={"_id": "hashed"})
            client.shop[name].create_index("b")
            client.shop[name].insert_many([{"_id": number} for number in range(20)])
        first, second = shards_of(client)
        names = [next(iter(command)) for _, command in COMMANDS[1:]]
        names.append("_shardsvrRenameCollectionParticipant")
        data = {"failCommands": names, "blockConnection": True}
        second.admin.command("configureFailPoint", "failCommand", mode="alwaysOn", data=data)
        workers = [threading.Thread(target=run, args=(client, *command)) for command in COMMANDS]
        for worker in workers:
            worker.start()
        second.admin.command("waitForFailPoint", "failCommand", timesEntered=len(COMMANDS), maxTimeMS=20_000)
        assert "other" in first.shop.list_collection_names()
        assert "other" not in second.shop.list_collection_names()
        first.close()
        second.close()
        process.kill()
        for worker in workers:
            worker.join()
    with serving(tmp_path) as (_, client):
        for shard in shards_of(client):
            assert set(shard.shop.list_collection_names()) == {"other", "indexed", "stripped", "changed"}
            assert set(shard.shop.indexed.index_information()) == {"_id_", "_id_hashed", "b_1", "a_1"}
            assert set(shard.shop.stripped.index_information()) == {"_id_", "_id_hashed"}
            assert shard.shop.changed.options()["validator"] == {"a": 1}
            shard.close()
        assert client.shop.other.count_documents({}) == 20
        assert client.shop.renamed.count_documents({}) == 0
        assert client.config["system.sharding_ddl_coordinators"].count_documents({}) == 0


def make_and_drop_until_it_fails(
    client: "MongoClient[Document]", numbers: "count[int]", done: list[str], begun: list[str]
) -> None:
    for number in numbers:
        name = f"shop{number}"
        try:
            client.admin.command("shardCollection", f"{name}.spread", key={"_id": "hashed"})
            if number % 2:
                client[name].single.insert_one({})
            begun.append(name)
            client.drop_database(name)
        except PyMongoError:
            return
        done.append(name)


def ends_of_databases(client: "MongoClient[Document]") -> Counter[str]:
    """The number of dropDatabase events of each database."""
    found: Counter[str] = Counter()
    for shard in shards_of(client):
        entries = shard.local.oplog.rs.find({"o.dropDatabase": 1, "fromMigrate": False})
        found.update(entry["ns"].partition(".")[0] for entry in entries)
        shard.close()
    return found


def test_databases_are_dropped_once_and_completely(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    numbers, done, begun = count(), list[str](), list[str]()
    for _ in range(ROUNDS):
        with serving(tmp_path) as (process, client):
            worker = threading.Thread(
                target=make_and_drop_until_it_fails, args=(client, numbers, done, begun)
            )
            kill_at_work(process, rng, done, worker)
    with serving(tmp_path) as (_, client):
        left = {name for name in client.list_database_names() if name.startswith("shop")}
        gone = set(begun) - left
        assert gone >= set(done), SEED
        assert ends_of_databases(client) == Counter(gone), SEED
        known_to_config = {document["_id"] for document in client.config.databases.find()}
        assert known_to_config.isdisjoint(gone), SEED
        for shard in shards_of(client):
            assert gone.isdisjoint(shard.list_database_names()), SEED
            shard.close()
