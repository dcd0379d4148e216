"""`killOp`: end an operation."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
    """Interrupt the operation if it is still running; the reply is the same if it is not."""
    arguments = context.arguments()
    operation_id = arguments.integer("op")
    arguments.finish()
    target = context.node.operations.get(operation_id)
    if target is not None:
        target.interrupt(CommandError(ErrorCode.Interrupted, "operation was interrupted"))
    context.node.log.info("COMMAND", "Operation killed", context.client.name, op=operation_id)
    return {"info": "attempting to kill op"}


COMMAND = Command("killOp", run, help="End an operation.", admin_only=True)
