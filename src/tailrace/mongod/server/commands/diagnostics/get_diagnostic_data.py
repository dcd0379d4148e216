"""`getDiagnosticData`: show what the server recorded about itself, which is nothing."""

from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
    context.arguments().finish()
    return {"data": {}}


COMMAND = Command(
    "getDiagnosticData",
    run,
    needs=on_cluster("serverStatus", "replSetGetStatus"),
    help="Show recorded figures.",
    admin_only=True,
    same_on_router=True,
)
