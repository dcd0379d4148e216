"""`whatsmyuri`: show the client's address."""

from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
    context.arguments().finish()
    return {"you": context.client.address}


COMMAND = Command(
    "whatsmyuri", run, help="Show the address of this connection's client.", same_on_router=True
)
