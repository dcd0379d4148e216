"""Change users and roles: what the commands for them share.

The documents are written by ordinary commands, so the oplog has the entries of a real server. One command
at a time changes users or roles.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.builtin_roles import is_builtin
from tailrace.mongod.server.access.needs import Right
from tailrace.mongod.server.access.principals import Principal, principals, stored_principals
from tailrace.mongod.server.access.privileges import namespace
from tailrace.mongod.server.access.stored import ROLES, USERS, StoredAccess
from tailrace.mongod.server.dispatch.internal_calls import call

if TYPE_CHECKING:
    from tailrace.mongod.server.dispatch.context import Context

SCHEMA_VERSION: Final = 5
_INDEXES: Final = {USERS: ("user", "user_1_db_1"), ROLES: ("role", "role_1_db_1")}


@asynccontextmanager
async def changing(context: "Context") -> AsyncIterator[StoredAccess]:
    """Hold the users and roles for a change; afterwards the listeners are called."""
    access = context.node.access
    async with access.lock:
        try:
            yield access
        finally:
            access.changed()


async def insert(context: "Context", collection: str, document: Mapping[str, Any]) -> None:
    """Insert a user or role; the first one creates the collection with its index."""
    node = context.node.keeper
    if node.states.catalog.collection(f"admin.{collection}") is None:
        schema = {
            "q": {"_id": "authSchema"},
            "u": {"$set": {"currentVersion": SCHEMA_VERSION}},
            "upsert": True,
        }
        await call(node, {"update": "system.version", "updates": [schema]}, "admin")
        kind, name = _INDEXES[collection]
        index = {"key": {kind: 1, "db": 1}, "name": name, "unique": True}
        await call(node, {"createIndexes": collection, "indexes": [index]}, "admin")
    _check_written(await call(node, {"insert": collection, "documents": [document]}, "admin"))


async def update(
    context: "Context", collection: str, principal: Principal, change: Mapping[str, Any]
) -> bool:
    """Update a user or role; returns whether there is one."""
    statement = {"q": {"_id": principal.identity}, "u": change}
    reply = await call(context.node.keeper, {"update": collection, "updates": [statement]}, "admin")
    _check_written(reply)
    return bool(reply["n"])


async def delete(context: "Context", collection: str, query: Mapping[str, Any]) -> int:
    """Delete users or roles; returns their number."""
    statement = {"q": query, "limit": 0}
    reply = await call(context.node.keeper, {"delete": collection, "deletes": [statement]}, "admin")
    _check_written(reply)
    return int(reply["n"])


def _check_written(reply: Mapping[str, Any]) -> None:
    for error in reply.get("writeErrors", ()):
        raise CommandError(error["code"], error["errmsg"])


# -- roles in commands --------------------------------------------------------------------------------------


def given_roles(context: "Context", field: str = "roles") -> list[Principal]:
    """The roles that a field of a command names, each once."""
    given = context.command.get(field)
    found = principals(given if isinstance(given, list) else [], "role", context.database, strict=True)
    return list(dict.fromkeys(found))


def some_roles(context: "Context") -> list[Principal]:
    """The same, of a command that needs at least one."""
    roles = given_roles(context)
    if not roles:
        reason = f'{context.name} command requires a non-empty "roles" array'
        raise CommandError(ErrorCode.BadValue, reason)
    return roles


def check_roles_exist(access: StoredAccess, roles: Iterable[Principal], prefix: str = "") -> None:
    for role in roles:
        if not access.has_role(role):
            raise CommandError(ErrorCode.RoleNotFound, f"{prefix}Could not find role: {role}")


def granting(roles: Iterable[Principal]) -> Iterable[Right]:
    """The rights that are needed to grant roles."""
    return (Right(namespace(role.database), ("grantRole",)) for role in roles)


def revoking(roles: Iterable[Principal]) -> Iterable[Right]:
    """The rights that are needed to revoke roles."""
    return (Right(namespace(role.database), ("revokeRole",)) for role in roles)


def own_roles(document: Mapping[str, Any]) -> list[Principal]:
    """The roles of a stored user or role."""
    return stored_principals(document.get("roles"), "role")


def to_documents(roles: Iterable[Principal]) -> list[dict[str, str]]:
    return [role.to_document("role") for role in roles]


def changeable_role(access: StoredAccess, role: Principal) -> dict[str, Any]:
    """The document of a role that is no built-in one; raises if there is none."""
    if is_builtin(role.name, role.database):
        raise CommandError(ErrorCode.BadValue, f"{role} is a built-in role and cannot be modified")
    found = access.role(role)
    if found is None:
        raise CommandError(ErrorCode.RoleNotFound, f"Role {role} not found")
    return found


def existing_user(access: StoredAccess, user: Principal) -> dict[str, Any]:
    found = access.user(user)
    if found is None:
        reason = f'Could not find user "{user.name}" for db "{user.database}"'
        raise CommandError(ErrorCode.UserNotFound, reason)
    return found


def check_grantable(access: StoredAccess, role: Principal, granted: Iterable[Principal]) -> None:
    """Refuse to grant roles to a role: unknown ones, those of other databases, and cycles."""
    wanted = list(granted)
    for other in wanted:
        if other == role:
            raise CommandError(ErrorCode.InvalidRoleModification, f"Cannot grant role {role} to itself.")
        if role.database not in ("admin", other.database):
            reason = f"Roles on the '{role.database}' database cannot be granted roles from other databases"
            raise CommandError(ErrorCode.InvalidRoleModification, reason)
    check_roles_exist(access, wanted, f"Cannot grant roles to '{role}': ")
    if role in access.granted(wanted).roles:
        reason = f"Granting roles to {role} would introduce a cycle in the role graph"
        raise CommandError(ErrorCode.InvalidRoleModification, reason)
