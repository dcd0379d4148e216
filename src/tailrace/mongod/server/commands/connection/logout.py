"""`logout`: nobody is logged in, and still nobody is behind this."""

from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
    """Nothing to do."""
    context.arguments().finish()
    return {}


COMMAND = Command("logout", run, help="End the authentication of this connection.", same_on_router=True)
