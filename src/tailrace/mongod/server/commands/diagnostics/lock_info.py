"""`lockInfo`: show the locks of running operations; there are none besides the writer's queue."""

from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext


async def run(_context: MemberContext) -> Reply:
    return {"lockInfo": []}


COMMAND = Command("lockInfo", run, help="Show the locks of running operations.", admin_only=True)
