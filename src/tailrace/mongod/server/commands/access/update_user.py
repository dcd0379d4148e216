"""`updateUser`: change the password, the roles or other details of a user."""

from typing import Any

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.changing import (
    changing,
    check_roles_exist,
    given_roles,
    granting,
    to_documents,
    update,
)
from tailrace.mongod.server.access.login import mechanisms_of
from tailrace.mongod.server.access.needs import Rights, either, right
from tailrace.mongod.server.access.passwords import EXTERNAL, checked_mechanisms, credentials
from tailrace.mongod.server.access.principals import Principal
from tailrace.mongod.server.access.privileges import ALL_DATABASES, namespace
from tailrace.mongod.server.access.restrictions import check_restrictions
from tailrace.mongod.server.access.stored import USERS
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import command
from tailrace.mongod.server.dispatch.kinds import ARRAY, LOOSE_FLAG, OBJECT, TEXT, array_of, is_given

_CHANGES = ("pwd", "roles", "customData", "authenticationRestrictions", "mechanisms")


async def run(context: Context) -> Reply:
    arguments = context.arguments()
    user = Principal(arguments.text(context.name), context.database)
    password = arguments.text("pwd", None)
    is_digested = not arguments.boolean("digestPassword", True)
    mechanisms = arguments.array("mechanisms", None)
    custom = arguments.document("customData", None)
    restrictions = arguments.array("authenticationRestrictions", None)
    has_roles = is_given(context.command.get("roles"))
    arguments.ignore("roles")
    arguments.finish()
    if not any(is_given(context.command.get(name)) for name in _CHANGES):
        reason = "Must specify at least one field to update in updateUser"
        raise CommandError(ErrorCode.BadValue, reason)
    wanted: dict[str, Any] = {}
    removed: dict[str, Any] = {}
    if password is not None:
        if user.database == EXTERNAL:
            reason = f"Cannot set the password for users defined on the '{EXTERNAL}' database"
            raise CommandError(ErrorCode.BadValue, reason)
        chosen = checked_mechanisms(mechanisms)
        wanted["credentials"] = credentials(
            user.name, password, chosen, context.parameters, is_digested=is_digested
        )
    if custom is not None:
        wanted["customData"] = custom
    if restrictions is not None:
        check_restrictions(restrictions)
        (wanted if restrictions else removed)["authenticationRestrictions"] = restrictions or ""
    async with changing(context) as access:
        found = access.user(user)
        if has_roles:
            roles = given_roles(context)
            check_roles_exist(access, roles)
            wanted["roles"] = to_documents(roles)
        if found is None:
            raise CommandError(ErrorCode.UserNotFound, f"User {user} not found")
        if mechanisms is not None and password is None:
            present, kept = mechanisms_of(found), checked_mechanisms(mechanisms)
            if not set(kept) <= set(present):
                reason = "mechanisms field must be a subset of previously set mechanisms"
                raise CommandError(ErrorCode.BadValue, reason)
            removed |= {f"credentials.{name}": "" for name in present if name not in kept}
        change = {**({"$set": wanted} if wanted else {}), **({"$unset": removed} if removed else {})}
        if change:
            await update(context, USERS, user, change)
    return {}


def _needs(context: Context) -> Rights:
    """A user may have the right to change the own password and data only."""
    command, own = context.command, namespace(context.database)
    logged_in = context.client.user
    is_self = logged_in is not None and logged_in.principal == (command.get(context.name), context.database)
    for field, name in (("pwd", "Password"), ("customData", "CustomData")):
        if field in command:
            for_all = right(own, f"change{name}")
            yield either(for_all, right(own, f"changeOwn{name}")) if is_self else for_all
    if command.get("authenticationRestrictions") is not None:
        yield right(own, "setAuthenticationRestriction")
    if "roles" in command:
        # Which roles are revoked is not known, so the user must be allowed to revoke any.
        yield right(ALL_DATABASES, "revokeRole")
        yield from granting(given_roles(context))


_FIELDS = command(
    {
        "updateUser": TEXT, "pwd": TEXT, "roles": ARRAY, "customData": OBJECT, "digestPassword": LOOSE_FLAG,
        "authenticationRestrictions": ARRAY, "mechanisms": array_of(TEXT),
    }
)  # fmt: skip

COMMAND = Command(
    "updateUser",
    run,
    needs=_needs,
    help="Change a user.",
    fields=_FIELDS,
    is_write=True,
    same_on_router=True,
)
