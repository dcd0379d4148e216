"""Malformed commands: each gets a reply or its connection is closed; the server keeps running.

The mutations and the valid replies are in `broken_commands.py`.
"""

from collections.abc import Iterator

import pytest
from bson import Binary, Int64, ObjectId, Timestamp

from tailrace.mongod.server.commands import COMMANDS
from tests.mongod.server.broken_commands import check_answers
from tests.mongod.server.raw_client import RawClient, raw_client
from tests.mongod.server.raw_login import log_in
from tests.mongod.server.running import Document, RunningServer, running

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
    {
        "applyOps": [
            {"op": "i", "ns": "fuzz.c", "o": {"_id": 90}},
            {"op": "u", "ns": "fuzz.c", "o2": {"_id": 90}, "o": {"$v": 2, "diff": {"u": {"a": 1}}}},
            {"op": "d", "ns": "fuzz.c", "o": {"_id": 90}},
            {"op": "c", "ns": "fuzz.$cmd", "o": {"create": "applied"}},
        ],
        "preCondition": [{"ns": "fuzz.c", "q": {"_id": 20}, "res": {"a": 20}}],
        "allowAtomic": False,
    },
    {"availableQueryOptions": 1},
    {"cloneCollectionAsCapped": "c", "toCollection": "cloned", "size": 4096},
    {"createUser": "a", "pwd": "b", "roles": []},
    {"updateUser": "a", "pwd": "b"},
    {"dropUser": "a"},
    {"dropAllUsersFromDatabase": 1},
    {"grantRolesToUser": "a", "roles": ["read"]},
    {"revokeRolesFromUser": "a", "roles": [{"role": "read", "db": "fuzz"}]},
    {
        "createRole": "r",
        "privileges": [{"resource": {"db": "fuzz", "collection": "c"}, "actions": ["find"]}],
        "roles": ["read"],
        "authenticationRestrictions": [{"clientSource": ["127.0.0.1"]}],
    },
    {"updateRole": "r", "roles": [], "privileges": []},
    {"dropRole": "r"},
    {"dropAllRolesFromDatabase": 1},
    {"grantRolesToRole": "r", "roles": ["read"]},
    {"revokeRolesFromRole": "r", "roles": ["read"]},
    {
        "grantPrivilegesToRole": "r",
        "privileges": [{"resource": {"db": "fuzz", "collection": ""}, "actions": ["find"]}],
    },
    {
        "revokePrivilegesFromRole": "r",
        "privileges": [{"resource": {"db": "fuzz", "collection": ""}, "actions": ["find"]}],
    },
    {"invalidateUserCache": 1},
    {"authenticate": 1, "mechanism": "MONGODB-X509", "user": "a"},
    {"fsyncUnlock": 1},
    {"fsync": 1},
    {"getnonce": 1},
    {"_hashBSONElement": "a", "seed": 1},
    {"refreshLogicalSessionCacheNow": 1},
    {"replSetFreeze": 5},
    {"replSetSyncFrom": "a:1"},
    {"saslContinue": 1, "conversationId": 1, "payload": Binary(b"")},
    {"setFeatureCompatibilityVersion": "8.2", "confirm": True},
    {"testDeprecation": 1, "apiVersion": "1"},
    {"testVersion2": 1, "apiVersion": "1"},
    {"connPoolStats": 1},
    {"connPoolSync": 1},
    {"dbHash": 1, "collections": ["c"]},
    {"driverOIDTest": ObjectId()},
    {"echo": 1, "a": {"b": 1}},
    {"features": 1, "oidReset": True},
    {"filemd5": 1, "root": "fs"},
    {"getDiagnosticData": 1},
    {"getLastError": 1},
    {"lockInfo": 1},
    {"planCacheClear": "c", "query": {"a": 1}, "sort": {"a": 1}},
    {"planCacheClearFilters": "c", "query": {"a": 1}, "projection": {"a": 1}},
    {"planCacheListFilters": "c"},
    {"planCacheSetFilter": "c", "query": {"a": 1}, "indexes": [{"a": 1}], "collation": {"locale": "en"}},
    {"profile": 1, "slowms": 50, "sampleRate": 0.5, "filter": {"op": "query"}},
    {"reIndex": "c"},
    {"replSetGetRBID": 1},
    {"replSetResizeOplog": 1, "size": 1000.0, "minRetentionHours": 1.0},
    {"rolesInfo": [{"role": "read", "db": "fuzz"}], "showPrivileges": True, "showBuiltinRoles": True},
    {"shardingState": 1},
    {"top": 1},
    {"usersInfo": {"user": "a", "db": "b"}, "showPrivileges": True, "filter": {"a": 1}},
    {"whatsmysni": 1},
    {"whatsmyuri": 1},
]
ADMIN = frozenset(name for name, command in COMMANDS.items() if command.admin_only) | {"bulkWrite"}


@pytest.fixture(scope="module")
def fuzzed() -> Iterator[RunningServer]:
    with running() as server:
        yield server


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
def test_a_malformed_command_gets_a_reply(fuzzed: RunningServer, number: int) -> None:
    with raw_client(fuzzed) as raw:
        prepare(raw)
        check_answers(raw, SAMPLES, number, admin=ADMIN, rounds=ROUNDS, max_time_ms=2000)


@pytest.fixture(scope="module")
def guarded_fuzzed() -> Iterator[RunningServer]:
    with running(auth=True, first_user=("root", "root")) as server:
        yield server


@pytest.mark.parametrize("number", range(len(SAMPLES)), ids=lambda n: f"{next(iter(SAMPLES[n]))}-{n}")
def test_rights_of_a_malformed_command(guarded_fuzzed: RunningServer, number: int) -> None:
    """What a command needs is computed before its arguments are checked."""
    with raw_client(guarded_fuzzed) as raw:
        assert log_in(raw, "root", "root")["ok"] == 1
        check_answers(raw, SAMPLES, number, admin=ADMIN, rounds=ROUNDS, max_time_ms=2000)


def test_no_internal_error_was_logged(fuzzed: RunningServer, guarded_fuzzed: RunningServer) -> None:
    assert not [line for server in (fuzzed, guarded_fuzzed) for line in server.log() if line["s"] == "E"]
