"""`logout`: accepted without effect, because there is no authentication."""

from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
    context.arguments().finish()
    return {}


COMMAND = Command("logout", run, help="End the authentication of this connection.", same_on_router=True)
