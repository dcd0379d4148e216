"""`startSession`: a new logical session."""

from tailrace.bsonio.documents import decode
from tailrace.server.command import Command, Reply
from tailrace.server.context import Context
from tailrace.server.sessions import new_session_id


async def run(context: Context) -> Reply:
    """Its id, and how long it lives without use."""
    context.arguments().finish()
    sessions = context.server.sessions
    session = sessions.use(new_session_id())
    return {"id": {"id": decode(session.lsid)["id"]}, "timeoutMinutes": sessions.timeout_minutes}


COMMAND = Command("startSession", run, help="Start a logical session.")
