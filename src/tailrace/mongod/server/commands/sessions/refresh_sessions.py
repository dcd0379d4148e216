"""`refreshSessions`: keep sessions alive."""

from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.sessions.session_ids import session_ids


async def run(context: Context) -> Reply:
    """Unknown sessions are created."""
    for lsid in session_ids(context):
        context.node.sessions.use(lsid)
    return {}


COMMAND = Command("refreshSessions", run, help="Keep logical sessions alive.", same_on_router=True)
