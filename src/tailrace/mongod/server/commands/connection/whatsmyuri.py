"""`whatsmyuri`: the address the client comes from."""

from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
    """Host and port of the client, as this server sees them."""
    context.arguments().finish()
    return {"you": context.client.address}


COMMAND = Command(
    "whatsmyuri", run, help="Show the address of this connection's client.", same_on_router=True
)
