"""`setDefaultRWConcern`: set the default read and write concern."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext


async def run(context: MemberContext) -> Reply:
    """Store the given defaults; the reply has all of them."""
    arguments = context.arguments()
    read = arguments.document("defaultReadConcern", None)
    write = arguments.document("defaultWriteConcern", None)
    arguments.finish()
    server = context.node
    if not server.is_replicated:
        reason = "'setDefaultRWConcern' is not supported on standalone nodes."
        raise CommandError(ErrorCode.CommandNotSupported, reason)
    if read is None and write is None:
        reason = 'At least one of the "defaultReadConcern" or "defaultWriteConcern" fields must be present'
        raise CommandError(ErrorCode.BadValue, reason)
    now = server.wall.milliseconds()
    await server.default_concerns.set(server.store, read, write, now)
    return server.default_concerns.describe(now)


COMMAND = Command("setDefaultRWConcern", run, help="Set default concerns.", admin_only=True, is_write=True)
