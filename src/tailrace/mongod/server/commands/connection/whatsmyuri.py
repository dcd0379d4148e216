"""`whatsmyuri`: show the client's address."""

from tailrace.mongod.server.access.needs import OPEN
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import old_command


async def run(context: Context) -> Reply:
    return {"you": context.client.address}


_FIELDS = old_command({})

COMMAND = Command(
    "whatsmyuri",
    run,
    needs=OPEN,
    help="Show the address of this connection's client.",
    fields=_FIELDS,
    has_no_session=True,
    same_on_router=True,
)
