"""`shutdown`: end the server; the client sees the connection close."""

from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.emulation.fail_command import CloseConnection


async def run(context: Context) -> Reply:
    """Begin to stop. There is no reply, as with a mongod."""
    arguments = context.arguments()
    arguments.boolean("force", False)
    arguments.integer("timeoutSecs", 15, minimum=0)
    arguments.finish()
    context.node.log.info("CONTROL", "Shutdown requested", context.client.name)
    context.node.stop()
    raise CloseConnection


COMMAND = Command(
    "shutdown",
    run,
    needs=on_cluster("shutdown"),
    help="End the server.",
    admin_only=True,
    same_on_router=True,
)
