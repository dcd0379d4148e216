"""Collections get another key, another shard, or another primary, while they are used."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest
from bson import Binary
from pymongo import MongoClient

from tailrace.testing.sharded_cluster import ShardedCluster
from tests.mongod.cluster.folding import drained, folded
from tests.mongod.cluster.refusals import refusal

Document = dict[str, Any]
SHARDS = ("shard0", "shard1", "shard2")


@pytest.fixture(scope="module")
def cluster() -> Iterator[ShardedCluster]:
    with ShardedCluster(shards=3) as cluster:
        yield cluster


def ns_of(database: Any) -> str:
    return f"{database.name}.items"


def held(cluster: ShardedCluster, database: Any, name: str = "items") -> list[int]:
    """The number of documents on each shard."""
    clients = [cluster.shard_client(shard) for shard in SHARDS]
    return [client[database.name][name].count_documents({}) for client in clients]


def uuid_of(database: Any, name: str = "items") -> Any:
    return next(database.list_collections(filter={"name": name}))["info"]["uuid"]


@contextmanager
def writing(collection: Any, seed: int) -> Iterator[dict[int, Document]]:
    """A writer that runs before, during and after the block; yields the documents that result."""
    documents: dict[int, Document] = {}
    begun, stopping = threading.Event(), threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        rng = Random(seed)
        count, left = 1000, 20
        try:
            while left:
                count += 1
                left -= stopping.is_set()
                if count == 1020:
                    begun.set()
                if not documents or rng.random() < 0.5:
                    document = {"_id": count, "k": rng.randrange(100), "z": rng.randrange(100), "n": 0}
                    collection.insert_one(document)
                    documents[count] = document
                    continue
                document = documents[rng.choice(list(documents))]
                if rng.random() < 0.3:
                    assert collection.delete_one({"_id": document["_id"]}).deleted_count == 1
                    del documents[document["_id"]]
                else:
                    update = {"$inc": {"n": 1}}
                    assert collection.update_one({"_id": document["_id"]}, update).modified_count == 1
                    document["n"] += 1
        except BaseException as error:
            failures.append(error)
            begun.set()

    writer = threading.Thread(target=write)
    writer.start()
    begun.wait()
    try:
        yield documents
    finally:
        stopping.set()
        writer.join()
    assert not failures, (seed, failures)


def test_refine(cluster: ShardedCluster, client: "MongoClient[Document]", database: Any) -> None:
    ns, items = ns_of(database), database.items
    client.admin.command("shardCollection", ns, key={"k": 1})
    client.admin.command("split", ns, middle={"k": 5})
    items.insert_many([{"_id": n, "k": n, "z": -n} for n in range(10)])
    client.admin.command("moveChunk", ns, find={"k": 7}, to="shard1")

    def refine(key: Document) -> Document:
        return client.admin.command("refineCollectionShardKey", ns, key=key)

    assert refusal(lambda: refine({"z": 1})) == 72
    assert refusal(lambda: refine({"k": 1, "z": 1})) == 72  # no index
    items.create_index([("k", 1), ("z", 1)])
    with database.watch(show_expanded_events=True, max_await_time_ms=100) as stream:
        refine({"k": 1, "z": 1})
        refine({"k": 1, "z": 1})
        event = stream.next()
        assert event["operationType"] == "refineCollectionShardKey"
        assert event["operationDescription"] == {"shardKey": {"k": 1, "z": 1}, "oldShardKey": {"k": 1}}
        items.update_one({"k": 7, "z": -7}, {"$set": {"n": 1}})
        assert stream.next()["documentKey"] == {"k": 7, "z": -7, "_id": 7}
        assert stream.try_next() is None
    assert client.config.collections.find_one({"_id": ns})["key"] == {"k": 1, "z": 1}  # type: ignore[index]
    client.admin.command("split", ns, middle={"k": 7, "z": 0})
    assert sorted(found["_id"] for found in items.find()) == list(range(10))
    assert refusal(lambda: client.admin.command("refineCollectionShardKey", "no.where", key={"a": 1})) == 118


@pytest.mark.parametrize("key", [{"z": 1}, {"z": "hashed"}, {"k": "hashed", "z": 1}], ids=str)
def test_reshard_under_a_writer(
    cluster: ShardedCluster, client: "MongoClient[Document]", database: Any, key: Document
) -> None:
    ns = f"{database.name}.c{len(str(key))}"
    items = database[ns.partition(".")[2]]
    client.admin.command("shardCollection", ns, key={"k": 1})
    client.admin.command("split", ns, middle={"k": 50})
    client.admin.command("moveChunk", ns, find={"k": 70}, to="shard1")
    items.insert_many([{"_id": n, "k": n % 100, "z": n % 17, "n": 0} for n in range(300)])
    before = uuid_of(database, items.name)
    with items.watch(show_expanded_events=True, max_await_time_ms=100) as stream:
        with writing(items, seed=len(str(key))) as written:
            client.admin.command("reshardCollection", ns, key=key, numInitialChunks=6)
        expected = {n: {"_id": n, "k": n % 100, "z": n % 17, "n": 0} for n in range(300)} | written
        assert {found["_id"]: found for found in items.find()} == expected
        assert sum(held(cluster, database, items.name)) == len(expected)
        shown = drained(stream)
    assert min(held(cluster, database, items.name)) > 0
    after = uuid_of(database, items.name)
    assert after != before
    resharded = [event for event in shown if event["operationType"] == "reshardCollection"]
    assert [event["collectionUUID"] for event in resharded] == [before]
    assert resharded[0]["operationDescription"] == {
        "reshardUUID": after, "shardKey": key, "oldShardKey": {"k": 1}, "unique": False,
        "numInitialChunks": 6,
    }  # fmt: skip
    place = shown.index(resharded[0])
    assert 0 < place < len(shown) - 1
    writes = [event for event in shown if "documentKey" in event]
    assert {event["collectionUUID"] for event in shown[:place]} <= {before}
    assert {event["collectionUUID"] for event in shown[place + 1 :]} <= {after}
    assert all(list(event["documentKey"]) == ["k", "_id"] for event in shown[:place])
    assert all(list(event["documentKey"]) == [*key, "_id"] for event in shown[place + 1 :])
    assert folded(writes) == written
    assert client.config.migrations.count_documents({}) == 0
    assert [name for name in database.list_collection_names() if "resharding" in name] == []


def test_reshard_entries(cluster: ShardedCluster, client: "MongoClient[Document]", database: Any) -> None:
    """The internal entries and their flags."""
    ns = ns_of(database)
    client.admin.command("shardCollection", ns, key={"k": 1})
    database.items.insert_many([{"_id": n, "k": n} for n in range(4)])
    old = uuid_of(database)
    client.admin.command("reshardCollection", ns, key={"_id": "hashed"})
    new = uuid_of(database)
    temporary = f"{database.name}.system.resharding.{old.as_uuid() if isinstance(old, Binary) else old}"
    entries = [entry for entry in cluster.oplog("shard0") if entry["ns"] in (ns, temporary)]
    notes = [entry for entry in entries if entry["op"] == "n"]
    assert [next(iter(entry["o2"])) for entry in notes] == [
        "shardCollection", "reshardBegin", "reshardBlockingWrites", "reshardBlockingWrites",
        "reshardBlockingWrites", "reshardDoneCatchUp", "reshardCollection",
    ]  # fmt: skip
    assert notes[1]["fromMigrate"]
    assert [note["destinedRecipient"] for note in notes[2:5]] == list(SHARDS)
    assert notes[5]["ns"] == temporary
    assert (notes[5]["ui"], notes[5]["fromMigrate"]) == (new, True)
    assert notes[6]["ui"] == old
    renames = [
        entry
        for shard in SHARDS
        for entry in cluster.oplog(shard)
        if entry["o"].get("renameCollection") == temporary
    ]
    assert [entry["fromMigrate"] for entry in renames] == [True] * 3
    assert renames[0]["o"] == {
        "renameCollection": temporary, "to": ns, "stayTemp": False, "dropTarget": old,
    }  # fmt: skip


def test_refused_resharding(client: "MongoClient[Document]", database: Any) -> None:
    ns = ns_of(database)

    def reshard(**fields: Any) -> Document:
        return client.admin.command("reshardCollection", ns, **fields)

    assert refusal(lambda: reshard(key={"k": 1})) == 118
    client.admin.command("shardCollection", ns, key={"k": 1})
    assert refusal(lambda: reshard(key={})) == 2
    assert refusal(lambda: reshard(key={"z": 1}, unique=True)) == 2
    database.items.insert_one({"_id": 1, "k": 1, "z": [1]})
    assert refusal(lambda: reshard(key={"z": 1})) == 61  # arrays are not allowed
    assert database.items.count_documents({}) == 1
    assert client.config.migrations.count_documents({}) == 0
    before = uuid_of(database)
    reshard(key={"k": 1})
    assert uuid_of(database) == before
    reshard(key={"k": 1}, forceRedistribution=True)
    assert uuid_of(database) != before


def test_move_and_unshard(cluster: ShardedCluster, client: "MongoClient[Document]", database: Any) -> None:
    ns, items = ns_of(database), database.items
    items.insert_many([{"_id": n, "k": n % 100, "z": 0, "n": 0} for n in range(100)])
    items.create_index("k")
    with items.watch(show_expanded_events=True, max_await_time_ms=100) as stream:
        with writing(items, seed=3) as written:
            client.admin.command("moveCollection", ns, toShard="shard2")
        assert held(cluster, database) == [0, 0, 100 + len(written)]
        assert items.count_documents({"k": {"$gte": 0}}) == 100 + len(written)
        shown = drained(stream)
    moved = [event for event in shown if event["operationType"] == "reshardCollection"]
    assert [event["operationDescription"]["provenance"] for event in moved] == ["moveCollection"]
    assert folded([event for event in shown if "documentKey" in event]) == written
    assert "k_1" in items.index_information()
    client.admin.command("shardCollection", ns, key={"k": 1})
    client.admin.command("moveRange", ns, min={"k": 50}, max={"k": 70}, toShard="shard1")
    assert refusal(lambda: client.admin.command("moveCollection", ns, toShard="shard1")) == 20
    client.admin.command("unshardCollection", ns, toShard="shard0")
    assert held(cluster, database) == [100 + len(written), 0, 0]
    assert refusal(lambda: client.admin.command("unshardCollection", ns)) == 118
    placed = client.config.collections.find_one({"_id": ns})
    assert placed is not None
    assert placed["unsplittable"]
    with items.watch(max_await_time_ms=100) as stream:
        items.update_one({"_id": 1}, {"$set": {"k": -1}})
        assert stream.next()["documentKey"] == {"_id": 1}
    assert refusal(lambda: client.admin.command("moveCollection", "no.where", toShard="shard1")) == 26


def test_move_primary(cluster: ShardedCluster, client: "MongoClient[Document]", database: Any) -> None:
    items = database.items
    database.create_collection("ring", capped=True, size=4096)
    database.ring.insert_many([{"_id": n} for n in range(20)])
    items.insert_many([{"_id": n, "k": n % 100, "z": 0, "n": 0} for n in range(200)])
    database.command("create", "few", viewOn="items", pipeline=[{"$match": {"_id": {"$lt": 5}}}])
    client.admin.command("shardCollection", f"{database.name}.spread", key={"k": 1})
    cursor = items.find(batch_size=10)
    seen = [next(cursor)["_id"] for _ in range(10)]
    with database.watch(show_expanded_events=True, max_await_time_ms=100) as stream:
        with writing(items, seed=4) as written:
            client.admin.command("movePrimary", database.name, to="shard1")
        database.late.insert_one({"_id": 1})
        shown = drained(stream)
    assert client.config.databases.find_one({"_id": database.name})["primary"] == "shard1"  # type: ignore[index]
    assert {event["operationType"] for event in shown} <= {"insert", "update", "delete", "create"}
    assert [event["ns"]["coll"] for event in shown if event["operationType"] == "create"] == ["late"]
    expected = {n: {"_id": n, "k": n % 100, "z": 0, "n": 0} for n in range(200)} | written
    assert {found["_id"]: found for found in items.find()} == expected
    assert [found["_id"] for found in database.ring.find()] == list(range(20))
    assert sorted(found["_id"] for found in database.few.find()) == list(range(5))
    seen += [found["_id"] for found in cursor]
    assert sorted(n for n in seen if n < 200) == list(range(200))
    assert set(cluster.shard_client("shard1")[database.name].list_collection_names()) >= {
        "items", "ring", "few", "late", "system.views",
    }  # fmt: skip
    client.admin.command("movePrimary", database.name, to="shard0")  # waits for the old copies to be removed
    client.admin.command("movePrimary", database.name, to="shard0")
    assert held(cluster, database)[0] == len(expected)
    assert sorted(found["_id"] for found in database.few.find()) == list(range(5))
    assert refusal(lambda: client.admin.command("movePrimary", "nowhere", to="shard1")) == 26
    assert refusal(lambda: client.admin.command("movePrimary", database.name, to="nowhere")) == 70
