"""Snapshot reads at earlier times, beside the real server: random histories, read at random moments."""

import uuid
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from bson import Binary, Int64, Timestamp
from pymongo import MongoClient

from tests.oracle.seeds import SEEDS
from tests.oracle.twins import Recalled, Twins

Document = dict[str, Any]
STEPS = 90
READS = 150
KEYS = 30


class History:
    """Random writes to both servers, and moments between them."""

    def __init__(self, twins: Twins, random: Random, database: str) -> None:
        self._twins = twins
        self._random = random
        self.database = database
        self.moments: list[Recalled] = []
        self.collections = ["plain", "indexed", "clustered"]
        self.run({"create": "plain"})
        self.run({"create": "clustered", "clusteredIndex": {"key": {"_id": 1}, "unique": True}})
        indexes = [{"key": {"x": 1, "y": -1}, "name": "xy"}, {"key": {"tags": 1}, "name": "tags"}]
        unique = {"key": {"u": 1}, "name": "u", "unique": True, "sparse": True}
        self.run({"createIndexes": "indexed", "indexes": [*indexes, unique]})
        self.note()

    def run(self, command: Document, database: str | None = None) -> None:
        """Run a write, which may fail, but for the same reason on both servers."""
        pair = self._twins.run(command, database or self.database)
        codes = pair.real.get("code"), pair.ours.get("code")
        assert codes[0] == codes[1], f"{command}\nreal {pair.real}\nours {pair.ours}"

    def note(self) -> None:
        self.moments.append(self._twins.operation_time(f"{self.database}.{len(self.moments)}"))

    def write(self) -> None:
        random = self._random
        kind = random.random()
        name = random.choice(self.collections)
        if kind < 0.05:
            self._change_catalog(name)
        elif kind < 0.2:
            lsid = {"id": Binary(uuid.uuid4().bytes, 4)}  # another one in each test of a seed
            fields = {"lsid": lsid, "txnNumber": Int64(1), "autocommit": False}
            for number in range(random.randint(1, 4)):
                start = {"startTransaction": True} if number == 0 else {}
                self.run({**self._statement(random.choice(self.collections[:3])), **fields, **start})
            self.run({"commitTransaction": 1, **fields}, "admin")
        else:
            self.run(self._statement(name))

    def _statement(self, name: str) -> Document:
        random = self._random
        kind = random.random()
        key = {"_id": random.randrange(KEYS)}
        if kind < 0.3:
            keys = random.sample(range(KEYS), random.randint(1, 6))
            return {
                "insert": name,
                "documents": [{"_id": n, **self._fields()} for n in keys],
                "ordered": False,
            }
        if kind < 0.5:
            update = {"$set": self._fields()}
            return {"update": name, "updates": [{"q": key, "u": update, "upsert": random.random() < 0.5}]}
        if kind < 0.6:
            return {"update": name, "updates": [{"q": key, "u": self._fields(), "upsert": True}]}
        if kind < 0.75:
            some = {
                "q": {"x": random.randrange(4)},
                "u": {"$inc": {"x": 1}, "$push": {"tags": 3}},
                "multi": True,
            }
            return {"update": name, "updates": [some]}
        if kind < 0.85:
            return {"findAndModify": name, "query": key, "remove": True}
        return {
            "delete": name,
            "deletes": [{"q": {"x": random.randrange(4)}, "limit": random.choice([0, 1])}],
        }

    def _fields(self) -> Document:
        random = self._random
        fields: Document = {"x": random.randrange(4), "y": random.randrange(4)}
        if random.random() < 0.6:
            fields["tags"] = [random.randrange(4) for _ in range(random.randrange(3))]
        if random.random() < 0.3:
            fields["u"] = random.randrange(1000)
        return fields

    def _change_catalog(self, name: str) -> None:
        random = self._random
        change = random.randrange(5)
        if change == 0:
            self.run({"createIndexes": name, "indexes": [{"key": {"y": 1}, "name": "y"}]})
        elif change == 1:
            self.run({"dropIndexes": name, "index": "y"})
        elif change == 2:
            new = f"made{random.randrange(3)}"
            self.collections.append(new)
            self.run({"create": new})
        elif change == 3 and len(self.collections) > 3:
            self.run({"drop": random.choice(self.collections[3:])})
        elif len(self.collections) > 3:
            old, new = f"{self.database}.{random.choice(self.collections[3:])}", f"{self.database}.named"
            self.run({"renameCollection": old, "to": new, "dropTarget": True}, "admin")
            self.collections.append("named")

    def read(self) -> Document:
        """A random read; its results have an order."""
        random = self._random
        name = random.choice(self.collections)
        query = random.choice(
            [
                *(
                    {},
                    {"_id": random.randrange(KEYS)},
                    {"x": random.randrange(4)},
                    {"tags": random.randrange(4)},
                ),
                *({"x": {"$gte": 1}, "y": {"$lt": 3}}, {"u": {"$gt": 300}}, {"_id": {"$gt": 10, "$lte": 20}}),
            ]
        )
        kind = random.random()
        if kind < 0.5:
            sort = random.choice([{"_id": 1}, {"x": 1, "y": -1, "_id": 1}, {"x": -1, "y": 1, "_id": -1}])
            return {"find": name, "filter": query, "sort": sort, "batchSize": 1000}
        if kind < 0.6:
            return {"distinct": name, "key": random.choice(["x", "y"]), "query": query}
        if kind < 0.7:
            pipeline: list[Document] = [{"$match": query}, {"$count": "n"}]
        elif kind < 0.85:
            group = {"_id": f"${random.choice('xy')}", "n": {"$sum": 1}, "u": {"$max": "$u"}}
            pipeline = [{"$match": query}, {"$group": group}, {"$sort": {"_id": 1}}]
        else:
            other = random.choice(self.collections)
            lookup = {"from": other, "localField": "_id", "foreignField": "_id", "as": "found"}
            pipeline = [{"$match": query}, {"$sort": {"_id": 1}}, {"$lookup": lookup}]
        return {"aggregate": name, "pipeline": pipeline, "cursor": {"batchSize": 1000}}


@pytest.mark.parametrize("seed", SEEDS)
def test_random_histories(twins: Twins, seed: int) -> None:
    random = Random(seed)
    history = History(twins, random, f"snapshots{seed}")
    for _ in range(STEPS):
        history.write()
        if random.random() < 0.3:
            history.note()
    for _ in range(READS):
        read = history.read()
        concern = {"level": "snapshot", "atClusterTime": random.choice(history.moments)}
        pair = twins.run({**read, "readConcern": concern}, history.database)
        if "distinct" in read:  # in no order
            for reply in (pair.real, pair.ours):
                reply.get("values", []).sort(key=lambda value: (value is None, value))
        assert not pair.differences, f"seed {seed}\n{read}\nreal {pair.real}\nours {pair.ours}"


@pytest.mark.parametrize("seed", SEEDS)
def test_transactions_at_a_time(twins: Twins, seed: int) -> None:
    random = Random(seed)
    history = History(twins, random, f"transactions{seed}")
    for _ in range(STEPS // 3):
        history.write()
        history.note()
    for _ in range(20):
        lsid = {"id": Binary(uuid.UUID(int=random.getrandbits(128)).bytes, 4)}
        fields = {"lsid": lsid, "txnNumber": Int64(1), "autocommit": False}
        concern = {"level": "snapshot", "atClusterTime": random.choice(history.moments)}
        first = {"readConcern": concern, "startTransaction": True}
        name = random.choice(history.collections[:3])
        for statement in (
            {"find": name, "sort": {"_id": 1}, "batchSize": 1000, **first},
            {"update": name, "updates": [{"q": {"_id": random.randrange(KEYS)}, "u": {"$set": {"z": 1}}}]},
            {"aggregate": name, "pipeline": [{"$sort": {"_id": 1}}], "cursor": {"batchSize": 1000}},
        ):
            pair = twins.run({**statement, **fields}, history.database)
            assert not pair.differences, f"seed {seed}\n{statement}\nreal {pair.real}\nours {pair.ours}"
        twins.run({"abortTransaction": 1, **fields}, "admin")


@pytest.fixture
def clients(twins: Twins) -> Iterator[list[MongoClient[Document]]]:
    found: list[MongoClient[Document]] = [
        MongoClient(*side.address, directConnection=True) for side in (twins.real, twins.ours)
    ]
    yield found
    for client in found:
        client.close()


def test_snapshot_sessions_of_a_driver(clients: list[MongoClient[Document]]) -> None:
    seen = []
    for client in clients:
        items = client.sessions.items
        items.insert_many([{"_id": n, "x": n % 7} for n in range(200)])
        with client.start_session(snapshot=True) as session:
            cursor = items.find(session=session, batch_size=20, sort=[("_id", 1)])
            found: list[Any] = [next(cursor)]
            for round_ in range(4):
                items.update_many({"x": round_}, {"$inc": {"x": 10}})
                items.delete_many({"_id": {"$lt": 10 * round_}})
                items.insert_one({"_id": 1000 + round_})
                found.append(sorted(items.distinct("x", session=session)))
                found.append(items.count_documents({"x": {"$lt": 9}}, session=session))
                found.append(
                    list(items.aggregate([{"$sort": {"x": 1, "_id": 1}}], session=session, batchSize=9))
                )
            found += list(cursor)
        seen.append(found)
    assert seen[0] == seen[1]


def test_cursors(twins: Twins) -> None:
    for change in (
        {"delete": "cursors", "deletes": [{"q": {}, "limit": 0}]},
        {"createIndexes": "cursors", "indexes": [{"key": {"x": 1}, "name": "x"}]},
        {"collMod": "cursors", "validator": {}},
        {"drop": "cursors"},
    ):
        twins.run({"insert": "cursors", "documents": [{"_id": n, "x": n} for n in range(9)]})
        opened = twins.run({"find": "cursors", "batchSize": 2, "readConcern": {"level": "snapshot"}})
        cursor = twins.remember("cursor", opened, ["cursor", "id"])
        more = {"getMore": cursor, "collection": "cursors", "batchSize": 2}
        twins.same(more)
        twins.run(change)
        for level in ("snapshot", "local"):
            pair = twins.run({**more, "readConcern": {"level": level}})
            assert not pair.differences, f"{change} {pair}"
            if "cursor" not in pair.real:
                break


def test_the_parameter_of_the_window(twins: Twins) -> None:
    name = "minSnapshotHistoryWindowInSeconds"
    for value in (5, -1, 0, "x", "9", 1.5, 10**12, True, None, [1], 300):
        twins.same({"setParameter": 1, name: value}, "admin")
        twins.same({"getParameter": 1, name: 1}, "admin")


def test_times_outside_of_the_window(twins: Twins) -> None:
    twins.run({"insert": "window", "documents": [{"_id": 1}]})
    now = twins.operation_time("window")
    for time in (Timestamp(1, 1), Timestamp(2**31, 1), now):
        concern = {"level": "snapshot", "atClusterTime": time}
        for name in ("window", "nothing"):
            twins.same({"distinct": name, "key": "x", "readConcern": concern})
