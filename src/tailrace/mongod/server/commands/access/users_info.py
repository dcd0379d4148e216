"""`usersInfo`: describe users."""

from collections.abc import Mapping
from typing import Any

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.login import mechanisms_of
from tailrace.mongod.server.access.needs import Rights, right
from tailrace.mongod.server.access.principals import Principal, is_all, principals
from tailrace.mongod.server.access.privileges import CLUSTER, namespace
from tailrace.mongod.server.access.stored import StoredAccess
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.query.match import compile_match

_ALWAYS = ("_id", "userId", "user", "db")


async def run(context: Context) -> Reply:
    arguments = context.arguments()
    wanted = arguments.value(context.name, None)
    shows_privileges = arguments.boolean("showPrivileges", False)
    shows_restrictions = arguments.boolean("showAuthenticationRestrictions", False)
    shows_credentials = arguments.boolean("showCredentials", False)
    shows_data = arguments.boolean("showCustomData", True)
    filtered = arguments.document("filter", None)
    arguments.finish()
    names = _names(wanted, context.database)
    has_details = shows_privileges or shows_restrictions
    if has_details and (filtered is not None or names is None):
        reason = "Privilege or restriction details require exact-match usersInfo queries"
        raise CommandError(ErrorCode.IllegalOperation, reason)
    matches = compile_match(filtered or {})
    access = context.node.access
    found = []
    for user in _found(access, wanted, names, context.database):
        shown: dict[str, Any] = {name: user[name] for name in _ALWAYS if name in user}
        mechanisms = {"mechanisms": mechanisms_of(user)}
        if has_details:
            shown |= mechanisms
        if shows_credentials:
            shown["credentials"] = user.get("credentials", {})
        if shows_restrictions and user.get("authenticationRestrictions"):
            shown["authenticationRestrictions"] = user["authenticationRestrictions"]
        if shows_data and "customData" in user:
            shown["customData"] = user["customData"]
        shown["roles"] = user.get("roles", [])
        shown |= _details(access, user) if has_details else mechanisms
        if matches(shown):
            found.append(shown)
    return {"users": found}


def _details(access: StoredAccess, user: Mapping[str, Any]) -> dict[str, Any]:
    granted = access.granted_to(user)
    return {
        "inheritedRoles": [role.to_document("role") for role in granted.roles],
        "inheritedPrivileges": granted.privileges,
        "inheritedAuthenticationRestrictions": granted.restrictions,
    }


def _found(
    access: StoredAccess, wanted: Any, names: list[Principal] | None, database: str
) -> list[dict[str, Any]]:
    if names is not None:
        users = [access.user(name) for name in dict.fromkeys(names)]
        found = [user for user in users if user is not None]
    else:
        found = [user for user in access.users() if isinstance(wanted, dict) or user["db"] == database]
    return sorted(found, key=lambda user: (user["user"], user["db"]))


def _names(wanted: Any, database: str) -> list[Principal] | None:
    """The users that are named; None for all of one or of all databases. Refuse what names no users."""
    if is_all(wanted) or _is_everywhere(wanted):
        return None
    named = principals(wanted, "user", database, strict=True)
    if not named:
        raise CommandError(ErrorCode.BadValue, "$and/$or/$nor must be a nonempty array")
    return named


def _is_everywhere(wanted: Any) -> bool:
    return isinstance(wanted, dict) and list(wanted) == ["forAllDBs"] and bool(wanted["forAllDBs"])


def _needs(context: Context) -> Rights:
    """Nothing to see oneself."""
    wanted = context.command.get(context.name)
    if is_all(wanted):
        yield right(namespace(context.database), "viewUser")
    elif _is_everywhere(wanted):
        yield right(CLUSTER, "viewUser")
    else:
        own = None if context.client.user is None else context.client.user.principal
        for user in principals(wanted, "user", context.database, strict=True):
            if user != own:
                yield right(namespace(user.database), "viewUser")


COMMAND = Command("usersInfo", run, needs=_needs, help="Describe users.", same_on_router=True)
