"""A law: the same writes leave the same documents on a cluster as on a replica set.

The same random operations run on both, while ranges of the sharded collection move between the shards. All
replies are the same, and so are the documents at the end. `TAILRACE_SEED` selects other operations.
"""

import os
import random
from collections.abc import Iterator
from typing import Any

import pytest
from pymongo import DeleteMany, DeleteOne, InsertOne, MongoClient, ReplaceOne, UpdateMany, UpdateOne
from pymongo.collection import Collection
from pymongo.results import BulkWriteResult, ClientBulkWriteResult

from tailrace.testing.replica_set import ReplicaSet
from tailrace.testing.sharded_cluster import ShardedCluster
from tests.mongod.cluster.spreading import move, spread

Document = dict[str, Any]
Model = InsertOne[Document] | UpdateOne | UpdateMany | ReplaceOne[Document] | DeleteOne | DeleteMany

SEED = int(os.environ.get("TAILRACE_SEED", "20260000"))
OPERATIONS = 80
KEYS: tuple[tuple[Document, list[Document]], ...] = (
    ({"x": 1}, [{"x": 10}, {"x": 20}, {"x": 30}]),
    ({"a.b": 1, "x": 1}, [{"a.b": 1, "x": 30}, {"a.b": 2, "x": 5}]),
    ({"_id": 1}, [{"_id": 20}, {"_id": 40}]),
)


class Writes:
    """Random writes; equal seeds give equal writes, as long as the replies are equal."""

    def __init__(self, seed: int, collection: Collection[Document]) -> None:
        self._random = random.Random(seed)
        self._collection = collection
        self._next_id = 0

    def run(self) -> object:
        """Run one operation; returns the client's result."""
        choose = self._random.choice((self._one, self._many, self._modify, self._bulk, self._transaction))
        return choose()

    # -- operations ---------------------------------------------------------------------------------------

    def _one(self) -> object:
        return self._result([self._single()])

    def _many(self) -> object:
        return self._result([self._multiple()])

    def _bulk(self) -> object:
        # A bulk with multi statements is not retryable, and cannot change shard keys.
        make = self._random.choice((self._single, self._single, self._multiple))
        models = [make() for _ in range(6)]
        if self._random.random() < 0.5:
            return self._result(models)
        return self._client_result(models)

    def _modify(self) -> object:
        query, sort = self._query(), [("_id", self._random.choice((1, -1)))]
        is_new = self._random.random() < 0.5
        kind = self._random.randrange(3)
        collection = self._collection
        if kind == 0:
            return collection.find_one_and_delete(query, sort=sort)
        if kind == 1:
            return collection.find_one_and_replace(query, self._fields(), sort=sort, return_document=is_new)
        return collection.find_one_and_update(query, self._change(), sort=sort, return_document=is_new)

    def _transaction(self) -> object:
        with self._collection.database.client.start_session() as session:
            session.start_transaction()
            results = [self._result([self._single()], session) for _ in range(4)]
            found = list(self._collection.find({}, sort=[("_id", 1)], session=session))
            if self._random.random() < 0.3:
                session.abort_transaction()
            else:
                session.commit_transaction()
        return results, found

    def _result(self, models: list[Model], session: Any = None) -> object:
        result: BulkWriteResult = self._collection.bulk_write(
            models, session=session, ordered=self._random.random() < 0.7 or len(models) > 1
        )
        return {name: value for name, value in result.bulk_api_result.items() if name != "writeConcernErrors"}

    def _client_result(self, models: list[Model]) -> object:
        for model in models:
            model._namespace = self._collection.full_name
        result: ClientBulkWriteResult = self._collection.database.client.bulk_write(
            models, verbose_results=True
        )
        updates = result.update_results.items()
        return (
            {index: (one.matched_count, one.modified_count, one.upserted_id) for index, one in updates},
            {index: one.deleted_count for index, one in result.delete_results.items()},
            (result.inserted_count, result.upserted_count, result.modified_count),
        )

    # -- statements ---------------------------------------------------------------------------------------

    def _single(self) -> Model:
        kind = self._random.randrange(8)
        identity = {"_id": self._random.randrange(60)}
        sort = {"_id": self._random.choice((1, -1))}
        if kind < 2:
            self._next_id += 1
            return InsertOne({"_id": 100 + self._next_id, **self._fields()})
        if kind == 2:
            return DeleteOne(identity)
        if kind == 3:
            return ReplaceOne(identity, self._fields(), upsert=self._random.random() < 0.5)
        if kind == 4:
            return UpdateOne(identity, self._change(), upsert=True)
        if kind == 5:
            return UpdateOne(
                identity, [{"$set": {"x": self._number(), "n": {"$add": [{"$ifNull": ["$n", 0]}, 1]}}}]
            )
        if kind == 6:
            return ReplaceOne(self._query(), self._fields(), sort=sort)
        return UpdateOne(self._query(), self._change(), sort=sort)

    def _multiple(self) -> Model:
        if self._random.random() < 0.15:
            return DeleteMany({"_id": self._random.randrange(60), **self._query()})
        return UpdateMany(self._query(), {"$inc": {"n": 1}, "$set": {"m": self._number()}})

    def _query(self) -> Document:
        low = self._number()
        queries: list[Document] = [
            {"x": low},
            {"x": {"$gte": low, "$lt": low + 12}},
            {"x": {"$in": [low, low + 1, None]}},
            {"a.b": low % 4},
            {"a.b": low % 4, "x": {"$gt": low}},
            {"_id": {"$gte": low}},
            {"$or": [{"x": low}, {"_id": low}]},
            {"n": {"$lt": 3}, "x": {"$ne": low}},
            {},
        ]
        return self._random.choice(queries)

    def _change(self) -> Document:
        number = self._number()
        changes: list[Document] = [
            {"$set": {"x": number}},
            {"$inc": {"x": 7, "n": 1}},
            {"$set": {"n": number}},
            {"$unset": {"x": 1}},
            {"$set": {"a": {"b": number % 4, "c": number}}},
            {"$max": {"x": 25}, "$push": {"list": number}},
        ]
        return self._random.choice(changes)

    def _fields(self) -> Document:
        fields: Document = {"x": self._number(), "n": 0, "a": {"b": self._random.randrange(4)}}
        if self._random.random() < 0.2:
            del fields[self._random.choice(("x", "a"))]
        return fields

    def _number(self) -> int:
        return self._random.randrange(40)


@pytest.fixture(scope="module", params=[1, 2, 3])
def cluster(request: pytest.FixtureRequest) -> Iterator[ShardedCluster]:
    with ShardedCluster(shards=request.param, routers=2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def single() -> Iterator[MongoClient[Document]]:
    with ReplicaSet() as replica_set:
        yield replica_set.client()


@pytest.mark.parametrize("number", range(len(KEYS)))
def test_a_cluster_behaves_like_a_replica_set(
    cluster: ShardedCluster, single: MongoClient[Document], number: int
) -> None:
    key, points = KEYS[number]
    seed = SEED + 10 * len(cluster.shards) + number
    name = f"db{seed}"
    plain, sharded = single[name].things, cluster.client()[name].things
    spread(cluster, sharded, key, *points)
    ours, theirs, moves = Writes(seed, plain), Writes(seed, sharded), random.Random(seed)
    for operation in range(OPERATIONS):
        if moves.random() < 0.1:
            move(cluster, sharded, moves.choice(points), moves.choice(cluster.shards))
        result = ours.run()
        assert theirs.run() == result, f"operation {operation} of seed {seed}"
    assert list(sharded.find(sort=[("_id", 1)])) == list(plain.find(sort=[("_id", 1)])), f"seed {seed}"
