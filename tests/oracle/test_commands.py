"""Commands of tools, shells and drivers beside the real server; figures that vary are left out."""

from typing import Any

import pytest
from bson import Binary, ObjectId

from tests.oracle.comparison import Document, value_differences
from tests.oracle.twins import Twins

ID = ObjectId("6afbc469e1753e6474d3b71c")
ROLE = {"role": "readWrite", "db": "test"}
FILTER: Document = {"query": {"a": 1, "b": 2}, "sort": {"a": 1}, "projection": {"a": 1}}
VARYING = frozenset({"host", "timeMillis", "oidMachine", "oidMachineOld", "nonce"})

USERS: list[Document] = [
    {"usersInfo": wanted}
    for wanted in (
        1, 1.5, 2, "x", "", ["x"], [], ["x", 1], None, True, {"user": "x", "db": "test"}, {"user": "x"},
        {"user": 1, "db": "x"}, {"x": 1}, {"forAllDBs": True}, {"forAllDBs": 1}, {"forAllDBs": False},
    )
] + [
    {"usersInfo": 1, "showPrivileges": True},
    {"usersInfo": "x", "showPrivileges": True},
    {"usersInfo": ["x"], "showPrivileges": True, "showAuthenticationRestrictions": True},
    {"usersInfo": "x", "showPrivileges": True, "filter": {"a": 1}},
    {"usersInfo": "x", "showPrivileges": True, "filter": {}},
    {"usersInfo": 1, "showAuthenticationRestrictions": True},
    {"usersInfo": 1, "showCredentials": 1, "showCustomData": False},
    {"usersInfo": 1, "showCredentials": "x"},
    {"usersInfo": 1, "filter": 1},
    {"usersInfo": 1, "filter": {"$foo": 1}},
    {"usersInfo": 1, "foo": 1},
]  # fmt: skip

ROLES: list[Document] = [
    {"rolesInfo": wanted}
    for wanted in (
        1, 2, None, "read", "x", "", "root", [], {}, ["read", ROLE], ["read", "x"], ["read", "read"], ROLE,
        {"role": "root", "db": "admin"}, {"role": "__system", "db": "admin"}, {"role": "x", "db": ""},
        {"role": "root", "db": 1}, {"role": 1, "db": "admin"}, {"role": "root"}, {**ROLE, "x": 1},
    )
] + [
    {"rolesInfo": "read", "showPrivileges": True},
    {"rolesInfo": ["dbOwner", "dbAdmin", "userAdmin", "enableSharding"], "showPrivileges": 1},
    {"rolesInfo": {"role": "readAnyDatabase", "db": "admin"}, "showPrivileges": True},
    {"rolesInfo": {"role": "readWriteAnyDatabase", "db": "admin"}, "showPrivileges": True},
    {"rolesInfo": "read", "showPrivileges": "asUserFragment"},
    {"rolesInfo": 1, "showPrivileges": "asUserFragment"},
    {"rolesInfo": ["x"], "showPrivileges": "asUserFragment"},
    {"rolesInfo": 1, "showPrivileges": "x"},
    {"rolesInfo": "read", "showAuthenticationRestrictions": True, "showPrivileges": True},
    {"rolesInfo": 1, "showPrivileges": True},
    {"rolesInfo": 1, "foo": 1},
]  # fmt: skip

PLANS: list[Document] = [
    {"planCacheClear": "c"},
    {"planCacheClear": "nothing"},
    {"planCacheClear": ""},
    {"planCacheClear": "c", "query": {"a": 1}},
    {"planCacheClear": "c", "query": 1},
    {"planCacheClear": "c", "query": None},
    {"planCacheClear": "c", "query": {"$foo": 1}},
    {"planCacheClear": "c", "sort": {"a": 1}},
    {"planCacheClear": "c", "foo": 1},
    {"planCacheListFilters": "c"},
    {"planCacheListFilters": "nothing"},
    {"planCacheSetFilter": "c", "query": {"a": 1}, "indexes": [{"a": 1}]},
    {"planCacheListFilters": "c"},
    {"planCacheSetFilter": "c", **FILTER, "collation": {"locale": "de"}, "indexes": ["a_1"]},
    {"planCacheListFilters": "c"},
    {"planCacheSetFilter": "c", "query": {"a": 7}, "indexes": ["nothing"]},
    {"planCacheListFilters": "c"},
    {"planCacheSetFilter": "c", "query": {"a": 1}},
    {"planCacheSetFilter": "c", "indexes": ["a_1"]},
    {"planCacheSetFilter": "c", "query": {"a": 1}, "indexes": []},
    {"planCacheSetFilter": "c", "query": {"a": 1}, "indexes": [1]},
    {"planCacheSetFilter": "c", "query": {"a": 1}, "indexes": [{}]},
    {"planCacheSetFilter": "c", "query": {"a": 1}, "indexes": 1},
    {"planCacheSetFilter": "nothing", "query": {"a": 1}, "indexes": ["a"]},
    {"planCacheClearFilters": "c", "query": {"a": 5}},
    {"planCacheListFilters": "c"},
    {"planCacheClearFilters": "c", "query": {"z": 5}},
    {"planCacheClearFilters": "c", "sort": {"a": 1}},
    {"planCacheClearFilters": "c"},
    {"planCacheListFilters": "c"},
    {"planCacheClearFilters": "nothing"},
]

OTHERS: list[Document] = [
    {"availableQueryOptions": 1},
    {"availablequeryoptions": 1},
    {"checkMetadataConsistency": 1},
    {"connPoolSync": 1},
    {"driverOIDTest": ID},
    {"driverOIDTest": ID, "foo": 1},
    {"driverOIDTest": 1},
    {"echo": 1, "a": {"b": 1}},
    {"features": 1},
    {"features": 1, "oidReset": True},
    {"features": 1, "foo": 1},
    {"filemd5": 1},
    {"filemd5": 1, "root": "fs"},
    {"filemd5": 1, "root": ""},
    {"filemd5": 1, "root": 1},
    {"filemd5": 1, "root": "nothing"},
    {"filemd5": 1, "root": "plain"},
    {"filemd5": 2, "root": "fs", "foo": 1},
    {"filemd5": 3, "root": "fs"},
    {"filemd5": 9, "root": "fs"},
    {"filemd5": None, "root": "fs"},
    {"getDiagnosticData": 1},
    {"getParameter": {"showDetails": 1.0}, "ttlMonitorSleepSecs": 1},
    {"getParameter": {"showDetails": None, "allParameters": False}, "ttlMonitorSleepSecs": 1},
    {"getParameter": {"showDetails": "x"}, "ttlMonitorSleepSecs": 1},
    {"getParameter": {"x": 1}, "ttlMonitorSleepSecs": 1},
    {"getParameter": {"allParameters": True, "setAt": "startup"}},
    {"fsync": 1},
    {"fsync": 1, "async": True, "foo": 1},
    {"getnonce": 1, "foo": 1},
    {"_hashBSONElement": 1},
    {"_hashBSONElement": "abc", "foo": 1},
    {"_hashBSONElement": {"a": 1}, "seed": 1},
    {"_hashBSONElement": [1, None], "seed": -1.5},
    {"refreshLogicalSessionCacheNow": 1},
    {"replSetFreeze": 1},
    {"replSetSyncFrom": "h:1"},
    {"saslContinue": 1},
    {"saslContinue": 1, "conversationId": 1, "payload": Binary(b"")},
    {"setFeatureCompatibilityVersion": "4.0"},
    {"setFeatureCompatibilityVersion": "6.0"},
    {"setFeatureCompatibilityVersion": "6.0", "foo": 1},
    {"setFeatureCompatibilityVersion": 1},
    {"testDeprecation": 1, "apiVersion": "1"},
    {"testDeprecation": 1, "apiVersion": "1", "apiDeprecationErrors": True},
    {"testVersion2": 1},
    {"testVersion2": 1, "apiVersion": "1", "apiStrict": True},
    {"getLastError": 1},
    {"getlasterror": 1, "w": 1},
    {"lockInfo": 1},
    {"lockInfo": 1, "foo": 1},
    {"reIndex": "c"},
    {"reIndex": "nothing", "foo": 1},
    {"replSetGetRBID": 1},
    {"replSetResizeOplog": 1},
    {"replSetResizeOplog": 1, "foo": 1},
    {"replSetResizeOplog": 1, "minRetentionHours": -1},
    {"replSetResizeOplog": 1, "minRetentionHours": 0},
    {"replSetResizeOplog": 1, "size": "x"},
    {"replSetResizeOplog": 1, "size": 1e20},
    {"replSetResizeOplog": 1, "size": 989.9},
    {"replSetResizeOplog": 1, "size": None},
    {"replSetResizeOplog": 1, "size": 2000},
    {"shardingState": 1},
    {"shardingState": 1, "foo": 1},
]


@pytest.fixture(scope="module", autouse=True)
def documents(twins: Twins) -> None:
    documents = [{"_id": 3, "a": 1}, {"_id": 1, "b": "x"}, {"_id": 2.5}]
    twins.same({"create": "capped", "capped": True, "size": 4096})
    for name in ("c", "b", "capped", "plain.chunks"):
        twins.same({"insert": name, "documents": documents})
    twins.same({"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1"}]})
    twins.same({"createIndexes": "fs.chunks", "indexes": [{"key": {"files_id": 1, "n": 1}, "name": "f"}]})
    chunks: list[tuple[int, int, Any]] = [
        (1, 1, Binary(b"def")), (1, 0, Binary(b"abc")), (2, 0, Binary(b"a")), (2, 2, Binary(b"b")),
        (3, 0, "x"),
    ]  # fmt: skip
    stored = [{"files_id": file, "n": n, "data": data} for file, n, data in chunks]
    twins.same({"insert": "fs.chunks", "documents": stored})


def is_of_a_client(lock: Document) -> bool:
    """Whether a client has a lock or waits for it; threads of the server may do so at any time."""
    return any(each["clientInfo"]["desc"].startswith("conn") for each in lock["granted"] + lock["pending"])


def compare(twins: Twins, command: Document, database: str) -> None:
    pair = twins.run(command, database)
    for reply in (pair.real, pair.ours):
        for field in VARYING:
            reply.pop(field, None)
        reply.get("filters", []).sort(key=lambda each: str(each["query"]))  # the real server has no order
        if isinstance(reply.get("lockInfo"), list):
            reply["lockInfo"] = [lock for lock in reply["lockInfo"] if is_of_a_client(lock)]
    assert not pair.differences, (command, pair)


@pytest.mark.parametrize("command", [*USERS, *ROLES], ids=str)
def test_users_and_roles(twins: Twins, command: Document) -> None:
    compare(twins, command, "test")


def test_builtin_roles(twins: Twins) -> None:
    """The real server has them in no order."""
    for database in ("test", "admin"):
        pair = twins.run({"rolesInfo": 1, "showBuiltinRoles": True}, database)
        for reply in (pair.real, pair.ours):
            reply["roles"].sort(key=lambda role: str(role["role"]))
        assert not pair.differences, pair


def test_index_filters(twins: Twins) -> None:
    for command in PLANS:
        compare(twins, command, "test")


@pytest.mark.parametrize("command", OTHERS, ids=str)
@pytest.mark.parametrize("database", ["admin", "test"])
def test_small_commands(twins: Twins, command: Document, database: str) -> None:
    compare(twins, command, database)


@pytest.mark.parametrize("database", ["test", "nothing", "local"])
def test_database_hashes(twins: Twins, database: str) -> None:
    names: list[Any] = [["b", "c", "capped"], ["nothing"], [1]]
    for chosen in names:
        compare(twins, {"dbHash": 1, "collections": chosen}, database)


def test_locking_against_writes(twins: Twins) -> None:
    lock, unlock = {"fsync": 1, "lock": True}, {"fsyncUnlock": 1}
    try:
        for command in (unlock, lock, {"fsync": 1, "lock": 1}, unlock, unlock, unlock):
            twins.same(command, "admin")
        twins.same(lock, "admin")
        pair = twins.run({"insert": "c", "documents": [{"_id": 77}], "maxTimeMS": 50})
        assert pair.real["code"] == pair.ours["code"] == 50
        twins.same({"find": "c", "filter": {"_id": 77}})
        twins.same(unlock, "admin")
        twins.same({"insert": "c", "documents": [{"_id": 78}]})
    finally:
        for _ in range(3):
            twins.run(unlock, "admin")


@pytest.mark.parametrize(
    "command",
    [
        {"cloneCollectionAsCapped": "c", "toCollection": "d", "size": 8192},
        {"cloneCollectionAsCapped": "c", "toCollection": "d", "size": 4096.5, "temp": True, "foo": 1},
        {"cloneCollectionAsCapped": "c", "toCollection": "b", "size": 4096},
        {"cloneCollectionAsCapped": "c", "toCollection": "d"},
        {"cloneCollectionAsCapped": "c", "toCollection": "d", "size": 0},
        {"cloneCollectionAsCapped": "c", "toCollection": "d", "size": "x"},
        {"cloneCollectionAsCapped": "c", "toCollection": "d", "size": -5},
        {"cloneCollectionAsCapped": "c", "toCollection": "", "size": 4096},
        {"cloneCollectionAsCapped": "c", "toCollection": 1, "size": 4096},
        {"cloneCollectionAsCapped": "c", "size": 4096},
        {"cloneCollectionAsCapped": 1, "toCollection": "d", "size": 4096},
        {"cloneCollectionAsCapped": "nothing", "toCollection": "d", "size": 4096},
    ],
    ids=str,
)
def test_capped_copies(twins: Twins, command: Document) -> None:
    since = twins.operation_time()
    twins.same(command)
    twins.same_oplog(since)
    twins.run({"drop": "d"})
    twins.same({"cloneCollectionAsCapped": "c", "toCollection": "d", "size": 4096}, "nothing")


@pytest.mark.parametrize(
    ("database", "command"),
    [
        ("admin", {"replSetGetStatus": 1}),
        ("admin", {"replSetGetConfig": 1}),
        ("test", {"dbStats": 1}),
        ("test", {"dbStats": 1, "scale": 1024}),
        ("nothing", {"dbStats": 1}),
        ("test", {"connectionStatus": 1, "showPrivileges": True}),
        ("test", {"whatsmyuri": 1, "foo": 1}),
        ("test", {"hello": 1}),
        ("admin", {"getDefaultRWConcern": 1}),
        ("admin", {"listDatabases": 1, "nameOnly": True}),
    ],
    ids=str,
)
def test_shapes(twins: Twins, database: str, command: Document) -> None:
    """Fields, their order and types are equal; sizes and numbers of elements are not."""
    found = twins.run(command, database).differences
    assert not [each for each in found if each.kind not in ("value", "length")], found


SECTIONS = (
    "asserts", "defaultRWConcern", "extra_info", "featureCompatibilityVersion", "globalLock", "mem",
    "opLatencies", "opcounters", "opcountersRepl",
)  # fmt: skip


@pytest.mark.parametrize("section", SECTIONS)
def test_sections_of_server_status(twins: Twins, section: str) -> None:
    pair = twins.run({"serverStatus": 1}, "admin")
    found = list(value_differences(section, pair.real[section], pair.ours[section]))
    assert not [each for each in found if each.kind != "value"], found


@pytest.mark.parametrize(
    ("database", "command"),
    [
        ("test", {"drop": "nothing"}),
        ("test", {"drop": 1}),
        ("test", {"create": "c"}),
        ("test", {"collMod": "nothing"}),
        ("test", {"dropIndexes": "c", "index": "nothing"}),
        ("test", {"findAndModify": "c", "query": {}, "update": {"$foo": 1}}),
        ("admin", {"renameCollection": "test.nothing", "to": "test.x"}),
        ("admin", {"renameCollection": "test.c", "to": "test.b"}),
    ],
    ids=str,
)
def test_write_concerns_of_failures(twins: Twins, database: str, command: Document) -> None:
    twins.same({**command, "writeConcern": {"w": 50, "wtimeout": 1}}, database)
    twins.same({**command, "writeConcern": {"w": 1}}, database)
