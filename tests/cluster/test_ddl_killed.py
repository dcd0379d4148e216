"""A cluster that is killed when some shards have run a command and others have not: it is finished."""

import threading
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pymongo.errors import PyMongoError
from tests.cluster.test_sharding_killed import serving

Document = dict[str, Any]

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


def test_what_one_shard_has_done_the_other_does_after_a_kill(tmp_path: Path) -> None:
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
            assert shard.shop.changed.options() == {"validator": {"a": 1}}
            shard.close()
        assert client.shop.other.count_documents({}) == 20
        assert client.shop.renamed.count_documents({}) == 0
        assert client.config["system.sharding_ddl_coordinators"].count_documents({}) == 0
