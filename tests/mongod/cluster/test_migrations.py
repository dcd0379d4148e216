"""Ranges move between shards: no document is lost or duplicated, and no stream shows it."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from bson import MaxKey, MinKey
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import OperationFailure

from tailrace.testing.sharded_cluster import ShardedCluster
from tests.mongod.cluster.folding import folded
from tests.mongod.cluster.refusals import code_of
from tests.mongod.server.running import wait_for

Document = dict[str, Any]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ShardedCluster]:
    with ShardedCluster(shards=3) as cluster:
        yield cluster


@pytest.fixture
def ns(client: "MongoClient[Document]", database: Database[Document]) -> str:
    """A collection for one test: sharded by `k`, split at 100, all on the first shard."""
    ns = f"{database.name}.items"
    client.admin.command("shardCollection", ns, key={"k": 1})
    client.admin.command("split", ns, middle={"k": 100})
    return ns


def items(client: "MongoClient[Document]", ns: str) -> Any:
    database, _, name = ns.partition(".")
    return client[database][name]


def held(cluster: ShardedCluster, shard: str, ns: str) -> int:
    """The number of documents on a shard, owned or not."""
    return int(items(cluster.shard_client(shard), ns).count_documents({}))


def move(client: "MongoClient[Document]", ns: str, k: int, to: str, *, waits: bool = True) -> Document:
    return client.admin.command("moveChunk", ns, find={"k": k}, to=to, _waitForDelete=waits)


def test_a_chunk_moves(cluster: ShardedCluster, client: "MongoClient[Document]", ns: str) -> None:
    collection = items(client, ns)
    collection.create_index("v", unique=False)
    collection.insert_many([{"_id": n, "k": n, "v": n % 7} for n in range(200)])
    with collection.database.watch(show_expanded_events=True, max_await_time_ms=100) as stream:
        assert move(client, ns, 150, "shard1")["ok"] == 1
        assert (held(cluster, "shard0", ns), held(cluster, "shard1", ns)) == (100, 100)
        assert [found["_id"] for found in collection.find().sort("k")] == list(range(200))
        assert collection.count_documents({"v": 3}) == len(range(3, 200, 7))
        assert "v_1" in items(cluster.shard_client("shard1"), ns).index_information()
        collection.update_one({"k": 150}, {"$set": {"v": "moved"}})
        assert held(cluster, "shard1", ns) == 100
        events = [stream.next()]
        assert stream.try_next() is None
    assert [event["operationType"] for event in events] == ["update"]
    assert events[0]["documentKey"] == {"k": 150, "_id": 150}
    assert client.config.collections.find_one({"_id": ns, "mayHaveOrphans": True}) is None
    assert client.config.migrations.count_documents({}) == 0
    logged = client.config.changelog.find({"ns": ns, "what": {"$regex": "^moveChunk"}})
    assert [entry["what"] for entry in logged] == ["moveChunk.start", "moveChunk.commit", "moveChunk.from"]


def test_entries(cluster: ShardedCluster, client: "MongoClient[Document]", ns: str) -> None:
    """The entries of the shards, and what a stream with showMigrationEvents on a shard shows."""
    collection = items(client, ns)
    collection.insert_many([{"_id": n, "k": n} for n in range(98, 102)])
    shard = cluster.shard_client("shard2")[collection.database.name]
    with shard.watch(show_expanded_events=True, max_await_time_ms=100) as plain:
        shown = shard.aggregate([{"$changeStream": {"showMigrationEvents": True}}], batchSize=0)
        move(client, ns, 100, "shard2")
        assert plain.try_next() is None
        assert [next(shown)["documentKey"]["_id"] for _ in range(2)] == [100, 101]
    received = [entry for entry in cluster.oplog("shard2") if _is_about(entry, ns)]
    assert all(entry["fromMigrate"] for entry in received)
    assert [_kind(entry) for entry in received] == ["create", "createIndexes", "applyOps"]
    assert [inner["o2"] for inner in received[-1]["o"]["applyOps"]] == [
        {"k": 100, "_id": 100},
        {"k": 101, "_id": 101},
    ]
    sent = [entry for entry in cluster.oplog("shard0") if _is_about(entry, ns)][-3:]
    assert [_kind(entry) for entry in sent] == ["migrateChunkToNewShard", "moveChunk", "applyOps"]
    assert sent[0]["o2"] == {"migrateChunkToNewShard": ns, "fromShardId": "shard0", "toShardId": "shard2"}
    assert sent[-1]["fromMigrate"]
    assert all(inner["fromMigrate"] and inner["op"] == "d" for inner in sent[-1]["o"]["applyOps"])
    move(client, ns, 0, "shard2")
    last = [_kind(entry) for entry in cluster.oplog("shard0") if _is_about(entry, ns)]
    assert last[-3:] == ["migrateLastChunkFromShard", "moveChunk", "applyOps"]


def _is_about(entry: Document, ns: str) -> bool:
    inner = entry["o"].get("applyOps", ())
    database, _, name = ns.partition(".")
    is_command = entry["ns"] == f"{database}.$cmd" and name in entry["o"].values()
    return entry["ns"] == ns or is_command or any(one["ns"] == ns for one in inner)


def _kind(entry: Document) -> str:
    return str(next(iter(entry["o2"] if entry["op"] == "n" else entry["o"])))


def test_cursors_see_each_document_once(
    cluster: ShardedCluster, client: "MongoClient[Document]", ns: str
) -> None:
    """A cursor reads the documents from their old shard, which keeps them until the cursor is closed."""
    collection = items(client, ns)
    collection.insert_many([{"_id": n, "k": n, "v": -n} for n in range(200)])
    move(client, ns, 150, "shard1")
    collection.create_index("v")
    cursors = [
        collection.find(batch_size=10),
        collection.find(batch_size=10).hint("v_1"),
        collection.find(batch_size=10).sort("k"),
        collection.aggregate([{"$match": {"k": {"$gte": 0}}}], batchSize=10),
    ]
    seen = [[next(cursor)["_id"] for _ in range(10)] for cursor in cursors]
    move(client, ns, 0, "shard2", waits=False)
    move(client, ns, 150, "shard2", waits=False)
    assert held(cluster, "shard0", ns) == 100
    for cursor, already in zip(cursors, seen, strict=True):
        assert sorted(already + [found["_id"] for found in cursor]) == list(range(200))
    assert collection.count_documents({}) == 200
    move(client, ns, 150, "shard0")
    wait_for(lambda: held(cluster, "shard0", ns) == 100)  # the old copies of the first range are removed


def test_moves_under_writers(cluster: ShardedCluster, client: "MongoClient[Document]", ns: str) -> None:
    """Writers change documents while their ranges move; the stream shows their changes and nothing else."""
    collection = items(client, ns)
    writers = [_Writer(cluster.client(), ns, number) for number in range(3)]
    with collection.watch(max_await_time_ms=100) as stream:
        for writer in writers:
            writer.start()
        try:
            for number in range(6):
                to = f"shard{number % 3}"
                move(client, ns, 0, to, waits=False)
                client.admin.command("moveRange", ns, min={"k": 100}, max={"k": 150 - number}, toShard=to)
        finally:
            for writer in writers:
                writer.stop()
        expected = {key: value for writer in writers for key, value in writer.documents.items()}
        assert {found["_id"]: found for found in collection.find()} == expected
        acknowledged = sum(writer.acknowledged for writer in writers)
        assert folded(stream.next() for _ in range(acknowledged)) == expected
        assert stream.try_next() is None


class _Writer(threading.Thread):
    """Inserts, changes and deletes its own documents, and stores what should exist."""

    def __init__(self, client: "MongoClient[Document]", ns: str, number: int) -> None:
        super().__init__()
        self._collection = items(client, ns)
        self._number = number
        self._random = Random(number)
        self._stopping = threading.Event()
        self.documents: dict[str, Document] = {}
        self.acknowledged = 0

    def run(self) -> None:
        random = self._random
        count = 0
        while not self._stopping.is_set():
            count += 1
            known = list(self.documents)
            if not known or random.random() < 0.5:
                document: Document = {"_id": f"{self._number}-{count}", "k": random.randrange(200), "n": 0}
                self._collection.insert_one(document)
                self.documents[document["_id"]] = document
            else:
                document = self.documents[random.choice(known)]
                query = {"_id": document["_id"], "k": document["k"]}
                if random.random() < 0.3:
                    assert self._collection.delete_one(query).deleted_count == 1
                    del self.documents[document["_id"]]
                else:
                    result = self._collection.update_one(query, {"$inc": {"n": 1}})
                    assert result.modified_count == 1
                    document["n"] += 1
            self.acknowledged += 1

    def stop(self) -> None:
        self._stopping.set()
        self.join()


def test_documents_expire_once(cluster: ShardedCluster, client: "MongoClient[Document]", ns: str) -> None:
    """A document on two shards is deleted by its owner only."""
    collection = items(client, ns)
    collection.create_index("t", expireAfterSeconds=60)
    now = datetime.now(tz=UTC)
    collection.insert_many([{"_id": n, "k": n, "t": now} for n in range(50)])
    cursor = collection.find(batch_size=10)
    next(cursor)
    with collection.watch(max_await_time_ms=100) as stream:
        move(client, ns, 0, "shard1", waits=False)
        assert held(cluster, "shard0", ns) == held(cluster, "shard1", ns) == 50
        cluster.wall.advance(120)
        for shard in cluster.shards:
            cluster.call(cluster.cluster.shards[shard].first.ttl_monitor.run())
        shown = [stream.next() for _ in range(50)]
        assert stream.try_next() is None
    assert {event["operationType"] for event in shown} == {"delete"}
    assert sorted(event["documentKey"]["_id"] for event in shown) == list(range(50))
    assert collection.count_documents({}) == 0


def test_an_open_transaction_delays_only_the_move(
    cluster: ShardedCluster, client: "MongoClient[Document]", ns: str
) -> None:
    """The last step waits for a transaction that has written; other writers do not wait with it."""
    collection = items(client, ns)
    collection.insert_many([{"_id": n, "k": n} for n in range(10)])
    with client.start_session() as session:
        with session.start_transaction():
            collection.insert_one({"_id": "in", "k": 1}, session=session)
            mover = threading.Thread(target=move, args=(client, ns, 1, "shard1"))
            mover.start()
            for n in range(100, 130):
                collection.insert_one({"_id": n, "k": n % 100})
                mover.join(0.05)
            assert mover.is_alive()
            assert held(cluster, "shard0", ns) == 40
        mover.join()
        session.start_transaction()
        collection.find_one({"k": 2}, session=session)
        move(client, ns, 2, "shard2")
        assert collection.find_one({"k": 2}, session=session) == {"_id": 2, "k": 2}
        with pytest.raises(OperationFailure) as caught:
            collection.update_one({"k": 2}, {"$set": {"n": 1}}, session=session)
    assert caught.value.has_error_label("TransientTransactionError")
    assert held(cluster, "shard2", ns) == 41
    assert collection.count_documents({}) == 41


def test_transactions_over_shards_while_ranges_move(
    cluster: ShardedCluster, client: "MongoClient[Document]", ns: str
) -> None:
    """Transactions transfer amounts between accounts; the sum never changes."""
    collection = items(client, ns)
    collection.insert_many([{"_id": n, "k": n * 40, "amount": 100} for n in range(5)])
    stopping = threading.Event()
    failures: list[BaseException] = []
    sums: set[int] = set()

    def transfer(seed: int) -> None:
        random, own = Random(seed), cluster.client()
        accounts = items(own, ns)

        def work(session: Any) -> None:
            giver, taker = random.sample(range(5), 2)
            for number, change in ((giver, -1), (taker, 1)):
                query = {"_id": number, "k": number * 40}
                found = accounts.update_one(query, {"$inc": {"amount": change}}, session=session)
                assert found.modified_count == 1
            sums.add(sum(found["amount"] for found in accounts.find(session=session)))

        try:
            with own.start_session() as session:
                while not stopping.is_set():
                    session.with_transaction(work)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=transfer, args=(seed,)) for seed in range(2)]
    with collection.watch(max_await_time_ms=100) as stream:
        for thread in threads:
            thread.start()
        try:
            for number in range(6):
                move(client, ns, (0, 150)[number % 2], f"shard{(number + 1) % 3}", waits=False)
        finally:
            stopping.set()
            for thread in threads:
                thread.join()
        assert not failures
        assert sums == {500}
        amounts = dict.fromkeys(range(5), 100)
        while (event := stream.try_next()) is not None:
            updated = event["updateDescription"]["updatedFields"]
            assert abs(amounts[event["documentKey"]["_id"]] - updated["amount"]) == 1
            amounts[event["documentKey"]["_id"]] = updated["amount"]
    assert amounts == {found["_id"]: found["amount"] for found in collection.find()}
    assert sum(amounts.values()) == 500


def test_unique_values_that_pass_between_documents(
    cluster: ShardedCluster, client: "MongoClient[Document]", ns: str
) -> None:
    """Documents exchange their unique values while they are moved."""
    collection = items(client, ns)
    collection.create_index([("k", 1), ("u", 1)], unique=True)
    collection.insert_many([{"_id": n, "k": 1, "u": n} for n in range(50)])
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for first, second in ((1, 2), (2, 3)):
                for identity, value in ((first, "free"), (second, first), (first, second)):
                    collection.update_one({"_id": identity, "k": 1}, {"$set": {"u": value}})
                for identity, value in ((first, "free"), (second, second), (first, first)):
                    collection.update_one({"_id": identity, "k": 1}, {"$set": {"u": value}})

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for number in range(4):
            move(client, ns, 1, f"shard{(number + 1) % 3}")
    finally:
        stop.set()
        swapper.join()
    assert [found["u"] for found in collection.find().sort("_id")] == list(range(50))


def test_ranges(cluster: ShardedCluster, client: "MongoClient[Document]", ns: str) -> None:
    """A range that is a part of a chunk is split off first."""
    items(client, ns).insert_many([{"_id": n, "k": n} for n in range(100)])
    client.admin.command("moveRange", ns, min={"k": 10}, max={"k": 20}, toShard="shard1", waitForDelete=True)
    assert held(cluster, "shard1", ns) == 10
    client.admin.command("moveRange", ns, max={"k": 10}, toShard="shard2", waitForDelete=True)
    assert held(cluster, "shard2", ns) == 10
    client.admin.command("moveRange", ns, min={"k": 90}, toShard="shard1", waitForDelete=True)
    assert held(cluster, "shard1", ns) == 20
    uuid = client.config.collections.find_one({"_id": ns})["uuid"]  # type: ignore[index]
    found = [
        (chunk["min"]["k"], chunk["max"]["k"], chunk["shard"])
        for chunk in client.config.chunks.find({"uuid": uuid}).sort("min")
    ]
    assert found == [
        (MinKey(), 10, "shard2"), (10, 20, "shard1"), (20, 90, "shard0"), (90, 100, "shard1"),
        (100, MaxKey(), "shard0"),
    ]  # fmt: skip


def test_what_is_refused(client: "MongoClient[Document]", ns: str) -> None:
    assert code_of(client.admin, "moveChunk", "nothing.there", find={"k": 1}, to="shard1") == 118
    assert code_of(client.admin, "moveChunk", ns, find={"k": 1}, to="elsewhere") == 70
    assert code_of(client.admin, "moveChunk", ns, to="shard1") == 72
    assert code_of(client.admin, "moveChunk", ns, find={"v": 1}, to="shard1") == 61
    assert code_of(client.admin, "moveChunk", ns, bounds=[{"k": 3}, {"k": 4}], to="shard1") == 2
    assert code_of(client.admin, "moveRange", ns, toShard="shard1") == 72
    assert code_of(client.admin, "moveRange", ns, min={"k": 1}, max={"k": 200}, toShard="shard1") == 72
    assert move(client, ns, 1, "shard0")["ok"] == 1


def test_a_conflicting_document_on_the_recipient(
    cluster: ShardedCluster, client: "MongoClient[Document]", ns: str
) -> None:
    """Two documents with the same `_id` cannot be on one shard; the copies are removed."""
    items(client, ns).insert_many([{"_id": n, "k": n} for n in range(100)])
    move(client, ns, 100, "shard1")
    items(client, ns).insert_one({"_id": 50, "k": 150})
    assert code_of(client.admin, "moveChunk", ns, find={"k": 1}, to="shard1") == 11000
    assert (held(cluster, "shard0", ns), held(cluster, "shard1", ns)) == (100, 1)
    assert client.config.migrations.count_documents({}) == 0
    assert client.config.collections.find_one({"_id": ns, "mayHaveOrphans": True}) is None


def test_a_migration_waits_at_a_fail_point(cluster: ShardedCluster) -> None:
    client = cluster.client()
    client.admin.command("enableSharding", "paused", primaryShard="shard0")
    client.admin.command("shardCollection", "paused.items", key={"k": 1})
    client.paused.items.insert_many([{"_id": number, "k": number} for number in range(4)])
    point = {"configureFailPoint": "migrateThreadHangAtStep4"}
    recipient = cluster.shard_client("shard1")
    entered = recipient.admin.command({**point, "mode": "alwaysOn"})["count"]
    with ThreadPoolExecutor(1) as pool:
        moved = {"moveRange": "paused.items", "min": {"k": 0}, "max": {"k": 3}, "toShard": "shard1"}
        moving = pool.submit(client.admin.command, moved)
        waited = {"waitForFailPoint": "migrateThreadHangAtStep4", "timesEntered": entered + 1}
        recipient.admin.command({**waited, "maxTimeMS": 20_000})
        client.paused.items.update_one({"k": 1}, {"$set": {"late": True}})
        client.paused.items.delete_one({"k": 2})
        assert not moving.done()
        recipient.admin.command({**point, "mode": "off"})
        assert moving.result(20)["ok"] == 1.0
    found = sorted(recipient.paused.items.find(), key=lambda document: document["_id"])
    assert found == [{"_id": 0, "k": 0}, {"_id": 1, "k": 1, "late": True}]
