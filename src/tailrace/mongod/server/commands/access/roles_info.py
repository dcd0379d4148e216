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

_ABOUT_PRIVILEGES: Final[tuple[str, ...]] = ("privileges", "inheritedPrivileges")
_ABOUT_RESTRICTIONS: Final[tuple[str, ...]] = (
    "authenticationRestrictions",
    "inheritedAuthenticationRestrictions",
)
_INHERITED: Final = "inheritedRoles inheritedPrivileges inheritedAuthenticationRestrictions"
# The orders of the fields, as a real server has them.
_NAMED_STORED: Final = f"_id role db privileges roles authenticationRestrictions {_INHERITED} isBuiltin"
_NAMED_BUILTIN: Final = f"db role roles privileges authenticationRestrictions {_INHERITED} isBuiltin"
_ALL_STORED: Final = f"_id role db privileges roles authenticationRestrictions isBuiltin {_INHERITED}"
_ALL_BUILTIN: Final = (
    "role db isBuiltin roles inheritedRoles privileges inheritedPrivileges authenticationRestrictions "
    "inheritedAuthenticationRestrictions"
)


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
        stored = stored_principals(access.roles(), "role")
        builtin = [Principal(name, context.database) for name in builtin_roles(context.database)]
        roles = [*(builtin if shows_builtin else ()), *(r for r in stored if r.database == context.database)]
        orders = (_ALL_BUILTIN, _ALL_STORED)
    else:
        roles = [
            role
            for role in principals(wanted, "role", context.database, strict=False)
            if shows_privileges == _FRAGMENT or access.has_role(role)
        ]
        if shows_privileges == _FRAGMENT:
            return {"userFragment": _fragment(access, roles)}
        orders = (_NAMED_BUILTIN, _NAMED_STORED)
    hidden = () if shows_privileges else _ABOUT_PRIVILEGES
    hidden += () if shows_restrictions else _ABOUT_RESTRICTIONS
    found = []
    for role in roles:
        described = _described(access, role)
        order = orders[0] if described["isBuiltin"] else orders[1]
        found.append({name: described[name] for name in order.split() if name not in hidden})
    return {"roles": found}


def _described(access: StoredAccess, role: Principal) -> Details:
    """All that can be shown of a role."""
    document = access.role(role)
    is_builtin = document is None
    if document is None:
        document = {"privileges": builtin_privileges(role.name, role.database)}
    own, roles = document.get("privileges", []), own_roles(document)
    addresses = document.get("authenticationRestrictions", [])
    granted = access.granted(roles)
    return {
        "_id": role.identity,
        **role.to_document("role"),
        "privileges": own,
        "roles": [other.to_document("role") for other in roles],
        "authenticationRestrictions": addresses,
        "inheritedRoles": [other.to_document("role") for other in granted.roles],
        "inheritedPrivileges": [*own, *granted.privileges],
        "inheritedAuthenticationRestrictions": [*addresses, *granted.restrictions],
        "isBuiltin": is_builtin,
    }


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
        "inheritedRoles": [role.to_document("role") for role in dict.fromkeys([*roles, *granted.roles])],
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
