"""`killSessions`: end what runs in sessions."""

from tailrace.server.command import Command, Reply
from tailrace.server.context import Context
from tailrace.server.session_ids import kill_session, session_ids


async def run(context: Context) -> Reply:
    """Kill the sessions named, or all if none is."""
    named = session_ids(context) or [session.lsid for session in context.server.sessions]
    for lsid in named:
        kill_session(context, lsid)
    return {}


COMMAND = Command("killSessions", run, help="Kill logical sessions.")
