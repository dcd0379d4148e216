"""Read concern `snapshot` at earlier times: the documents of then, whatever was written since."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from bson import Int64, Timestamp
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import OperationFailure
from pymongo.read_concern import ReadConcern

from tailrace.testing.replica_set import ReplicaSet
from tests.mongod.server.running import Document

Db = Database[Document]


def time_of(database: Db) -> Timestamp:
    found: Timestamp = database.command("ping")["operationTime"]
    return found


def find_at(database: Db, time: Timestamp, name: str = "items", **options: Any) -> list[Document]:
    concern = {"level": "snapshot", "atClusterTime": time}
    reply = database.command({"find": name, "readConcern": concern, "batchSize": 100_000, **options})
    assert reply["cursor"]["atClusterTime"] == time
    return list(reply["cursor"]["firstBatch"])


def aggregate_at(database: Db, time: Timestamp, *stages: Document, name: str = "items") -> list[Document]:
    concern = {"level": "snapshot", "atClusterTime": time}
    command = {"aggregate": name, "pipeline": list(stages), "cursor": {}, "readConcern": concern}
    return list(database.command(command)["cursor"]["firstBatch"])


def code_at(database: Db, time: Timestamp, name: str = "items") -> int | None:
    with pytest.raises(OperationFailure) as caught:
        find_at(database, time, name)
    return caught.value.code


def test_each_kind_of_change_is_undone(database: Db) -> None:
    items = database.items
    items.insert_many([{"_id": n, "n": n} for n in range(5)])
    before = list(items.find())
    then = time_of(database)
    items.insert_many([{"_id": n, "n": n} for n in range(10, 20)])
    items.update_one({"_id": 1}, {"$set": {"n": "changed"}})
    items.replace_one({"_id": 2}, {"other": 1})
    items.delete_one({"_id": 3})
    items.insert_one({"_id": 3, "n": "again"})
    items.delete_many({"_id": {"$gte": 15}})
    items.update_many({}, {"$inc": {"m": 1}})
    assert find_at(database, then) == before
    assert find_at(database, then, filter={"_id": 3}) == [{"_id": 3, "n": 3}]
    assert find_at(database, then, filter={"_id": 12}) == []
    assert find_at(database, then, sort={"$natural": -1}) == before[::-1]
    assert aggregate_at(database, then, {"$count": "n"}) == [{"n": 5}]
    assert database.command(
        "distinct", "items", key="n", readConcern={"level": "snapshot", "atClusterTime": then}
    )["values"] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("seed", range(2))
def test_random_histories(database: Db, client: MongoClient[Document], seed: int) -> None:
    random = Random(seed)
    database.create_collection("clustered", clusteredIndex={"key": {"_id": 1}, "unique": True})
    collections = [database.items, database.clustered]
    for collection in collections:
        collection.create_index([("x", 1), ("y", -1)])
        collection.create_index("tags")
        collection.create_index("unique", unique=True, partialFilterExpression={"unique": {"$gt": 0}})
    reads: list[Callable[[Collection[Document]], Any]] = [
        lambda items: list(items.find()),
        lambda items: list(items.find().sort("$natural", -1)),
        lambda items: list(items.find({"x": {"$gt": 1}}).sort([("x", 1), ("y", -1)])),
        lambda items: list(items.find({"x": {"$lt": 3}}).sort([("x", -1), ("y", 1)])),
        lambda items: list(items.find({"tags": 2}).sort("_id")),
        lambda items: [items.find_one({"_id": key}) for key in range(40)],
        lambda items: list(items.find({"unique": {"$gt": 0}}, hint="unique_1")),
        lambda items: items.distinct("tags"),
        lambda items: items.count_documents({}),
        lambda items: list(
            items.aggregate([{"$group": {"_id": "$x", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}])
        ),
    ]
    seen = []
    for step in range(150):
        collection = random.choice(collections)
        _change(client, collection, random)
        if step % 15 == 0:
            seen.append((time_of(database), {c.name: [read(c) for read in reads] for c in collections}))
    random.shuffle(seen)
    for time, states in seen:
        for name, expected in states.items():
            with client.start_session(snapshot=True) as session:
                session._snapshot_time = time  # type: ignore[assignment]
                past = _SnapshotCollection(database[name], session)
                assert [read(past) for read in reads] == expected, f"seed {seed}"  # type: ignore[arg-type]


class _SnapshotCollection:
    """The reads of a collection in a snapshot session."""

    def __init__(self, collection: Collection[Document], session: Any) -> None:
        self._collection = collection
        self._session = session

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._collection, name)
        return lambda *arguments, **options: method(*arguments, session=self._session, **options)


def _change(client: MongoClient[Document], items: Collection[Document], random: Random) -> None:
    key = random.randrange(40)
    fields = {"x": random.randrange(5), "y": random.randrange(5), "tags": [random.randrange(4), 7]}
    kind = random.random()
    if kind < 0.3:
        items.replace_one({"_id": key}, fields, upsert=True)
    elif kind < 0.5:
        items.update_many({"x": random.randrange(5)}, {"$inc": {"x": 1}, "$push": {"tags": 2}})
    elif kind < 0.6:
        items.delete_many({"x": random.randrange(5)})
    elif kind < 0.7:
        items.update_one({"_id": key}, {"$set": {"unique": random.randrange(10**9)}})
    elif kind < 0.85:
        items.delete_one({"_id": key})
    else:
        with client.start_session() as session, session.start_transaction():
            for _ in range(3):
                key = random.randrange(40)
                items.update_one({"_id": key}, {"$set": fields}, upsert=True, session=session)
            items.delete_one({"_id": random.randrange(40)}, session=session)


def test_a_snapshot_session_reads_at_one_time(client: MongoClient[Document], database: Db) -> None:
    items = database.items
    items.insert_many([{"_id": n} for n in range(300)])
    with client.start_session(snapshot=True) as session:
        cursor = items.find(session=session, batch_size=10)
        next(cursor)
        for round_ in range(5):
            items.update_many({}, {"$set": {"round": round_}})
            items.delete_many({"_id": {"$lt": 20 * round_}})
            items.insert_one({})
            assert [found["_id"] for found in items.find(session=session)] == list(range(300))
            assert len(items.distinct("_id", session=session)) == 300
            assert items.count_documents({}, session=session) == 300
            assert len(list(items.aggregate([{"$match": {}}], session=session, batchSize=7))) == 300
        assert [found["_id"] for found in cursor] == list(range(1, 300))


def test_every_entry_of_a_statement_is_a_time(database: Db, client: MongoClient[Document]) -> None:
    database.items.insert_many([{"_id": n, "n": 0} for n in range(4)])
    before = time_of(database)
    database.items.update_many({}, {"$inc": {"n": 1}})
    entries = client.local["oplog.rs"].find({"ts": {"$gt": before}, "ns": database.items.full_name})
    for number, entry in enumerate(entries, 1):
        changed = [found["n"] for found in find_at(database, entry["ts"])]
        assert changed == [1] * number + [0] * (4 - number)


class TestCursors:
    def test_every_batch_names_the_time(self, database: Db) -> None:
        database.items.insert_many([{"_id": n} for n in range(5)])
        concern = {"level": "snapshot"}
        opened = database.command({"find": "items", "batchSize": 2, "readConcern": concern})["cursor"]
        for _ in range(2):
            more = database.command({"getMore": opened["id"], "collection": "items", "batchSize": 2})[
                "cursor"
            ]
            assert more["atClusterTime"] == opened["atClusterTime"]

    @pytest.mark.parametrize("change", ["drop", "rename"])
    def test_a_collection_that_is_gone_ends_the_cursor(self, database: Db, change: str) -> None:
        database.items.insert_many([{"_id": n} for n in range(5)])
        snapshot = database.items.with_options(read_concern=ReadConcern("snapshot"))
        cursor = snapshot.find(batch_size=2)
        next(cursor)
        if change == "drop":
            database.items.drop()
        else:
            database.items.rename("renamed")
        with pytest.raises(OperationFailure) as caught:
            list(cursor)
        assert caught.value.code == 175


class TestTransactions:
    def test_a_transaction_reads_at_a_time(self, database: Db, client: MongoClient[Document]) -> None:
        items = database.items
        items.insert_many([{"_id": 1, "n": 1}, {"_id": 2, "n": 1}])
        then = time_of(database)
        items.update_one({"_id": 2}, {"$set": {"n": 2}})
        with client.start_session() as session:
            session.start_transaction(ReadConcern("snapshot"))
            assert session._transaction is not None
            found = _first_read(database, session, then)
            assert [document["n"] for document in found] == [1, 1]
            items.update_one({"_id": 1}, {"$inc": {"n": 5}}, session=session)
            assert [document["n"] for document in items.find(session=session)] == [6, 1]
            session.commit_transaction()
        assert [document["n"] for document in items.find()] == [6, 2]

    def test_a_document_that_was_changed_since_is_a_conflict(
        self, database: Db, client: MongoClient[Document]
    ) -> None:
        items = database.items
        items.insert_many([{"_id": 1, "n": 1}])
        then = time_of(database)
        items.update_one({"_id": 1}, {"$set": {"n": 2}})
        with client.start_session() as session:
            session.start_transaction(ReadConcern("snapshot"))
            _first_read(database, session, then)
            with pytest.raises(OperationFailure) as caught:
                items.update_one({"_id": 1}, {"$inc": {"n": 5}}, session=session)
            assert caught.value.code == 112


def _first_read(database: Db, session: Any, time: Timestamp) -> list[Document]:
    """The first statement of a transaction; PyMongo lets a caller choose no time, so it is put in."""
    session._transaction.opts._read_concern = _At(time)
    return list(database.items.find(session=session))


class _At(ReadConcern):
    def __init__(self, time: Timestamp) -> None:
        super().__init__("snapshot")
        self._time = time

    @property
    def document(self) -> Document:
        return {"level": "snapshot", "atClusterTime": self._time}


class TestCollectionsThatChanged:
    def test_one_that_was_created_since(self, database: Db) -> None:
        then = time_of(database)
        database.items.insert_one({"_id": 1})
        assert code_at(database, then) == 246
        database.other.insert_one({})
        concern = {"level": "snapshot", "atClusterTime": then}
        lookup = {"$lookup": {"from": "items", "localField": "a", "foreignField": "a", "as": "b"}}
        with pytest.raises(OperationFailure) as caught:
            database.command("aggregate", "other", pipeline=[lookup], cursor={}, readConcern=concern)
        assert caught.value.code == 246

    def test_one_that_was_renamed_since(self, database: Db) -> None:
        database.items.insert_one({"_id": 1})
        then = time_of(database)
        database.items.rename("renamed")
        assert code_at(database, then, "renamed") == 246
        assert find_at(database, time_of(database), "renamed") == [{"_id": 1}]

    def test_one_that_was_dropped_and_created_again(self, database: Db) -> None:
        database.items.insert_one({"_id": 1})
        then = time_of(database)
        database.items.drop()
        between = time_of(database)
        database.items.insert_one({"_id": 2})
        assert (code_at(database, then), code_at(database, between)) == (246, 246)

    def test_an_index_that_was_built_since(self, database: Db) -> None:
        database.items.insert_many([{"_id": n, "x": -n} for n in range(3)])
        then = time_of(database)
        database.items.update_one({"_id": 1}, {"$set": {"x": -9}})
        database.items.create_index("x")
        database.command("collMod", "items", validator={"x": {"$lt": 1}})
        assert [found["_id"] for found in find_at(database, then, filter={"x": {"$lte": 0}})] == [0, 1, 2]
        database.items.drop_index("x_1")
        assert [found["_id"] for found in find_at(database, then, sort={"x": 1})] == [2, 1, 0]


class TestWindow:
    @pytest.fixture
    def own(self) -> Iterator[ReplicaSet]:
        with ReplicaSet() as own:
            yield own

    def test_a_time_before_the_window(self, own: ReplicaSet) -> None:
        with own.client() as client:
            database = client.shop
            database.items.insert_one({"_id": 1})
            then = time_of(database)
            old = Timestamp(then.time - 1000, 1)
            assert (code_at(database, old), code_at(database, old, "nothing")) == (246, 239)
            _write_at(client, Timestamp(then.time + 299, 1))
            assert find_at(database, then) == [{"_id": 1}]
            _write_at(client, Timestamp(then.time + 301, 1))
            assert code_at(database, then) == 239

    def test_its_length(self, own: ReplicaSet) -> None:
        with own.client() as client:
            database = client.shop
            database.items.insert_one({"_id": 1})
            then = time_of(database)
            parameter = "minSnapshotHistoryWindowInSeconds"
            assert client.admin.command({"getParameter": 1, parameter: 1})[parameter] == 300
            assert client.admin.command({"setParameter": 1, parameter: 5})["was"] == 300
            _write_at(client, Timestamp(then.time + 10, 1))
            assert code_at(database, then) == 239
            client.admin.command({"setParameter": 1, parameter: 300})
            database.items.insert_one({"_id": 2})
            assert code_at(database, then) == 239  # what is gone does not come back


def _write_at(client: MongoClient[Document], time: Timestamp) -> None:
    """Write after a cluster time that the server receives."""
    with client.start_session() as session:
        session.advance_cluster_time(
            {"clusterTime": time, "signature": {"hash": bytes(20), "keyId": Int64(0)}}
        )
        client.shop.other.insert_one({}, session=session)
