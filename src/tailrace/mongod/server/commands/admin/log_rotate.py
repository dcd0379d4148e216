"""`logRotate`: accepted without effect, because the log is a stream."""

from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
    """Write a line to the log, which marks the moment."""
    arguments = context.arguments()
    comment = arguments.value("comment", None)
    arguments.finish()
    context.node.log.info("CONTROL", "Log rotation requested", context.client.name, comment=comment)
    return {}


COMMAND = Command("logRotate", run, help="Mark the log.", admin_only=True, same_on_router=True)
