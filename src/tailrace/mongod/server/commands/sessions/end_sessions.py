"""`endSessions`: end sessions that a client will not use again."""

from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.sessions.session_ids import session_ids


async def run(context: Context) -> Reply:
    """Unknown ids are ignored."""
    for lsid in session_ids(context):
        context.node.sessions.end(lsid)
    return {}


COMMAND = Command(
    "endSessions", run, help="End logical sessions.", is_always_allowed=True, same_on_router=True
)
