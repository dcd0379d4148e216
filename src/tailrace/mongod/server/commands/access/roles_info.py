"""`rolesInfo`: describe roles."""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.builtin_roles import builtin_privileges, builtin_roles, together
from tailrace.mongod.server.access.changing import own_roles
from tailrace.mongod.server.access.needs import Rights, right
from tailrace.mongod.server.access.principals import Principal, is_all, principals, stored_principals
from tailrace.mongod.server.access.privileges import namespace
from tailrace.mongod.server.access.stored import StoredAccess
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context

_FRAGMENT: Final = "asUserFragment"

Details: TypeAlias = dict[str, Any]


async def run(context: Context) -> Reply:
    arguments = context.arguments()
    wanted = arguments.value(context.name, None)
    shows_privileges = _shown_privileges(arguments)
    shows_restrictions = arguments.boolean("showAuthenticationRestrictions", False)
    shows_builtin = arguments.boolean("showBuiltinRoles", False)
    arguments.finish()
    access = context.node.access
    if is_all(wanted):
        if shows_privileges == _FRAGMENT:
            reason = "Cannot get user fragment for all roles in a database"
            raise CommandError(ErrorCode.IllegalOperation, reason)
        roles = [
            role for role in stored_principals(access.roles(), "role") if role.database == context.database
        ]
        if shows_builtin:
            roles += [Principal(name, context.database) for name in builtin_roles(context.database)]
    else:
        roles = principals(wanted, "role", context.database, strict=False)
        if shows_privileges == _FRAGMENT:
            return {"userFragment": _fragment(access, roles)}
    return {
        "roles": [
            _described(access, role, shows_privileges=bool(shows_privileges), restrictions=shows_restrictions)
            for role in roles
            if access.has_role(role)
        ]
    }


def _described(
    access: StoredAccess, role: Principal, *, shows_privileges: bool, restrictions: bool
) -> Details:
    document = access.role(role)
    if document is None:
        document = {"privileges": builtin_privileges(role.name, role.database)}
    own, roles = document.get("privileges", []), own_roles(document)
    addresses = document.get("authenticationRestrictions", [])
    granted = access.granted(roles)
    identity = {"_id": document["_id"]} if "_id" in document else {}
    shown: Details = {**identity, "role": role.name, "db": role.database}
    if shows_privileges:
        shown["privileges"] = own
    shown |= {"roles": [other.to_document("role") for other in roles]}
    if restrictions:
        shown["authenticationRestrictions"] = addresses
    shown["inheritedRoles"] = [other.to_document("role") for other in granted.roles]
    if shows_privileges:
        shown["inheritedPrivileges"] = [*own, *granted.privileges]
    if restrictions:
        shown["inheritedAuthenticationRestrictions"] = [*addresses, *granted.restrictions]
    return shown | {"isBuiltin": not identity}


def _shown_privileges(arguments: Arguments) -> bool | str:
    value = arguments.value("showPrivileges", False)
    if not is_string(value):
        return arguments.boolean("showPrivileges", False)
    if value != _FRAGMENT:
        reason = f"'showPrivileges' should either be a boolean or the string '{_FRAGMENT}', given: {value!r}"
        raise CommandError(ErrorCode.BadValue, f"Failed to parse 'showPrivileges'. {reason}")
    return value


def _fragment(access: StoredAccess, roles: Sequence[Principal]) -> Details:
    """The roles as parts of a user: what they allow together."""
    granted = access.granted(roles)
    return {
        "roles": [role.to_document("role") for role in roles],
        "inheritedRoles": [role.to_document("role") for role in granted.roles],
        "inheritedPrivileges": together([granted.privileges]),
    }


def _needs(context: Context) -> Rights:
    """Nothing to see a role that one has."""
    wanted = context.command.get(context.name)
    if is_all(wanted):
        yield right(namespace(context.database), "viewRole")
        return
    own = [] if context.client.user is None else context.client.user.roles
    for role in principals(wanted, "role", context.database, strict=False):
        if role not in own:
            yield right(namespace(role.database), "viewRole")


COMMAND = Command("rolesInfo", run, needs=_needs, help="Describe roles.", same_on_router=True)
