"""The built-in roles, as rolesInfo shows them on a real 6.0.27.

Privileges are there for the roles of single databases and of all databases. Those of the roles that
administer clusters are not: nothing here obeys them.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
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

_OF_CLUSTER: Final = (
    "backup", "clusterAdmin", "clusterManager", "clusterMonitor", "dbAdminAnyDatabase",
    "directShardOperations", "hostManager", "readAnyDatabase", "readWriteAnyDatabase", "restore", "root",
    "userAdminAnyDatabase", "__queryableBackup", "__system",
)  # fmt: skip
"""Further roles of the database admin."""

_OF_ALL_DATABASES: Final = {"readAnyDatabase": "read", "readWriteAnyDatabase": "readWrite"}


def builtin_roles(database: str) -> Iterator[str]:
    """The names of a database's built-in roles."""
    yield from _OF_DATABASES
    if database == "admin":
        yield from _OF_CLUSTER


def is_builtin(name: str, database: str) -> bool:
    return bool(database) and name in builtin_roles(database)


def privileges(name: str, database: str) -> list[dict[str, Any]]:
    """What a built-in role allows."""
    if database == "admin" and name in _OF_ALL_DATABASES:
        actions = _OF_DATABASES[_OF_ALL_DATABASES[name]][_COLLECTIONS]
        return [
            _privilege({"db": "", "collection": ""}, actions),
            _privilege({"cluster": True}, frozenset({"listDatabases"})),
            _privilege({"db": "", "collection": _CODE}, actions),
            _privilege({"system_buckets": ""}, actions),
        ]
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
            allowed.append(privilege)
        else:
            same["actions"] = sorted({*same["actions"], *privilege["actions"]}, key=_order)
    return allowed


def _privilege(resource: Mapping[str, Any], actions: frozenset[str]) -> dict[str, Any]:
    return {"resource": resource, "actions": sorted(actions, key=_order)}


def _order(action: str) -> str:
    # The server's own order is by the alphabet but for dropSearchIndex, which it has before dropRole.
    return "dropIndexSearch" if action == "dropSearchIndex" else action
