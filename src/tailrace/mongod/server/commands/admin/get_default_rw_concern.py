"""`getDefaultRWConcern`: show the default read and write concern."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
    arguments = context.arguments()
    arguments.boolean("inMemory", False)
    arguments.finish()
    if not context.node.is_replicated:
        reason = "'getDefaultRWConcern' is not supported on standalone nodes."
        raise CommandError(ErrorCode.CommandNotSupported, reason)
    return context.node.default_concerns.describe(context.node.wall.milliseconds())


COMMAND = Command(
    "getDefaultRWConcern", run, help="Show default concerns.", admin_only=True, same_on_router=True
)
