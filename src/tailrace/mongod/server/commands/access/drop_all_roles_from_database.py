"""`dropAllRolesFromDatabase`: remove all roles of a database that are not built in."""

from tailrace.mongod.server.access.changing import changing, delete
from tailrace.mongod.server.access.dropping import revoke_everywhere
from tailrace.mongod.server.access.needs import on_database
from tailrace.mongod.server.access.principals import stored_principals
from tailrace.mongod.server.access.stored import ROLES
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import command
from tailrace.mongod.server.dispatch.kinds import ANY


async def run(context: Context) -> Reply:
    context.arguments().finish()
    async with changing(context) as access:
        own = {
            role for role in stored_principals(access.roles(), "role") if role.database == context.database
        }
        await revoke_everywhere(context, access, lambda other: other in own)
        return {"n": await delete(context, ROLES, {"db": context.database})}


_FIELDS = command({"dropAllRolesFromDatabase": ANY})

COMMAND = Command(
    "dropAllRolesFromDatabase",
    run,
    needs=on_database("dropRole"),
    help="Remove all roles of a database.",
    fields=_FIELDS,
    is_write=True,
    same_on_router=True,
)
