"""`revokeRolesFromUser`: take roles away from a user."""

from tailrace.mongod.server.access.changing import (
    changing,
    check_roles_exist,
    existing_user,
    given_roles,
    own_roles,
    revoking,
    some_roles,
    to_documents,
    update,
)
from tailrace.mongod.server.access.needs import Rights
from tailrace.mongod.server.access.principals import Principal
from tailrace.mongod.server.access.stored import USERS
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import command
from tailrace.mongod.server.dispatch.kinds import ARRAY, TEXT


async def run(context: Context) -> Reply:
    arguments = context.arguments()
    user = Principal(arguments.text(context.name), context.database)
    arguments.ignore("roles")
    arguments.finish()
    roles = some_roles(context)
    async with changing(context) as access:
        found = existing_user(access, user)
        check_roles_exist(access, roles)
        wanted = [role for role in own_roles(found) if role not in roles]
        await update(context, USERS, user, {"$set": {"roles": to_documents(wanted)}})
    return {}


def _needs(context: Context) -> Rights:
    return revoking(given_roles(context))


_FIELDS = command({"revokeRolesFromUser": TEXT, "roles": ARRAY}, required=("roles",))

COMMAND = Command(
    "revokeRolesFromUser",
    run,
    needs=_needs,
    help="Revoke roles from a user.",
    fields=_FIELDS,
    is_write=True,
    same_on_router=True,
)
