"""`lockInfo`: show the locks of running operations; there are none besides the writer's queue."""

from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext


async def run(_context: MemberContext) -> Reply:
    return {"lockInfo": []}


COMMAND = Command(
    "lockInfo",
    run,
    needs=on_cluster("serverStatus"),
    help="Show the locks of running operations.",
    admin_only=True,
)
