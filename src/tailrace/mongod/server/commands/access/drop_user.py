"""`dropUser`: remove a user."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.changing import changing, delete
from tailrace.mongod.server.access.needs import on_database
from tailrace.mongod.server.access.principals import Principal
from tailrace.mongod.server.access.stored import USERS
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import command
from tailrace.mongod.server.dispatch.kinds import TEXT


async def run(context: Context) -> Reply:
    """Connections of the user are logged out, and the user's cursors end."""
    arguments = context.arguments()
    user = Principal(arguments.text(context.name), context.database)
    arguments.finish()
    async with changing(context):
        if not await delete(context, USERS, {"_id": user.identity}):
            raise CommandError(ErrorCode.UserNotFound, f"User '{user}' not found")
    return {}


_FIELDS = command({"dropUser": TEXT})

COMMAND = Command(
    "dropUser",
    run,
    needs=on_database("dropUser"),
    help="Remove a user.",
    fields=_FIELDS,
    is_write=True,
    same_on_router=True,
)
