"""The built-in roles and their privileges, as rolesInfo shows them on a real 6.0.27."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

_READ: Final = frozenset(
    {"changeStream", "collStats", "dbHash", "dbStats", "find", "killCursors", "listCollections",
     "listIndexes", "listSearchIndexes", "planCacheRead"}
)  # fmt: skip
_READ_WRITE: Final = _READ | {
    "compactStructuredEncryptionData", "convertToCapped", "createCollection", "createIndex",
    "createSearchIndexes", "dropCollection", "dropIndex", "dropSearchIndex", "insert", "remove",
    "renameCollectionSameDB", "update", "updateSearchIndex",
}  # fmt: skip
_USER_ADMIN: Final = frozenset(
    {"changeCustomData", "changePassword", "createRole", "createUser", "dropRole", "dropUser", "grantRole",
     "revokeRole", "setAuthenticationRestriction", "viewRole", "viewUser"}
)  # fmt: skip
_DATABASE_ADMIN: Final = frozenset(
    {"bypassDocumentValidation", "collMod", "collStats", "compact", "convertToCapped", "createCollection",
     "createIndex", "createSearchIndexes", "dbStats", "dropCollection", "dropDatabase", "dropIndex",
     "dropSearchIndex", "enableProfiler", "listCollections", "listIndexes", "listSearchIndexes",
     "planCacheIndexFilter", "planCacheRead", "planCacheWrite", "reIndex", "renameCollectionSameDB",
     "storageDetails", "updateSearchIndex", "validate"}
)  # fmt: skip
_PROFILE: Final = _READ | {"convertToCapped", "createCollection", "dropCollection"}
_SHARDING: Final = frozenset({"enableSharding", "refineCollectionShardKey", "reshardCollection"})

_COLLECTIONS: Final = ""
_CODE: Final = "system.js"
_PROFILED: Final = "system.profile"

_OF_DATABASES: Final[Mapping[str, Mapping[str, frozenset[str]]]] = {
    "read": {_COLLECTIONS: _READ, _CODE: _READ},
    "readWrite": {_COLLECTIONS: _READ_WRITE, _CODE: _READ_WRITE},
    "dbOwner": {
        _COLLECTIONS: _READ_WRITE | _USER_ADMIN | _DATABASE_ADMIN,
        _CODE: _READ_WRITE,
        _PROFILED: _PROFILE,
    },
    "userAdmin": {_COLLECTIONS: _USER_ADMIN},
    "dbAdmin": {_COLLECTIONS: _DATABASE_ADMIN, _PROFILED: _PROFILE},
    "enableSharding": {_COLLECTIONS: _SHARDING},
}
"""The roles of every database: what they allow, by the name of a collection."""

_CLUSTER: Final = "cluster"
_ANY_RESOURCE: Final = "anyResource"
_BUCKETS: Final = "system_buckets"
_ALL: Final = "."
"""All databases; in other keys the database precedes the dot, and a collection follows it."""

_Held = Mapping[str, Iterable[str]]
_MONITORED: Final = frozenset({"collStats", "dbStats", "getDatabaseVersion", "getShardVersion", "indexStats"})
_MANAGED: Final = frozenset(
    {"clearJumboFlag", "enableSharding", "moveChunk", "refineCollectionShardKey", "reshardCollection",
     "splitChunk", "splitVector"}
)  # fmt: skip
_WRITE: Final = frozenset({"insert", "remove", "update"})
_RESTORED: Final = frozenset(
    {"bypassDocumentValidation", "collMod", "convertToCapped", "createCollection", "createIndex",
     "createSearchIndexes", "dropCollection", "insert", "updateSearchIndex"}
)  # fmt: skip
_INDEXED: Final = frozenset({"createIndex", "createSearchIndexes"})

_CLUSTER_MONITOR: Final[_Held] = {
    _CLUSTER: (
        "allCollectionStats", "connPoolStats", "getDefaultRWConcern", "getCmdLineOpts", "getLog",
        "getParameter", "getShardMap", "hostInfo", "inprog", "listDatabases", "listSessions", "listShards",
        "netstat", "operationMetrics", "queryStatsRead", "queryStatsReadTransformed", "replSetGetConfig",
        "replSetGetStatus", "serverStatus", "shardedDataDistribution", "shardingState", "top", "useUUID",
    ),
    _ALL: _MONITORED,
    "config.": _READ | _MONITORED,
    "config.system.sessions": _MONITORED,
    "local.": _READ | _MONITORED,
    "config.system.js": _READ,
    "local.system.js": _READ,
    "local.system.replset": ("find",),
    "local.replset.election": ("find",),
    "local.replset.minvalid": ("find",),
    ".system.profile": ("find",),
}  # fmt: skip
_HOST_MANAGER: Final[_Held] = {
    _CLUSTER: (
        "applicationMessage", "auditConfigure", "connPoolSync", "dropConnections", "flushRouterConfig",
        "fsync", "invalidateUserCache", "killAnyCursor", "killAnySession", "killop", "logRotate", "oidReset",
        "replSetResizeOplog", "resync", "rotateCertificates", "setParameter", "shutdown", "touch",
        "trafficRecord", "unlock",
    ),
    _ALL: ("killCursors",),
}  # fmt: skip
_CLUSTER_MANAGER: Final[_Held] = {
    _CLUSTER: (
        "addShard", "appendOplogNote", "applicationMessage", "cleanupOrphaned", "flushRouterConfig",
        "getClusterParameter", "getDefaultRWConcern", "listSessions", "listShards", "removeShard",
        "replSetConfigure", "replSetGetConfig", "replSetGetStatus", "replSetStateChange", "resync",
        "runTenantMigration", "setClusterParameter", "setDefaultRWConcern", "setFeatureCompatibilityVersion",
    ),
    _ALL: _MANAGED,
    _BUCKETS: _MANAGED,
    "config.": _READ | _MANAGED | _WRITE,
    "local.": _MANAGED | _WRITE,
    "local.system.replset": _READ,
    "config.system.js": _READ,
    _ANY_RESOURCE: ("dbCheck",),
    "local.system.healthlog": _READ,
    "local.replset.election": _WRITE,
    "local.replset.minvalid": _WRITE,
}  # fmt: skip
_BACKUP: Final[_Held] = {
    _CLUSTER: (
        "appendOplogNote", "getParameter", "listDatabases", "serverStatus", "setUserWriteBlockMode", "useUUID"
    ),
    "config.settings": ("find", "insert", "update"),
    _ANY_RESOURCE: ("collStats", "listCollections", "listIndexes", "listSearchIndexes"),
    _ALL: ("find",),
    _BUCKETS: ("find",),
    "config.": ("find",),
    "local.": ("find",),
    "local.replset.election": ("find",),
    "local.replset.minvalid": ("find",),
    ".system.js": ("find",),
    ".system.users": ("find",),
    ".system.profile": ("find",),
    "admin.system.backup_users": ("find",),
    "admin.system.roles": ("find",),
    "admin.system.version": ("find",),
}  # fmt: skip
_RESTORE: Final[_Held] = {
    _ALL: _RESTORED | _USER_ADMIN,
    ".system.js": _RESTORED,
    _ANY_RESOURCE: ("listCollections",),
    "config.": _RESTORED,
    _BUCKETS: _RESTORED,
    "local.system.replset": _RESTORED,
    "local.replset.election": _RESTORED,
    "local.replset.minvalid": _RESTORED,
    "local.": _RESTORED,
    "admin.tempusers": ("find",),
    "admin.temproles": ("find",),
    "admin.system.backup_users": _RESTORED,
    "admin.system.version": _RESTORED | {"find"},
    ".system.users": _RESTORED | _WRITE | {"find"},
    _CLUSTER: (
        "bypassWriteBlockingMode", "forceUUID", "getParameter", "setUserWriteBlockMode", "useUUID", "applyOps"
    ),
    "admin.system.roles": _INDEXED,
    ".system.views": ("dropCollection",),
}  # fmt: skip
_USER_ADMIN_ANY: Final[_Held] = {
    _ALL: _USER_ADMIN | {"listCachedAndActiveUsers"},
    "local.": _USER_ADMIN,
    "config.": _USER_ADMIN,
    _CLUSTER: ("authSchemaUpgrade", "invalidateUserCache", "listDatabases", "viewUser"),
    ".system.users": _READ,
    "admin.system.users": _READ | _INDEXED | {"dropIndex", "dropSearchIndex"},
    "admin.system.roles": _READ | _INDEXED | {"dropIndex", "dropSearchIndex"},
    "admin.system.version": _READ,
    "admin.system.backup_users": _READ,
}
_DATABASE_ADMIN_ANY: Final[_Held] = {
    _CLUSTER: ("listDatabases", "applyOps"),
    _ALL: _DATABASE_ADMIN,
    ".system.profile": _PROFILE,
    _BUCKETS: _DATABASE_ADMIN,
}


def _together(*roles: _Held) -> dict[str, frozenset[str]]:
    held: dict[str, frozenset[str]] = {}
    for resource, actions in itertools.chain.from_iterable(role.items() for role in roles):
        held[resource] = held.get(resource, frozenset()) | frozenset(actions)
    return held


def _everywhere(actions: frozenset[str]) -> _Held:
    return {_ALL: actions, _CLUSTER: ("listDatabases",), ".system.js": actions, _BUCKETS: actions}


_CLUSTER_ADMIN: Final = _together(
    _CLUSTER_MONITOR,
    _HOST_MANAGER,
    _CLUSTER_MANAGER,
    {_ANY_RESOURCE: ("exportCollection", "importCollection"), _ALL: ("dropDatabase",)},
)
_OF_ADMIN: Final[Mapping[str, _Held]] = {
    "backup": _BACKUP,
    "clusterAdmin": _CLUSTER_ADMIN,
    "clusterManager": _CLUSTER_MANAGER,
    "clusterMonitor": _CLUSTER_MONITOR,
    "dbAdminAnyDatabase": _DATABASE_ADMIN_ANY,
    "directShardOperations": {},
    "hostManager": _HOST_MANAGER,
    "readAnyDatabase": _everywhere(_READ),
    "readWriteAnyDatabase": _everywhere(_READ_WRITE),
    "restore": _RESTORE,
    "root": _together(
        _everywhere(_READ_WRITE),
        _DATABASE_ADMIN_ANY,
        _USER_ADMIN_ANY,
        _CLUSTER_ADMIN,
        _RESTORE,
        _BACKUP,
        {
            _ANY_RESOURCE: ("validate",),
            _CLUSTER: ("useTenant",),
            "config.system.preimages": ("find", "remove"),
        },
    ),
    "userAdminAnyDatabase": _USER_ADMIN_ANY,
    "__queryableBackup": {
        **_BACKUP,
        _CLUSTER: ("getParameter", "listDatabases", "useUUID"),
        "config.settings": ("find",),
    },
    "__system": {_ANY_RESOURCE: ("anyAction",)},
}
"""Further roles of the database admin."""


def builtin_roles(database: str) -> Iterator[str]:
    """The names of a database's built-in roles."""
    yield from _OF_DATABASES
    if database == "admin":
        yield from _OF_ADMIN


def is_builtin(name: str, database: str) -> bool:
    return name in _OF_DATABASES and bool(database) if database != "admin" else name in _ADMIN_NAMES


_ADMIN_NAMES: Final = frozenset((*_OF_DATABASES, *_OF_ADMIN))


@lru_cache(maxsize=1024)
def builtin_privileges(name: str, database: str) -> list[dict[str, Any]]:
    """What a built-in role allows; not to be changed."""
    if database == "admin" and name in _OF_ADMIN:
        return [_privilege(_resource(key), frozenset(held)) for key, held in _OF_ADMIN[name].items()]
    held_in = "" if name == "enableSharding" else database
    return [
        _privilege({"db": held_in, "collection": collection}, actions)
        for collection, actions in _OF_DATABASES.get(name, {}).items()
    ]


def together(held: Iterable[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """What several roles allow together: the actions on each resource."""
    allowed: list[dict[str, Any]] = []
    for privilege in itertools.chain.from_iterable(held):
        same = next((other for other in allowed if other["resource"] == privilege["resource"]), None)
        if same is None:
            allowed.append(dict(privilege))
        else:
            same["actions"] = sorted({*same["actions"], *privilege["actions"]}, key=_order)
    return allowed


def _resource(key: str) -> dict[str, Any]:
    if key in (_CLUSTER, _ANY_RESOURCE):
        return {key: True}
    if key == _BUCKETS:
        return {_BUCKETS: ""}
    database, _, collection = key.partition(".")
    return {"db": database, "collection": collection}


def _privilege(resource: Mapping[str, Any], actions: frozenset[str]) -> dict[str, Any]:
    return {"resource": resource, "actions": sorted(actions, key=_order)}


def _order(action: str) -> str:
    # The server's own order is by the alphabet but for dropSearchIndex, which it has before dropRole.
    return "dropIndexSearch" if action == "dropSearchIndex" else action
