"""`logout`: accepted without effect, because there is no authentication."""

from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import command


async def run(context: Context) -> Reply:
    context.arguments().finish()
    return {}


_FIELDS = command({})

COMMAND = Command(
    "logout", run, help="End the authentication of this connection.", fields=_FIELDS, same_on_router=True
)
