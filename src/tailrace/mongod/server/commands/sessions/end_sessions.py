"""`endSessions`: end sessions that a client will not use again."""

from tailrace.mongod.server.access.needs import LOGGED_IN
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import SESSION_ID, command
from tailrace.mongod.server.dispatch.kinds import array_of, struct
from tailrace.mongod.server.sessions.session_ids import session_ids


async def run(context: Context) -> Reply:
    """Unknown ids are ignored."""
    for lsid in session_ids(context):
        context.node.sessions.end(lsid)
    return {}


_FIELDS = command({"endSessions": array_of(struct(SESSION_ID))}, required=("endSessions",))

COMMAND = Command(
    "endSessions",
    run,
    needs=LOGGED_IN,
    help="End logical sessions.",
    fields=_FIELDS,
    is_always_allowed=True,
    same_on_router=True,
)
