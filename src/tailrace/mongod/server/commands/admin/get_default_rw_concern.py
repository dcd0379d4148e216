"""`getDefaultRWConcern`: show the default read and write concern."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import command
from tailrace.mongod.server.dispatch.kinds import FLAG


async def run(context: Context) -> Reply:
    arguments = context.arguments()
    in_memory = arguments.boolean("inMemory", False)
    arguments.finish()
    if not context.node.is_replicated:
        reason = "'getDefaultRWConcern' is not supported on standalone nodes."
        raise CommandError(ErrorCode.CommandNotSupported, reason)
    now = context.node.wall.milliseconds()
    return context.node.default_concerns.describe(now, in_memory=in_memory)


_FIELDS = command({"inMemory": FLAG})

COMMAND = Command(
    "getDefaultRWConcern",
    run,
    needs=on_cluster("getDefaultRWConcern"),
    help="Show default concerns.",
    fields=_FIELDS,
    admin_only=True,
    same_on_router=True,
)
