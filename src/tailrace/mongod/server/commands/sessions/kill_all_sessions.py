"""`killAllSessions`: kill all sessions, or those of some users."""

from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.sessions.session_ids import kill_session


async def run(context: Context) -> Reply:
    """Without authentication sessions have no users: naming users kills none, naming none kills all."""
    arguments = context.arguments()
    users = arguments.array(context.name)
    arguments.finish()
    for user in users:
        fields = Arguments(context.name, user if isinstance(user, dict) else {})
        if not isinstance(user, dict):
            raise arguments.wrong_type(context.name, user, "object")
        fields.text("user")
        fields.text("db")
        fields.finish()
    if not users:
        for session in context.node.sessions:
            kill_session(context, session.lsid)
    return {}


COMMAND = Command(
    "killAllSessions", run, help="Kill all logical sessions.", admin_only=False, same_on_router=True
)
