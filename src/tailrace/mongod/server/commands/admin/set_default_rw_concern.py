"""`setDefaultRWConcern`: set the default read and write concern."""

from dataclasses import replace

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.concerns import WriteConcern
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.dispatch.fields import command
from tailrace.mongod.server.dispatch.kinds import OBJECT


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
    # The defaults from before apply to this write itself, and it fails if they cannot be satisfied.
    concern, default = context.write_concern or WriteConcern(), server.default_concerns.write_concern
    concern = concern if default is None else concern.with_default(default)
    context.write_concern = replace(concern, w=1, gives_w=True)
    await server.default_concerns.set(server.store, read, write, now)
    failure = concern.failure(len(server.members))
    if failure is not None:
        raise CommandError(failure["code"], failure["errmsg"])
    return server.default_concerns.describe(now)


_FIELDS = command({"defaultReadConcern": OBJECT, "defaultWriteConcern": OBJECT})

COMMAND = Command(
    "setDefaultRWConcern",
    run,
    needs=on_cluster("setDefaultRWConcern"),
    help="Set default concerns.",
    fields=_FIELDS,
    admin_only=True,
    is_write=True,
)
