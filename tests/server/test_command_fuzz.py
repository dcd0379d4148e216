"""Commands as nobody should send them: each is answered or its connection is closed; the server stays up.

Samples that are right are broken at random: values of other types and sizes, fields missing, repeated,
unknown or deeply nested. An answer may be an error of any kind but one: code 1 says that the server met
something that nobody had thought of.
"""

import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from bson import (
    Binary,
    Code,
    DatetimeMS,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)
from tests.server.raw_client import RawClient, raw_client
from tests.server.running import Document, RunningServer, running

from tailrace.bsonio.values import DBPointer, Symbol, Undefined
from tailrace.server.commands import COMMANDS

ROUNDS = 60
SESSION = {"id": Binary(bytes(range(16)), 4)}
STREAM = [{"$changeStream": {"fullDocument": "updateLookup"}}, {"$match": {"operationType": "insert"}}]
SAMPLES: list[Document] = [
    {"abortTransaction": 1, "lsid": SESSION, "txnNumber": Int64(1), "autocommit": False},
    {
        "aggregate": "c",
        "pipeline": [{"$match": {"a": 1}}, {"$group": {"_id": "$b", "n": {"$sum": 1}}}],
        "cursor": {"batchSize": 1},
        "collation": {"locale": "simple"},
        "let": {"x": 1},
    },
    {
        "aggregate": "c",
        "pipeline": [
            {"$lookup": {"from": "d", "localField": "a", "foreignField": "b", "as": "x"}},
            {"$unwind": {"path": "$x"}},
            {"$sort": {"a": 1}},
            {"$project": {"a": 1}},
        ],
        "cursor": {},
    },
    {"aggregate": "c", "pipeline": STREAM, "cursor": {"batchSize": 0}},
    {"aggregate": 1, "pipeline": STREAM, "cursor": {}, "readConcern": {"level": "majority"}},
    {"appendOplogNote": 1, "data": {"a": 1}, "maxClusterTime": Timestamp(1, 1)},
    {"buildInfo": 1},
    {
        "bulkWrite": 1,
        "ops": [
            {"insert": 0, "document": {"_id": 1}},
            {"update": 0, "filter": {}, "updateMods": {"$set": {"a": 1}}},
            {"delete": 0, "filter": {"a": 1}, "multi": True},
        ],
        "nsInfo": [{"ns": "fuzz.c"}],
    },
    {
        "collMod": "c",
        "changeStreamPreAndPostImages": {"enabled": True},
        "validator": {"a": {"$exists": True}},
    },
    {"collStats": "c", "scale": 1},
    {"commitTransaction": 1, "lsid": SESSION, "txnNumber": Int64(1), "autocommit": False},
    {"compact": "c"},
    {"configureFailPoint": "maxTimeNeverTimeOut", "mode": {"times": 1}, "data": {"a": 1}},
    {"connectionStatus": 1, "showPrivileges": True},
    {"convertToCapped": "e", "size": 4096},
    {"count": "c", "query": {"a": 1}, "limit": 1, "skip": 1, "hint": {"_id": 1}},
    {"create": "new", "capped": True, "size": 4096, "max": 5},
    {"create": "seen", "viewOn": "c", "pipeline": [{"$match": {"a": 1}}]},
    {"create": "times", "timeseries": {"timeField": "t", "metaField": "m", "granularity": "hours"}},
    {
        "createIndexes": "c",
        "indexes": [{"key": {"a": 1, "b.c": -1}, "name": "a_1", "unique": False, "sparse": True}],
    },
    {"currentOp": 1, "$all": True, "secs_running": {"$gte": 0}},
    {"dataSize": "fuzz.c", "keyPattern": {"_id": 1}, "min": {"_id": 0}, "max": {"_id": 9}},
    {"dbStats": 1, "scale": 1024},
    {
        "delete": "c",
        "deletes": [{"q": {"a": 1}, "limit": 1, "collation": {"locale": "en"}}],
        "ordered": False,
    },
    {"distinct": "c", "key": "a.b", "query": {"a": 1}},
    {"drop": "gone"},
    {"dropIndexes": "c", "index": "a_1"},
    {"endSessions": [SESSION]},
    {"explain": {"find": "c", "filter": {"a": 1}}, "verbosity": "executionStats"},
    {
        "find": "c",
        "filter": {"a": {"$gt": 1}, "$or": [{"b": 1}, {"c": {"$in": [1, 2]}}]},
        "sort": {"a": -1},
        "projection": {"a": 1, "b": {"$slice": 2}},
        "skip": 1,
        "limit": 2,
        "batchSize": 1,
        "hint": "_id_",
        "collation": {"locale": "en", "strength": 2},
        "let": {"v": 1},
        "readConcern": {"level": "local"},
    },
    {
        "find": "c",
        "tailable": True,
        "awaitData": True,
        "noCursorTimeout": True,
        "min": {"a": 1},
        "max": {"a": 2},
    },
    {
        "findAndModify": "c",
        "query": {"a": 1},
        "update": {"$inc": {"a": 1}},
        "new": True,
        "upsert": True,
        "sort": {"a": 1},
        "fields": {"a": 1},
        "arrayFilters": [{"x.a": 1}],
    },
    {"getClusterParameter": "changeStreamOptions"},
    {"getCmdLineOpts": 1},
    {"getDefaultRWConcern": 1, "inMemory": True},
    {"getLog": "global"},
    {"getMore": Int64(5), "collection": "c", "batchSize": 1, "maxTimeMS": 1},
    {"getParameter": {"showDetails": True, "allParameters": True}},
    {
        "hello": 1,
        "helloOk": True,
        "compression": ["zlib"],
        "topologyVersion": {"processId": ObjectId(), "counter": Int64(0)},
        "maxAwaitTimeMS": 1,
    },
    {"hostInfo": 1},
    {
        "insert": "c",
        "documents": [{"_id": 1, "a": [1, {"b": 2}]}, {"a": None}],
        "ordered": True,
        "writeConcern": {"w": 1, "j": True},
    },
    {
        "insert": "c",
        "documents": [{"_id": 3}],
        "lsid": SESSION,
        "txnNumber": Int64(1),
        "autocommit": False,
        "startTransaction": True,
    },
    {"insert": "c", "documents": [{"_id": 4}], "lsid": SESSION, "txnNumber": Int64(2), "stmtIds": [0]},
    {"killAllSessions": [{"user": "a", "db": "b"}]},
    {"killAllSessionsByPattern": [{"lsid": SESSION, "uid": Binary(bytes(32))}]},
    {"killCursors": "c", "cursors": [Int64(5)]},
    {"killOp": 1, "op": 123456789},
    {"killSessions": [SESSION]},
    {"listCollections": 1, "filter": {"name": "c"}, "nameOnly": True, "cursor": {"batchSize": 1}},
    {"listCommands": 1},
    {"listDatabases": 1, "filter": {"name": "fuzz"}, "nameOnly": False},
    {"listIndexes": "c", "cursor": {"batchSize": 1}},
    {"logRotate": 1},
    {"ping": 1, "maxTimeMS": 5, "comment": "x", "$readPreference": {"mode": "nearest"}},
    {"refreshSessions": [SESSION]},
    {"renameCollection": "fuzz.f", "to": "fuzz.g", "dropTarget": True},
    {"_shardsvrRenameCollectionParticipant": "fuzz.f", "to": "fuzz.g"},
    {"prepareTransaction": 1, "lsid": SESSION, "txnNumber": Int64(1), "autocommit": False},
    {
        "coordinateCommitTransaction": 1,
        "participants": [{"shardId": "shard0"}],
        "lsid": SESSION,
        "txnNumber": Int64(1),
        "autocommit": False,
    },
    {"replSetGetConfig": 1, "commitmentStatus": True},
    {"replSetGetStatus": 1},
    {"replSetStepUp": 1},
    {"saslStart": 1, "mechanism": "PLAIN", "payload": Binary(b"")},
    {"serverStatus": 1, "metrics": 0},
    {"setClusterParameter": {"changeStreamOptions": {"preAndPostImages": {"expireAfterSeconds": 5}}}},
    {"setDefaultRWConcern": 1, "defaultReadConcern": {"level": "local"}},
    {"setParameter": 1, "ttlMonitorSleepSecs": 60},
    {"startSession": 1},
    {
        "update": "c",
        "updates": [
            {
                "q": {"a": 1},
                "u": {"$set": {"b.c": 1}, "$push": {"l": {"$each": [1], "$slice": 2}}},
                "upsert": True,
                "multi": False,
                "arrayFilters": [],
                "hint": {"_id": 1},
            }
        ],
    },
    {
        "update": "c",
        "updates": [{"q": {}, "u": [{"$set": {"z": "$a"}}], "multi": True, "c": {"v": 1}}],
        "let": {"w": 2},
    },
    {"validate": "c", "full": True},
    {"whatsmyuri": 1},
]
ADMIN = frozenset(name for name, command in COMMANDS.items() if command.admin_only) | {"bulkWrite"}


def nested(depth: int) -> Document:
    document: Document = {}
    for _ in range(depth):
        document = {"a": document}
    return document


def odd_values(rng: random.Random) -> Any:
    """A value that is probably not what the command wants."""
    return rng.choice([
        None, True, False, 0, 1, -1, 2**31 - 1, Int64(2**63 - 1), Int64(-(2**63)), 0.5, -0.0, float("nan"),
        float("inf"), Decimal128("1E+6000"), Decimal128("sNaN"), "", "$", "a", "a.b", ".a", "a.", "$a", "$$a",
        "system.x", "\0", "x" * 300, "ä€𝄞", [], [[]], [1, "a", None], [{}], {}, {"": 1}, {"$": 1},
        {"a": {"$": 1}}, {"$gt": 1}, {"$set": 1}, {"$where": "1"},
        {"$expr": {"$add": ["$a", "x"]}}, nested(30), nested(150),
        b"", Binary(b"x", 4), Binary(bytes(16), 3), Binary(b"x", 128), ObjectId(), DatetimeMS(0),
        DatetimeMS(2**63 - 1), Timestamp(0, 0), Timestamp(2**32 - 1, 1), Regex("(", ""), Regex("a", "imsxu"),
        Code("f"), Code("f", {"a": 1}), MinKey(), MaxKey(), Symbol("s"), Undefined(),
        DBPointer("a.b", ObjectId()),
        {"$ref": "a", "$id": 1}, {"a": Undefined()}, ["x"] * 1000,
    ])  # fmt: skip


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place inside a command but the whole."""
    if path:
        yield path
    items: Any = ()
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, inner in items:
        yield from paths(inner, (*path, key))


def broken(rng: random.Random, sample: Document) -> Document:
    """The sample with one to three things wrong; its name stays."""
    command: Document = copied(sample)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        path = rng.choice(list(paths(command)))
        holder: Any = command
        for key in path[:-1]:
            holder = holder[key]
        kind = rng.randrange(6)
        if kind <= 2:
            holder[path[-1]] = odd_values(rng)
        elif kind == 3 and len(path) > 1:
            del holder[path[-1]]
        elif kind == 4 and isinstance(holder, dict):
            holder[rng.choice(("", "x", "$x", "a.b", "_id", "comment", "collation", "hint"))] = odd_values(
                rng
            )
        elif kind == 5 and isinstance(holder, dict) and len(path) > 1:
            holder[rng.choice(("", "$", "a.", "$x", "é"))] = holder.pop(path[-1])
    return command


def copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: copied(inner) for key, inner in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def fuzzed() -> Iterator[RunningServer]:
    with running() as server:
        yield server


def call(raw: RawClient, command: Document) -> Document:
    name = next(iter(command))
    return raw.call({**command, "$db": "admin" if name in ADMIN else "fuzz"})


def prepare(raw: RawClient) -> None:
    raw.call(
        {"insert": "c", "documents": [{"_id": n, "a": n, "b": [n]} for n in range(20, 30)], "$db": "fuzz"}
    )
    raw.call({"create": "f", "$db": "fuzz"})


def test_there_is_a_sample_of_every_command() -> None:
    sampled = {next(iter(sample)) for sample in SAMPLES}
    never = {"shutdown", "replSetStepDown", "replSetInitiate", "waitForFailPoint", "logout", "dropDatabase"}
    assert {command.name for command in COMMANDS.values()} - sampled <= never


@pytest.mark.parametrize("number", range(len(SAMPLES)), ids=lambda n: f"{next(iter(SAMPLES[n]))}-{n}")
def test_a_broken_command_is_answered(fuzzed: RunningServer, number: int) -> None:
    rng = random.Random(number)
    with raw_client(fuzzed) as raw:
        prepare(raw)
        for turn in range(ROUNDS):
            command = broken(rng, SAMPLES[number])
            command.setdefault("maxTimeMS", 2000)
            try:
                reply = call(raw, command)
            except ValueError:  # it has no BSON form, as a name with a NUL
                continue
            about = f"sample {number}, turn {turn}: {command}: {reply}"
            assert reply["ok"] in (0.0, 1.0), about
            assert reply.get("code") != 1, about
            assert not [e for e in reply.get("writeErrors", ()) if e["code"] == 1], about
        assert raw.call({"ping": 1})["ok"] == 1.0


def test_no_fault_was_logged(fuzzed: RunningServer) -> None:
    assert not [line for line in fuzzed.log() if line["s"] == "E"]
