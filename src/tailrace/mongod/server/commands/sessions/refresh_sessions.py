"""`refreshSessions`: keep sessions alive."""

from tailrace.mongod.server.access.needs import LOGGED_IN
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import SESSION_ID, command
from tailrace.mongod.server.dispatch.kinds import array_of, struct
from tailrace.mongod.server.sessions.session_ids import session_ids


async def run(context: Context) -> Reply:
    """Unknown sessions are created."""
    for lsid in session_ids(context):
        context.node.sessions.use(lsid)
    return {}


_FIELDS = command({"refreshSessions": array_of(struct(SESSION_ID))}, required=("refreshSessions",))

COMMAND = Command(
    "refreshSessions",
    run,
    needs=LOGGED_IN,
    help="Keep logical sessions alive.",
    fields=_FIELDS,
    same_on_router=True,
)
