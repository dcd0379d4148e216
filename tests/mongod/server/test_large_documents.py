"""Stored documents of megabytes: read in pieces, with the results of small ones; others are not held up."""

import gc
import random
from collections.abc import Iterator
from typing import Any

import pytest
from bson import Binary, DatetimeMS, Decimal128, MaxKey, MinKey, Timestamp
from pymongo import MongoClient
from pymongo.database import Database

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import encode
from tests.mongod.server.endless import Running, computing, counting, operations
from tests.mongod.server.random_values import random_value
from tests.mongod.server.raw_client import RawClient, raw_client
from tests.mongod.server.running import Document, RunningServer, wait_for

Db = Database[Document]
LARGE = 300_000
INTERRUPTED = 11601
OUT_OF_TIME = 50
LONG = list(range(3000))
AGAIN: Document = {
    "aggregate": "large",
    "cursor": {},
    "pipeline": [*[{"$unionWith": "large"}] * 900, {"$group": {"_id": {"$size": "$list"}}}],
}
MORE_TYPES: list[Any] = [
    MinKey(), MaxKey(), Timestamp(1, 2), DatetimeMS(-(2**62)), Decimal128("1.50"), Binary(b"x", 4), False,
]  # fmt: skip


def first_result(raw: RawClient, command: Document) -> bytes:
    raw.send(command)
    cursor = rawbson.subdocument(raw.receive().document, b"cursor")
    assert cursor is not None
    found = rawbson.find(cursor, b"firstBatch")
    assert found is not None
    (place,) = rawbson.subdocument_places(cursor, found[2])
    assert place is not None
    return cursor[place[0] : place[1]]


@pytest.fixture
def own_raw(own_server: RunningServer) -> Iterator[RawClient]:
    """To a server whose oplog no other test reads: not every driver can decode these values."""
    with raw_client(own_server) as raw:
        yield raw


def test_values_of_every_type_are_the_same_after_they_were_computed_with(own_raw: RawClient) -> None:
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    values: list[Any] = list(MORE_TYPES)
    size = 0
    while size < LARGE:
        more = [random_value(rng) for _ in range(50)] + [rng.choice(MORE_TYPES)] * rng.randrange(2000)
        size += len(encode({"": more}))
        values += more
    fields = {f"field {number}": value for number, value in enumerate(values)}
    document = {"_id": 1, "list": values, "a": {"b": fields}}
    assert own_raw.call({"insert": "c", "documents": [document], "$db": "large"})["ok"] == 1
    stored = encode(document)
    unchanged = [{"$set": {"z": 1}}, {"$unset": "z"}]
    found = first_result(own_raw, {"aggregate": "c", "pipeline": unchanged, "cursor": {}, "$db": "large"})
    assert found == stored
    found = first_result(
        own_raw, {"find": "c", "projection": {"z": {"$literal": 1}, "list": 1}, "$db": "large"}
    )
    assert found == encode({"_id": 1, "list": values, "z": 1})


@pytest.mark.parametrize("compressor", ["zlib", "snappy", "zstd"])
def test_a_large_reply_is_compressed(uri: str, database: Db, compressor: str) -> None:
    document = {"_id": 1, "list": [str(number) for number in range(40_000)]}
    database.c.insert_one(document)
    with MongoClient[Document](uri, compressors=compressor) as client:
        assert list(client[database.name].c.find()) == [document]


class TestLongArrays:
    """Arrays of more elements than are compared or hashed in one step."""

    @pytest.fixture
    def arrays(self, database: Db) -> Db:
        as_doubles = [float(number) for number in LONG]
        arrays = [LONG, [*LONG, 0], as_doubles, [*LONG[:-1], 5], [-1, *LONG], [1, 2], []]
        database.c.insert_many([{"_id": number, "a": array} for number, array in enumerate(arrays)])
        return database

    def test_they_are_grouped_by_value(self, arrays: Db) -> None:
        groups = arrays.c.aggregate([{"$group": {"_id": "$a", "ids": {"$push": "$_id"}}}])
        assert sorted(group["ids"] for group in groups) == [[0, 2], [1], [3], [4], [5], [6]]

    def test_they_are_in_the_order_of_their_first_different_elements(self, arrays: Db) -> None:
        wrapped = {"$set": {"whole": {"array": "$a"}}}
        found = arrays.c.aggregate([wrapped, {"$sort": {"whole": 1, "_id": 1}}])
        assert [document["_id"] for document in found] == [6, 4, 3, 0, 2, 1, 5]
        below = arrays.c.find({"$expr": {"$lt": ["$a", LONG]}})
        assert sorted(document["_id"] for document in below) == [3, 4, 6]
        not_above = arrays.c.find({"$expr": {"$lte": ["$a", LONG]}})
        assert sorted(document["_id"] for document in not_above) == [0, 2, 3, 4, 6]

    def test_they_are_equal_to_arrays_of_other_number_types(self, arrays: Db) -> None:
        assert [document["_id"] for document in arrays.c.find({"a": LONG}, sort={"_id": 1})] == [0, 2]
        assert [document["_id"] for document in arrays.c.find({"a": {"$in": [LONG]}})] == [0, 2]
        (found,) = arrays.c.aggregate(
            [
                {"$group": {"_id": None, "all": {"$push": "$a"}}},
                {"$project": {"n": {"$size": {"$setUnion": ["$all", [LONG]]}}}},
            ]
        )
        assert found["n"] == 6


class TestOthers:
    """Other clients, while a command reads large documents again and again."""

    @pytest.fixture
    def large(self, database: Db) -> Db:
        database.large.insert_one({"_id": 1, "list": list(range(300_000))})
        return database

    def test_they_are_answered_and_kill_op_ends_it(
        self, client: MongoClient[Document], uri: str, large: Db
    ) -> None:
        with computing(client, uri, large.name, AGAIN) as command:
            for _ in range(5):
                assert client.admin.command("ping")["ok"] == 1
            (operation,) = operations(client, large.name)
            client.admin.command("killOp", op=operation["opid"])
            assert command.join() == INTERRUPTED

    def test_the_time_limit_ends_it(self, uri: str, large: Db) -> None:
        command = Running(uri, large.name, {**AGAIN, "maxTimeMS": 100})
        assert command.join() == OUT_OF_TIME
        command.client.close()


def test_what_an_ended_command_has_computed_is_freed_at_once(
    client: MongoClient[Document], uri: str, database: Db
) -> None:
    size = 54_321
    database.c.insert_one({"_id": 1})
    array = {"$range": [0, {"$add": ["$_id", size - 1]}]}
    endless = {
        "$let": {"vars": {"array": array}, "in": counting(10_000, counting(10_000, {"$size": "$$array"}))}
    }
    command = {"aggregate": "c", "pipeline": [{"$project": {"r": endless}}], "cursor": {}}

    def is_held() -> bool:
        return any(type(found) is list and len(found) == size for found in gc.get_objects())

    gc.disable()
    try:
        with computing(client, uri, database.name, command) as running:
            wait_for(is_held)
            (operation,) = operations(client, database.name)
            client.admin.command("killOp", op=operation["opid"])
            assert running.join() == INTERRUPTED
        wait_for(lambda: not is_held())
    finally:
        gc.enable()
