"""`rolesInfo`: describe roles; there are only the built-in ones."""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.admin.builtin_roles import builtin_roles, is_builtin, privileges, together
from tailrace.mongod.server.admin.principals import Principal, is_all, principals
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
    database = context.database
    if is_all(wanted):
        if shows_privileges == _FRAGMENT:
            reason = "Cannot get user fragment for all roles in a database"
            raise CommandError(ErrorCode.IllegalOperation, reason)
        names = builtin_roles(database) if shows_builtin else ()
        return {
            "roles": [
                {"role": name, "db": database, "isBuiltin": True, "roles": [], "inheritedRoles": []}
                | _privileges(Principal(name, database), shows_privileges)
                | _inherited_privileges(Principal(name, database), shows_privileges)
                | ({"authenticationRestrictions": []} if shows_restrictions else {})
                | ({"inheritedAuthenticationRestrictions": []} if shows_restrictions else {})
                for name in names
            ]
        }
    named = principals(wanted, "role", database, strict=False)
    if shows_privileges == _FRAGMENT:
        return {"userFragment": _fragment(named)}
    return {
        "roles": [
            {"db": role.database, "role": role.name, "roles": []}
            | _privileges(role, shows_privileges)
            | ({"authenticationRestrictions": []} if shows_restrictions else {})
            | {"inheritedRoles": []}
            | _inherited_privileges(role, shows_privileges)
            | ({"inheritedAuthenticationRestrictions": []} if shows_restrictions else {})
            | {"isBuiltin": True}
            for role in named
            if is_builtin(role.name, role.database)
        ]
    }


def _shown_privileges(arguments: Arguments) -> bool | str:
    value = arguments.value("showPrivileges", False)
    if not is_string(value):
        return arguments.boolean("showPrivileges", False)
    if value != _FRAGMENT:
        reason = f"'showPrivileges' should either be a boolean or the string '{_FRAGMENT}', given: {value!r}"
        raise CommandError(ErrorCode.BadValue, f"Failed to parse 'showPrivileges'. {reason}")
    return value


def _privileges(role: Principal, shown: bool | str) -> Details:
    return {"privileges": privileges(role.name, role.database)} if shown else {}


def _inherited_privileges(role: Principal, shown: bool | str) -> Details:
    return {"inheritedPrivileges": privileges(role.name, role.database)} if shown else {}


def _fragment(roles: Sequence[Principal]) -> Details:
    """The roles as parts of a user: what they allow together."""
    shown = [{"role": role.name, "db": role.database} for role in roles]
    allowed = together(privileges(role.name, role.database) for role in roles)
    return {"roles": shown, "inheritedRoles": shown, "inheritedPrivileges": allowed}


COMMAND = Command("rolesInfo", run, help="Describe roles.", same_on_router=True)
