"""`applyOps` beside the real server: replies, oplog entries and events."""

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest
from bson import Binary, Int64, Timestamp

from tests.oracle.comparison import Document
from tests.oracle.seeds import SEEDS
from tests.oracle.twins import Recalled, Twins

_numbers = itertools.count()
UUID = Binary(bytes.fromhex("0011223344554677889900aabbccddee"), 4)
ID_INDEX = {"v": 2, "key": {"_id": 1}, "name": "_id_"}


def insert(number: Any, name: str = "c", **fields: Any) -> Document:
    return {"op": "i", "ns": f"test.{name}", "o": {"_id": number, **fields}}


def update(number: Any, o: Document, name: str = "c", **fields: Any) -> Document:
    return {"op": "u", "ns": f"test.{name}", "o2": {"_id": number}, "o": o, **fields}


def delete(number: Any, name: str = "c") -> Document:
    return {"op": "d", "ns": f"test.{name}", "o": {"_id": number}}


def logged_command(o: Document, database: str = "test", **fields: Any) -> Document:
    return {"op": "c", "ns": f"{database}.$cmd", **fields, "o": o}


NO_OP = {"op": "n", "ns": "", "o": {"msg": "x"}}
DIFF = {"$v": 2, "diff": {"u": {"a": 7}}}

OPERATIONS: list[Any] = [
    [insert(100)],
    [insert(100), insert(101, a=1)],
    [insert(1, changed=1)],
    [insert(1, a=1)],
    [{"op": "i", "ns": "test.c", "o": {"a": 5}}],
    [insert(1, name="nothing")],
    [update(1, {"$set": {"b": 1}})],
    [update(1, {"$set": {"b": 1}}), update(1, {"$inc": {"b": 1}}), update(2, {"$unset": {"a": 1}})],
    [update(1, {"$v": 1, "$set": {"b": 1}})],
    [update(1, DIFF), update(2, {"$v": 2, "diff": {"d": {"a": False}}})],
    [update(1, {"$v": 2, "diff": {"d": {"none": False}}})],
    [update(1, {"$v": 3, "diff": {}})],
    [update(1, {"_id": 1, "z": 2})],
    [update(1, {"_id": 2, "z": 2})],
    [update(1, {"z": 2})],
    [update(1, {"$foo": {"a": 1}})],
    [update(99, {"$set": {"b": 1}})],
    [update(99, DIFF)],
    [update(99, {"_id": 99, "z": 2})],
    [update(99, {"$set": {"b": 1}}, b=True)],
    [update(1, DIFF, "nothing")],
    [{**update(1, DIFF), "o2": {"_id": 1, "other": 5}}],
    [{**update(1, DIFF), "o2": {}}],
    [delete(1)],
    [delete(1), delete(404)],
    [delete(1, "nothing")],
    [insert(1), delete(1, "nothing")],
    [{"op": "d", "ns": "none.none", "o": {"_id": 1}}],
    [{"op": "d", "ns": "test.c", "o": {"x": 1}}],
    [NO_OP],
    [NO_OP, delete(1)],
    [],
    # a failure among others
    [insert(5), {"op": "i", "ns": "test.c", "o": {"a": 1}}, insert(6)],
    [insert(5), insert(1, name="nothing"), insert(6)],
    [insert(5), update(5, {"$foo": {"a": 1}}), insert(6)],
    [insert(5), {"op": "x", "ns": "test.c", "o": {"_id": 60}}],
    [insert(5, "unique", a=1), insert(6, "unique", a=1)],
    [insert(5, "checked", a=1), update(5, {"$set": {"a": 2}}, "checked")],
    [insert(number, "capped") for number in range(4)],
    # fields of entries
    [{**insert(5), "ts": Timestamp(5, 5), "t": Int64(1), "v": 2}],
    [{**insert(5), "fromMigrate": False}],
    [{**insert(5), "o2": {"_id": 5}, "stmtId": 1, "b": True}],
    [{**insert(5), "foo": 1}],
    [{**insert(5), "ui": Binary(bytes(16), 4)}],
    # what is no operation
    1, [1], [{}], [{"op": 1}], [{"op": "x", "ns": "test.c", "o": {}}], [{"op": "", "ns": "test.c", "o": {}}],
    [{"op": "i"}], [{"op": "i", "ns": "test.c"}], [{"op": "i", "ns": 1, "o": {}}],
    [{"op": "i", "ns": "test.c", "o": 1}], [{"op": "i", "ns": "", "o": {"_id": 1}}],
    [{"op": "i", "ns": "test", "o": {"_id": 1}}], [{"op": "db", "ns": "test.c", "o": {}}],
    # commands
    [logged_command({"create": "new", "idIndex": ID_INDEX}), insert(1, "new")],
    [insert(5), logged_command({"create": "new", "idIndex": ID_INDEX}), {"op": "i", "ns": "test.c", "o": {}}],
    [logged_command({"create": "new", "idIndex": ID_INDEX}, ui=UUID)],
    [logged_command({"create": "new", "idIndex": ID_INDEX}, ui=Binary(bytes(16), 4))],
    [logged_command({"create": "c"})],
    [logged_command({"drop": "nothing"})],
    [logged_command({"drop": "nothing"}, "none")],
    [logged_command({"collMod": "c", "validator": {"q": 1}})],
    [logged_command({"collMod": "nothing", "validator": {"q": 1}})],
    [logged_command({"dropIndexes": "c", "index": "none"})],
    [logged_command({"dropIndexes": "unique", "index": "a"})],
    [logged_command({"renameCollection": "test.checked", "to": "test.moved"})],
    [logged_command({"renameCollection": "test.nothing", "to": "test.moved"})],
    [logged_command({"createIndexes": "c", "v": 2, "key": {"a": 1}, "name": "a_1"})],
    [logged_command({"startIndexBuild": "c"})],
    [logged_command({"foo": 1})],
    [logged_command({})],
    [logged_command({"dropDatabase": 1}, "none")],
    [logged_command({"applyOps": [insert(40), update(40, DIFF)]})],
    [logged_command({"applyOps": [insert(41)]}, "admin"), insert(42)],
]  # fmt: skip

ONE_BY_ONE = 39
"""How many of them can be applied together."""

OPTIONS: list[Document] = [
    {"foo": 1},
    {"allowAtomic": True},
    {"allowAtomic": False},
    {"allowAtomic": "x"},
    {"allowAtomic": 1},
    {"alwaysUpsert": False},
    {"alwaysUpsert": 1},
    {"bypassDocumentValidation": True},
    {"comment": "x"},
    {"oplogApplicationMode": "InitialSync"},
    {"oplogApplicationMode": "x"},
    {"oplogApplicationMode": 1},
    {"writeConcern": {"w": 1}},
    {"preCondition": []},
    {"preCondition": 1},
    {"preCondition": [1]},
    {"preCondition": [{"ns": 1}]},
    {"preCondition": [{"ns": "test.c", "q": 1, "res": {}}]},
    {"preCondition": [{"ns": "test.nothing", "q": {}, "res": {}}]},
    {"preCondition": [{"ns": "test.c", "q": {"_id": 1}, "res": {"a": 1}}]},
    {"preCondition": [{"ns": "test.c", "q": {"_id": 1}, "res": {"a": 2}}]},
    {"preCondition": [{"ns": "test.c", "q": {"_id": 404}, "res": {"a": 2}}]},
]


@pytest.fixture(autouse=True)
def collections(twins: Twins) -> Iterator[None]:
    twins.run({"dropDatabase": 1})
    twins.same({"create": "c", "changeStreamPreAndPostImages": {"enabled": True}})
    twins.same({"insert": "c", "documents": [{"_id": 1, "a": 1}, {"_id": 2, "a": 2}]})
    unique = [{"key": {"a": 1}, "name": "a", "unique": True}]
    twins.run({"createIndexes": "unique", "indexes": unique})
    twins.same({"create": "checked", "validator": {"a": 1}})
    twins.run({"create": "capped", "capped": True, "size": 4096, "max": 2})
    yield
    twins.run({"dropDatabase": 1}, "none")


def compare(twins: Twins, command: Document, database: str = "admin") -> None:
    twins.same({"insert": "begin", "documents": [{"_id": next(_numbers)}]})
    since = twins.operation_time()
    twins.same(command, database)
    twins.same_oplog(since)
    for name in ("c", "capped"):
        twins.same({"find": name})


def compare_events(twins: Twins, since: Recalled) -> None:
    twins.same({"insert": "end", "documents": [{"_id": 0}]})
    stream: Document = {"startAtOperationTime": since, "showExpandedEvents": True}
    twins.same_events({**stream, "fullDocumentBeforeChange": "whenAvailable"}, count=1)


@pytest.mark.parametrize("operations", OPERATIONS, ids=str)
def test_operations(twins: Twins, operations: Any) -> None:
    compare(twins, {"applyOps": operations})


@pytest.mark.parametrize("operations", OPERATIONS[:ONE_BY_ONE], ids=str)
def test_operations_one_by_one(twins: Twins, operations: Any) -> None:
    compare(twins, {"applyOps": operations, "allowAtomic": False})


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options(twins: Twins, options: Document) -> None:
    compare(twins, {"applyOps": [insert(50), update(51, DIFF)], **options})


def test_another_database_logs_there(twins: Twins) -> None:
    compare(twins, {"applyOps": [insert(50)]}, "test")


@pytest.mark.parametrize("seed", SEEDS)
def test_random_operations(twins: Twins, seed: int) -> None:
    rng = random.Random(seed)
    print("seed", seed)
    twins.same({"insert": "begin", "documents": [{"_id": next(_numbers)}]})
    since = twins.operation_time("begin")
    for _ in range(25):
        operations = [_operation(rng) for _ in range(rng.randrange(1, 6))]
        compare(twins, {"applyOps": operations, "allowAtomic": rng.random() < 0.5})
    compare_events(twins, since)


def _operation(rng: random.Random) -> Document:
    number = rng.randrange(6)
    name = rng.choice(("c", "c", "c", "capped", "unique"))
    value = rng.choice((1, 2.5, "x", None, [1, {"b": 2}], {"x": {"y": rng.randrange(9)}}))
    choices: list[Document] = [
        insert(number, name, a=value),
        insert(number, name),
        delete(number, "c"),
        update(number, {"$set": {"a": value, "n.m": number}}, "c"),
        update(number, {"$v": 2, "diff": {"u": {"a": value}, "d": {"n": False}}}, "c"),
        update(number, {"$v": 2, "diff": {"i": {"k": value}}}, "c"),
        update(number, {"_id": number, "whole": value}, "c"),
        NO_OP,
    ]
    return rng.choice(choices)
