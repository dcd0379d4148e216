"""`connPoolSync`: close connections to other servers; there are none."""

from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(_context: Context) -> Reply:
    return {}


COMMAND = Command(
    "connPoolSync",
    run,
    needs=on_cluster("connPoolSync"),
    help="Close connections to other servers.",
    same_on_router=True,
)
