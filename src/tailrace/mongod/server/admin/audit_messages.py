"""What the audit log says about commands: the names and details that MongoDB documents.

A command that is not here is not audited, unless it is refused.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tailrace.bson.values import is_string

if TYPE_CHECKING:
    from tailrace.mongod.server.dispatch.context import Context

Message: TypeAlias = tuple[str, Mapping[str, Any]]
Messages: TypeAlias = Callable[["Context"], Iterable[Message]]


def _chosen(context: "Context", *fields: str) -> dict[str, Any]:
    return {name: context.command[name] for name in fields if name in context.command}


def _user(*fields: str) -> Messages:
    """A change of one user."""
    return lambda context: [
        (
            context.entry.name,
            {"user": context.command.get(context.name), "db": context.database, **_chosen(context, *fields)},
        )
    ]


def _role(*fields: str) -> Messages:
    """A change of one role."""
    return lambda context: [
        (
            context.entry.name,
            {"role": context.command.get(context.name), "db": context.database, **_chosen(context, *fields)},
        )
    ]


def _updated_user(context: "Context") -> Iterable[Message]:
    [(kind, param)] = _user("roles", "authenticationRestrictions")(context)
    yield kind, {**param, "passwordChanged": "pwd" in context.command}


def _of_database(context: "Context") -> Iterable[Message]:
    yield context.entry.name, {"db": context.database}


def _of_collection(kind: str) -> Messages:
    return lambda context: [(kind, {"ns": context.namespace})]


def _created_indexes(context: "Context") -> Iterable[Message]:
    indexes = context.command.get("indexes")
    for index in indexes if isinstance(indexes, list) else ():
        if isinstance(index, dict):
            yield (
                "createIndex",
                {"ns": context.namespace, "indexName": index.get("name"), "indexSpec": index},
            )


def _dropped_indexes(context: "Context") -> Iterable[Message]:
    which = context.command.get("index")
    for index in which if isinstance(which, list) else [which]:
        yield "dropIndex", {"ns": context.namespace, "indexName": index}


def _renamed(context: "Context") -> Iterable[Message]:
    yield context.entry.name, {"old": context.command.get(context.name), "new": context.command.get("to")}


def _by_full_name(*fields: str) -> Messages:
    """A change of what the first field names with its database."""
    return lambda context: [
        (context.entry.name, {"ns": context.command.get(context.name), **_chosen(context, *fields)})
    ]


def _shard(context: "Context") -> Iterable[Message]:
    named = context.command.get(context.name)
    yield context.entry.name, {"shard": named if is_string(named) else None}


def _dropped_database(context: "Context") -> Iterable[Message]:
    yield context.entry.name, {"ns": context.database}


def _parameter(context: "Context") -> Iterable[Message]:
    yield context.entry.name, {"requested": context.command.get(context.name)}


def _bare(context: "Context") -> Iterable[Message]:
    yield context.entry.name, {}


MESSAGES: Final[Mapping[str, Messages]] = {
    "createUser": _user("roles", "authenticationRestrictions"),
    "updateUser": _updated_user,
    "dropUser": _user(),
    "dropAllUsersFromDatabase": _of_database,
    "grantRolesToUser": _user("roles"),
    "revokeRolesFromUser": _user("roles"),
    "createRole": _role("roles", "privileges", "authenticationRestrictions"),
    "updateRole": _role("roles", "privileges", "authenticationRestrictions"),
    "dropRole": _role(),
    "dropAllRolesFromDatabase": _of_database,
    "grantRolesToRole": _role("roles"),
    "revokeRolesFromRole": _role("roles"),
    "grantPrivilegesToRole": _role("privileges"),
    "revokePrivilegesFromRole": _role("privileges"),
    "create": _of_collection("createCollection"),
    "drop": _of_collection("dropCollection"),
    "dropDatabase": _dropped_database,
    "createIndexes": _created_indexes,
    "dropIndexes": _dropped_indexes,
    "renameCollection": _renamed,
    "enableSharding": _by_full_name(),
    "shardCollection": _by_full_name("key", "unique"),
    "refineCollectionShardKey": _by_full_name("key"),
    "addShard": _shard,
    "removeShard": _shard,
    "setClusterParameter": _parameter,
    "shutdown": _bare,
}
