"""`createRole`: create a role with privileges and other roles."""

from typing import Any

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access import given_privileges as privileges
from tailrace.mongod.server.access.builtin_roles import is_builtin
from tailrace.mongod.server.access.changing import (
    changing,
    check_grantable,
    given_roles,
    granting,
    insert,
    to_documents,
)
from tailrace.mongod.server.access.needs import Rights, right
from tailrace.mongod.server.access.passwords import EXTERNAL
from tailrace.mongod.server.access.principals import Principal
from tailrace.mongod.server.access.privileges import namespace
from tailrace.mongod.server.access.restrictions import check_restrictions
from tailrace.mongod.server.access.stored import ROLES
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import command
from tailrace.mongod.server.dispatch.kinds import ARRAY, TEXT

_EXISTS = 51002


async def run(context: Context) -> Reply:
    arguments = context.arguments()
    role = Principal(arguments.text(context.name), context.database)
    restrictions = arguments.array("authenticationRestrictions", None)
    arguments.ignore("roles", "privileges")
    arguments.finish()
    _check_name(role)
    held, roles = privileges.given_privileges(context), given_roles(context)
    check_restrictions(restrictions or [])
    async with changing(context) as access:
        check_grantable(access, role, roles)
        privileges.check_place(role, held)
        if access.role(role) is not None:
            raise CommandError(_EXISTS, f'Role "{role}" already exists')
        document: dict[str, Any] = {
            "_id": role.identity,
            **role.to_document("role"),
            "privileges": privileges.to_documents(held),
            "roles": to_documents(roles),
        }
        if restrictions:
            document["authenticationRestrictions"] = restrictions
        await insert(context, ROLES, document)
    return {}


def _check_name(role: Principal) -> None:
    if not role.name:
        raise CommandError(ErrorCode.BadValue, "Role name must be non-empty")
    if role.database in ("local", EXTERNAL):
        raise CommandError(ErrorCode.BadValue, f"Cannot create roles in the {role.database} database")
    if is_builtin(role.name, role.database):
        reason = "Cannot create roles with the same name as a built-in role"
        raise CommandError(ErrorCode.BadValue, reason)


def _needs(context: Context) -> Rights:
    own = namespace(context.database)
    yield right(own, "createRole")
    if context.command.get("authenticationRestrictions"):
        yield right(own, "setAuthenticationRestriction")
    yield from granting(given_roles(context))
    yield from privileges.granting(privileges.given_privileges(context))


_FIELDS = command(
    {"createRole": TEXT, "privileges": ARRAY, "roles": ARRAY, "authenticationRestrictions": ARRAY},
    required=("privileges", "roles"),
)

COMMAND = Command(
    "createRole",
    run,
    needs=_needs,
    help="Create a role.",
    fields=_FIELDS,
    is_write=True,
    same_on_router=True,
)
