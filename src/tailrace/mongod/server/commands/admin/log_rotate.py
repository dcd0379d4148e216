"""`logRotate`: accepted and without effect; the log is a stream, and whoever reads it rotates it."""

from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
    """A line in the log, so that the moment can be found."""
    arguments = context.arguments()
    comment = arguments.value("comment", None)
    arguments.finish()
    context.node.log.info("CONTROL", "Log rotation requested", context.client.name, comment=comment)
    return {}


COMMAND = Command("logRotate", run, help="Mark the log.", admin_only=True, same_on_router=True)
