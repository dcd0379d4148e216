"""`ping`: check that the server answers."""

from tailrace.mongod.server.access.needs import OPEN
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import command


async def run(context: Context) -> Reply:
    context.arguments().finish()
    return {}


_FIELDS = command({})

COMMAND = Command(
    "ping",
    run,
    needs=OPEN,
    help="Check that the server answers.",
    fields=_FIELDS,
    has_no_session=True,
    is_always_allowed=True,
    same_on_router=True,
)
