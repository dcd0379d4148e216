"""`startSession`: start a logical session."""

from tailrace.bson.documents import decode
from tailrace.mongod.server.access.needs import LOGGED_IN
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import old_command
from tailrace.mongod.server.sessions.session_ids import own_digest
from tailrace.mongod.server.sessions.sessions import new_session_id


async def run(context: Context) -> Reply:
    context.arguments().finish()
    sessions = context.node.sessions
    session = sessions.use(new_session_id(own_digest(context)))
    return {"id": {"id": decode(session.lsid)["id"]}, "timeoutMinutes": sessions.timeout_minutes}


_FIELDS = old_command({})

COMMAND = Command(
    "startSession", run, needs=LOGGED_IN, help="Start a logical session.", fields=_FIELDS, same_on_router=True
)
