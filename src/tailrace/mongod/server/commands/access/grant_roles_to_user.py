"""`grantRolesToUser`: grant roles to a user."""

from tailrace.mongod.server.access.changing import (
    changing,
    check_roles_exist,
    existing_user,
    given_roles,
    granting,
    own_roles,
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
        wanted = list(dict.fromkeys([*own_roles(found), *roles]))
        await update(context, USERS, user, {"$set": {"roles": to_documents(wanted)}})
    return {}


def _needs(context: Context) -> Rights:
    return granting(given_roles(context))


_FIELDS = command({"grantRolesToUser": TEXT, "roles": ARRAY}, required=("roles",))

COMMAND = Command(
    "grantRolesToUser",
    run,
    needs=_needs,
    help="Grant roles to a user.",
    fields=_FIELDS,
    is_write=True,
    same_on_router=True,
)
