"""`whatsmyuri`: the address the client comes from."""

from tailrace.server.command import Command, Reply
from tailrace.server.context import Context


async def run(context: Context) -> Reply:
    """Host and port of the client, as this server sees them."""
    context.arguments().finish()
    return {"you": context.client.address}


COMMAND = Command("whatsmyuri", run, help="Show the address of this connection's client.")
