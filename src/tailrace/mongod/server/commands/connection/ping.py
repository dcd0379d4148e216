"""`ping`: check that the server answers."""

from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
    context.arguments().finish()
    return {}


COMMAND = Command(
    "ping", run, help="Check that the server answers.", is_always_allowed=True, same_on_router=True
)
