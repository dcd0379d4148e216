"""`updateRole`: replace the privileges or the roles of a role."""

from typing import Any

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access import given_privileges as privileges
from tailrace.mongod.server.access.changing import (
    changing,
    check_grantable,
    given_roles,
    granting,
    to_documents,
    update,
)
from tailrace.mongod.server.access.needs import Rights, right
from tailrace.mongod.server.access.principals import Principal
from tailrace.mongod.server.access.privileges import ALL_DATABASES, namespace
from tailrace.mongod.server.access.restrictions import check_restrictions
from tailrace.mongod.server.access.stored import ROLES
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import command
from tailrace.mongod.server.dispatch.kinds import ARRAY, TEXT, is_given


async def run(context: Context) -> Reply:
    arguments = context.arguments()
    role = Principal(arguments.text(context.name), context.database)
    restrictions = arguments.array("authenticationRestrictions", None)
    arguments.ignore("roles", "privileges")
    arguments.finish()
    has_roles, has_privileges = (is_given(context.command.get(name)) for name in ("roles", "privileges"))
    if not has_roles and not has_privileges and restrictions is None:
        reason = "Must specify at least one field to update in updateRole"
        raise CommandError(ErrorCode.BadValue, reason)
    wanted: dict[str, Any] = {}
    if has_privileges:
        held = privileges.given_privileges(context)
        wanted["privileges"] = privileges.to_documents(held)
    if has_roles:
        wanted["roles"] = to_documents(given_roles(context))
    if restrictions is not None:
        check_restrictions(restrictions)
        wanted["authenticationRestrictions"] = restrictions
    async with changing(context) as access:
        if access.role(role) is None:
            raise CommandError(ErrorCode.RoleNotFound, f"Could not find role: {role}")
        if has_roles:
            check_grantable(access, role, given_roles(context))
        if has_privileges:
            privileges.check_place(role, held)
        await update(context, ROLES, role, {"$set": wanted})
    return {}


def _needs(context: Context) -> Rights:
    # Which privileges are revoked is not known, so the user must be allowed to revoke any.
    yield right(ALL_DATABASES, "revokeRole")
    if context.command.get("authenticationRestrictions") is not None:
        yield right(namespace(context.database), "setAuthenticationRestriction")
    yield from granting(given_roles(context))
    yield from privileges.granting(privileges.given_privileges(context))


_FIELDS = command(
    {"updateRole": TEXT, "privileges": ARRAY, "roles": ARRAY, "authenticationRestrictions": ARRAY}
)

COMMAND = Command(
    "updateRole",
    run,
    needs=_needs,
    help="Change a role.",
    fields=_FIELDS,
    is_write=True,
    same_on_router=True,
)
