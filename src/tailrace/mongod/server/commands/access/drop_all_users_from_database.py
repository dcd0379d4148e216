"""`dropAllUsersFromDatabase`: remove all users of a database."""

from tailrace.mongod.server.access.changing import changing, delete
from tailrace.mongod.server.access.needs import on_database
from tailrace.mongod.server.access.stored import USERS
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import command
from tailrace.mongod.server.dispatch.kinds import ANY


async def run(context: Context) -> Reply:
    context.arguments().finish()
    async with changing(context):
        return {"n": await delete(context, USERS, {"db": context.database})}


_FIELDS = command({"dropAllUsersFromDatabase": ANY})

COMMAND = Command(
    "dropAllUsersFromDatabase",
    run,
    needs=on_database("dropUser"),
    help="Remove all users of a database.",
    fields=_FIELDS,
    is_write=True,
    same_on_router=True,
)
