"""Commands whose outcome depends on rights: one or more for every command that both servers have."""

from typing import Any, Final

from bson import Binary, Int64

Document = dict[str, Any]
Sample = tuple[str, Document]
"""The database, and the command."""

ROLES_OF_DATABASE: Final = ("read", "readWrite", "dbAdmin", "userAdmin", "dbOwner", "enableSharding")
ROLES_OF_ADMIN: Final = (
    "readAnyDatabase", "readWriteAnyDatabase", "dbAdminAnyDatabase", "userAdminAnyDatabase", "clusterMonitor",
    "clusterManager", "hostManager", "clusterAdmin", "backup", "restore", "root",
)  # fmt: skip
_SHOP: Final = "shop"
_STREAM: Final[Document] = {"$changeStream": {}}
_ALL: Final[Document] = {"$changeStream": {"allChangesForCluster": True}}


def _aggregate(collection: str | int, *stages: Document, **options: Any) -> Document:
    return {"aggregate": collection, "pipeline": list(stages), "cursor": {}, **options}


def _lookup(name: str) -> Document:
    return {"$lookup": {"from": name, "localField": "a", "foreignField": "b", "as": "x"}}


def _graph(name: str) -> Document:
    return {
        "$graphLookup": {
            "from": name, "startWith": "$a", "connectFromField": "a", "connectToField": "b", "as": "x",
        }
    }  # fmt: skip


def _merge(name: Any, matched: str, not_matched: str) -> Document:
    return {"$merge": {"into": name, "whenMatched": matched, "whenNotMatched": not_matched}}


_UPDATE: Final = {"q": {"_id": 1}, "u": {"$set": {"b": 1}}}
_DIFF: Final = {"$v": 2, "diff": {"u": {"z": 1}}}
_HERE: Final = [{"clientSource": ["127.0.0.1"]}]
_OFF: Final = {"preAndPostImages": {"expireAfterSeconds": "off"}}
_UPSERT: Final = {"q": {"_id": 77}, "u": {"$set": {"b": 1}}, "upsert": True}

READING: Final[list[Sample]] = [
    *((database, {"find": "orders"}) for database in (_SHOP, "other", "admin")),
    *((_SHOP, {"find": name}) for name in ("view", "system.js", "system.profile", "system.views")),
    ("local", {"find": "oplog.rs", "limit": 1}),
    ("local", {"find": "startup_log", "limit": 1}),
    ("local", {"find": "system.replset"}),
    ("local", {"find": "replset.election"}),
    ("config", {"find": "system.preimages"}),
    ("config", {"find": "system.sessions", "limit": 1}),
    ("config", {"find": "settings"}),
    ("config", {"find": "transactions"}),
    *(("admin", {"find": name}) for name in ("system.users", "system.roles", "system.version")),
    (_SHOP, {"count": "orders"}),
    (_SHOP, {"distinct": "orders", "key": "a"}),
    (_SHOP, _aggregate("orders")),
    (_SHOP, _aggregate("view")),
    (_SHOP, _aggregate("orders", _lookup("items"))),
    (_SHOP, _aggregate("orders", _lookup("system.profile"))),
    (_SHOP, _aggregate("orders", _graph("system.profile"))),
    (_SHOP, _aggregate("orders", {"$unionWith": "items"})),
    (_SHOP, _aggregate("orders", {"$unionWith": {"coll": "system.js", "pipeline": [_lookup("made")]}})),
    (_SHOP, _aggregate("orders", {"$facet": {"a": [_lookup("system.profile")]}})),
    (_SHOP, _aggregate("orders", {"$out": "made"})),
    (_SHOP, _aggregate("orders", {"$out": {"db": "other", "coll": "made"}})),
    (_SHOP, _aggregate("orders", {"$out": "made"}, bypassDocumentValidation=True)),
    *(
        (_SHOP, _aggregate("orders", _merge(into, matched, other)))
        for into in ("made", {"db": "other", "coll": "made"})
        for matched, other in (
            ("merge", "insert"), ("replace", "discard"), ("fail", "insert"), ("keepExisting", "insert"),
        )
    ),
    (_SHOP, _aggregate("orders", {"$collStats": {"count": {}}})),
    (_SHOP, _aggregate("orders", {"$indexStats": {}})),
    (_SHOP, _aggregate("orders", {"$planCacheStats": {}})),
    ("admin", _aggregate(1, {"$currentOp": {}})),
    ("admin", _aggregate(1, {"$currentOp": {"allUsers": True}})),
    ("admin", _aggregate(1, {"$listLocalSessions": {}})),
    ("admin", _aggregate(1, {"$listLocalSessions": {"allUsers": True}})),
    ("admin", _aggregate(1, {"$listLocalSessions": {"users": [{"user": "x", "db": "y"}]}})),
    ("config", _aggregate("system.sessions", {"$listSessions": {}})),
    ("config", _aggregate("system.sessions", {"$listSessions": {"allUsers": True}})),
    (_SHOP, {"explain": {"find": "orders"}, "verbosity": "queryPlanner"}),
    (_SHOP, {"explain": {"find": "system.profile"}, "verbosity": "queryPlanner"}),
    (_SHOP, {"explain": {"delete": "orders", "deletes": [{"q": {}, "limit": 0}]}}),
    (_SHOP, {"getMore": Int64(1), "collection": "orders"}),
    (_SHOP, {"killCursors": "orders", "cursors": [Int64(1)]}),
    (_SHOP, {"filemd5": 1, "root": "fs"}),
    (_SHOP, {"dbHash": 1}),
    (_SHOP, {"dataSize": f"{_SHOP}.orders"}),
]  # fmt: skip
STREAMS: Final[list[Sample]] = [
    (_SHOP, _aggregate("orders", _STREAM)),
    (_SHOP, _aggregate("orders", {"$changeStream": {"fullDocument": "updateLookup"}})),
    (_SHOP, _aggregate("orders", {"$changeStream": {"fullDocumentBeforeChange": "whenAvailable"}})),
    ("other", _aggregate("orders", _STREAM)),
    (_SHOP, _aggregate(1, _STREAM)),
    ("other", _aggregate(1, _STREAM)),
    ("admin", _aggregate(1, _ALL)),
]
LISTS: Final[list[Sample]] = [
    (_SHOP, {"listCollections": 1}),
    (_SHOP, {"listCollections": 1, "nameOnly": True}),
    (_SHOP, {"listCollections": 1, "nameOnly": True, "authorizedCollections": True}),
    ("other", {"listCollections": 1}),
    ("local", {"listCollections": 1}),
    ("admin", {"listDatabases": 1}),
    ("admin", {"listDatabases": 1, "authorizedDatabases": True}),
    ("admin", {"listDatabases": 1, "authorizedDatabases": False}),
    (_SHOP, {"listIndexes": "orders"}),
    ("local", {"listIndexes": "oplog.rs"}),
    (_SHOP, {"collStats": "orders"}),
    ("local", {"collStats": "oplog.rs"}),
    (_SHOP, {"dbStats": 1}),
    ("local", {"dbStats": 1}),
    (_SHOP, {"validate": "orders"}),
]
WRITING: Final[list[Sample]] = [
    *((database, {"insert": "orders", "documents": [{"x": 1}]}) for database in (_SHOP, "other", "admin")),
    (_SHOP, {"insert": "orders", "documents": [{"x": 1}], "bypassDocumentValidation": True}),
    ("config", {"insert": "mine", "documents": [{"x": 1}]}),
    ("local", {"insert": "mine", "documents": [{"x": 1}]}),
    (_SHOP, {"update": "orders", "updates": [_UPDATE]}),
    (_SHOP, {"update": "orders", "updates": [_UPSERT]}),
    ("other", {"update": "orders", "updates": [_UPDATE]}),
    (_SHOP, {"delete": "orders", "deletes": [{"q": {"_id": 7}, "limit": 1}]}),
    ("other", {"delete": "orders", "deletes": [{"q": {"_id": 7}, "limit": 1}]}),
    (_SHOP, {"findAndModify": "orders", "query": {"_id": 1}, "update": {"$set": {"c": 1}}}),
    (_SHOP, {"findAndModify": "orders", "query": {"_id": 9}, "remove": True}),
    (_SHOP, {"findAndModify": "orders", "query": {"_id": 99}, "update": {"$set": {"c": 1}}, "upsert": True}),
    (_SHOP, {"insert": "system.js", "documents": [{"_id": "f", "value": 1}]}),
    ("admin", {"insert": "system.users", "documents": [{"_id": "x.y", "user": "y", "db": "x"}]}),
    ("admin", {"delete": "system.users", "deletes": [{"q": {"_id": "x.y"}, "limit": 1}]}),
    ("admin", {"insert": "system.roles", "documents": [{"_id": "x.y", "role": "y", "db": "x"}]}),
    ("admin", {"delete": "system.roles", "deletes": [{"q": {"_id": "x.y"}, "limit": 1}]}),
    ("admin", {"applyOps": []}),
    ("admin", {"applyOps": [{"op": "i", "ns": "shop.orders", "o": {"_id": "applied"}}]}),
    ("admin", {"applyOps": [{"op": "d", "ns": "shop.orders", "o": {"_id": "applied"}}]}),
    ("admin", {"applyOps": [{"op": "u", "ns": "shop.orders", "o2": {"_id": 1}, "o": _DIFF}]}),
    ("admin", {"applyOps": [{"op": "c", "ns": "shop.$cmd", "o": {"create": "applied"}}]}),
    ("admin", {"applyOps": [{"op": "n", "ns": "", "o": {"msg": "x"}}]}),
]  # fmt: skip
CATALOG: Final[list[Sample]] = [
    (_SHOP, {"create": "fresh"}),
    (_SHOP, {"create": "round", "capped": True, "size": 4096}),
    (_SHOP, {"create": "view2", "viewOn": "orders", "pipeline": []}),
    (_SHOP, {"create": "view3", "viewOn": "orders", "pipeline": [_lookup("system.profile")]}),
    (_SHOP, {"create": "view4", "viewOn": "system.users", "pipeline": []}),
    ("other", {"create": "fresh"}),
    ("local", {"create": "fresh"}),
    (_SHOP, {"createIndexes": "orders", "indexes": [{"key": {"a": 1}, "name": "a_1"}]}),
    (_SHOP, {"dropIndexes": "orders", "index": "a_1"}),
    (_SHOP, {"collMod": "orders", "validationLevel": "moderate"}),
    (_SHOP, {"collMod": "view", "viewOn": "orders", "pipeline": [_lookup("system.profile")]}),
    (_SHOP, {"convertToCapped": "items", "size": 4096}),
    (_SHOP, {"cloneCollectionAsCapped": "orders", "toCollection": "cloned", "size": 4096}),
    ("admin", {"renameCollection": "shop.items", "to": "shop.moved"}),
    ("admin", {"renameCollection": "shop.moved", "to": "shop.items", "dropTarget": True}),
    ("admin", {"renameCollection": "shop.items", "to": "other.items"}),
    ("admin", {"renameCollection": "other.items", "to": "shop.items"}),
    (_SHOP, {"compact": "orders", "force": True}),
    (_SHOP, {"planCacheClear": "orders"}),
    (_SHOP, {"planCacheListFilters": "orders"}),
    (_SHOP, {"planCacheSetFilter": "orders", "query": {"a": 1}, "indexes": [{"a": 1}]}),
    (_SHOP, {"planCacheClearFilters": "orders"}),
    (_SHOP, {"profile": -1}),
    (_SHOP, {"profile": 0}),
    (_SHOP, {"profile": -1, "slowms": 100}),
    (_SHOP, {"drop": "fresh"}),
    (_SHOP, {"drop": "view"}),
    ("other", {"drop": "orders"}),
    ("other", {"dropDatabase": 1}),
    (_SHOP, {"dropDatabase": 1}),
]
_PRIVILEGE: Final = {"resource": {"db": _SHOP, "collection": "orders"}, "actions": ["find"]}
_ELSEWHERE: Final = {"resource": {"db": "other", "collection": ""}, "actions": ["find"]}
_ON_CLUSTER: Final = {"resource": {"cluster": True}, "actions": ["inprog"]}
PRINCIPALS: Final[list[Sample]] = [
    *((database, {"usersInfo": 1}) for database in (_SHOP, "other", "admin", "local")),
    (_SHOP, {"usersInfo": {"forAllDBs": True}}),
    (_SHOP, {"usersInfo": "nobody"}),
    (_SHOP, {"usersInfo": {"user": "nobody", "db": "other"}}),
    *((database, {"rolesInfo": 1}) for database in (_SHOP, "other", "admin")),
    (_SHOP, {"rolesInfo": "read"}),
    ("admin", {"rolesInfo": "root"}),
    (_SHOP, {"createUser": "made", "pwd": "p", "roles": []}),
    (_SHOP, {"createUser": "made2", "pwd": "p", "roles": ["read"]}),
    (_SHOP, {"createUser": "made3", "pwd": "p", "roles": [{"role": "read", "db": "other"}]}),
    (_SHOP, {"createUser": "made4", "pwd": "p", "roles": [{"role": "root", "db": "admin"}]}),
    (_SHOP, {"createUser": "made5", "pwd": "p", "roles": [], "authenticationRestrictions": _HERE}),
    ("other", {"createUser": "made", "pwd": "p", "roles": []}),
    (_SHOP, {"updateUser": "made", "pwd": "q"}),
    (_SHOP, {"updateUser": "made", "customData": {"a": 1}}),
    (_SHOP, {"updateUser": "made", "roles": ["read"]}),
    (_SHOP, {"grantRolesToUser": "made", "roles": ["read"]}),
    (_SHOP, {"grantRolesToUser": "made", "roles": [{"role": "read", "db": "other"}]}),
    (_SHOP, {"revokeRolesFromUser": "made", "roles": ["read"]}),
    (_SHOP, {"createRole": "made", "privileges": [], "roles": []}),
    (_SHOP, {"createRole": "made2", "privileges": [_PRIVILEGE], "roles": ["read"]}),
    (_SHOP, {"createRole": "made3", "privileges": [_ELSEWHERE], "roles": []}),
    ("admin", {"createRole": "made4", "privileges": [_ELSEWHERE], "roles": []}),
    ("admin", {"createRole": "made5", "privileges": [_ON_CLUSTER], "roles": []}),
    (_SHOP, {"updateRole": "made", "privileges": [_PRIVILEGE]}),
    (_SHOP, {"updateRole": "made", "roles": ["read"]}),
    (_SHOP, {"grantPrivilegesToRole": "made", "privileges": [_PRIVILEGE]}),
    (_SHOP, {"revokePrivilegesFromRole": "made", "privileges": [_PRIVILEGE]}),
    (_SHOP, {"grantRolesToRole": "made", "roles": ["readWrite"]}),
    (_SHOP, {"revokeRolesFromRole": "made", "roles": ["readWrite"]}),
    (_SHOP, {"dropRole": "made"}),
    (_SHOP, {"dropUser": "made"}),
    ("admin", {"dropRole": "made4"}),
    ("admin", {"dropRole": "made5"}),
    (_SHOP, {"dropAllRolesFromDatabase": 1}),
    (_SHOP, {"dropAllUsersFromDatabase": 1}),
    ("other", {"dropAllUsersFromDatabase": 1}),
    ("admin", {"invalidateUserCache": 1}),
]  # fmt: skip
_LSID: Final = {"id": Binary(b"s" * 16, 4)}
SERVER: Final[list[Sample]] = [
    *(
        ("admin", {name: 1})
        for name in (
            "ping", "hello", "buildInfo", "connectionStatus", "listCommands", "whatsmyuri", "getnonce",
            "whatsmysni", "features", "availableQueryOptions", "serverStatus", "hostInfo", "getCmdLineOpts",
            "top", "lockInfo", "connPoolStats", "connPoolSync", "shardingState", "replSetGetStatus",
            "replSetGetConfig", "replSetGetRBID", "getDefaultRWConcern", "logRotate", "getDiagnosticData",
            "startSession", "currentOp", "replSetStepUp", "echo", "testDeprecation",
        )
    ),
    ("admin", {"currentOp": 1, "$ownOps": True}),
    ("admin", {"driverOIDTest": 1}),
    ("admin", {"getLog": "global"}),
    ("admin", {"getParameter": 1, "logLevel": 1}),
    ("admin", {"getParameter": "*"}),
    ("admin", {"setParameter": 1, "logLevel": 0}),
    ("admin", {"getClusterParameter": "changeStreamOptions"}),
    ("admin", {"setClusterParameter": {"changeStreamOptions": _OFF}}),
    ("admin", {"setDefaultRWConcern": 1, "defaultReadConcern": {"level": "local"}}),
    ("admin", {"configureFailPoint": "noSuchPoint", "mode": "off"}),
    ("admin", {"setFeatureCompatibilityVersion": "x"}),
    ("admin", {"killOp": 1, "op": 123456789}),
    ("admin", {"fsync": 1}),
    ("admin", {"fsyncUnlock": 1}),
    ("admin", {"appendOplogNote": 1, "data": {"a": 1}}),
    ("admin", {"replSetFreeze": 0}),
    ("admin", {"replSetStepDown": -1}),
    ("admin", {"replSetSyncFrom": "nowhere:1"}),
    ("admin", {"replSetResizeOplog": 1, "size": 1000.0}),
    ("admin", {"replSetInitiate": {}}),
    ("admin", {"killSessions": [_LSID]}),
    ("admin", {"killAllSessions": [{"user": "no", "db": "no"}]}),
    ("admin", {"killAllSessionsByPattern": [{"uid": Binary(b"u" * 32)}]}),
    ("admin", {"endSessions": [_LSID]}),
    ("admin", {"refreshSessions": [_LSID]}),
    ("admin", {"commitTransaction": 1, "lsid": _LSID, "txnNumber": Int64(1), "autocommit": False}),
    ("admin", {"abortTransaction": 1, "lsid": _LSID, "txnNumber": Int64(1), "autocommit": False}),
    ("admin", {"ping": 1, "lsid": {**_LSID, "uid": Binary(b"u" * 32)}}),
    (_SHOP, {"find": "orders", "lsid": {**_LSID, "uid": Binary(b"u" * 32)}}),
    (_SHOP, {"replSetGetStatus": 1}),
    (_SHOP, {"noSuchCommand": 1}),
    (_SHOP, {"find": "orders", "unknown": 1}),
    (_SHOP, {"find": Binary(b"1" * 16, 4)}),
]  # fmt: skip
SAMPLES: Final = [*READING, *STREAMS, *LISTS, *WRITING, *PRINCIPALS, *SERVER, *CATALOG]
"""In an order in which those that remove something are last."""
