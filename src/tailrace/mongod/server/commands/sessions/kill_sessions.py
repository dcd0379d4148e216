"""`killSessions`: kill sessions."""

from tailrace.mongod.server.access.needs import LOGGED_IN
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import SESSION_ID, old_command
from tailrace.mongod.server.dispatch.kinds import array_of, struct
from tailrace.mongod.server.sessions.session_ids import kill_session, session_ids


async def run(context: Context) -> Reply:
    """Without ids all sessions are killed."""
    named = session_ids(context) or [session.lsid for session in context.node.sessions]
    for lsid in named:
        kill_session(context, lsid)
    return {}


_FIELDS = old_command({"killSessions": array_of(struct(SESSION_ID))}, required=("killSessions",))

COMMAND = Command(
    "killSessions",
    run,
    needs=LOGGED_IN,
    help="Kill logical sessions.",
    fields=_FIELDS,
    ignores_transactions=True,
    same_on_router=True,
)
