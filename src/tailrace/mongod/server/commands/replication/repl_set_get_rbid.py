"""`replSetGetRBID`: show how often this member has rolled back, counted from one."""

from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext


async def run(_context: MemberContext) -> Reply:
    """Members share one store, so nothing is ever rolled back."""
    return {"rbid": 1}


COMMAND = Command(
    "replSetGetRBID", run, needs=on_cluster("internal"), help="Show the number of rollbacks.", admin_only=True
)
