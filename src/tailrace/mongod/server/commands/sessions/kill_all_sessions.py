"""`killAllSessions`: kill all sessions, or those of some users."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.access.principals import Principal
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import Fields, old_command
from tailrace.mongod.server.dispatch.kinds import TEXT, array_of, is_given, struct
from tailrace.mongod.server.sessions.session_ids import kill_session


async def run(context: Context) -> Reply:
    """Naming users kills their sessions, naming none kills all."""
    arguments = context.arguments()
    given = [user for user in arguments.array(context.name) if is_given(user)]
    users = [Principal(user["user"], user["db"]) for user in given]
    for user in users:
        if context.node.access.user(user) is None:
            raise CommandError(ErrorCode.UserNotFound, f"Could not find user {user}")
    digests = [user.digest for user in users]
    for session in context.node.sessions:
        if not users or any(digest in session.lsid for digest in digests):
            kill_session(context, session.lsid)
    return {}


_USER = Fields({"user": TEXT, "db": TEXT}, required=("user", "db"))
_FIELDS = old_command({"killAllSessions": array_of(struct(_USER))}, required=("killAllSessions",))

COMMAND = Command(
    "killAllSessions",
    run,
    needs=on_cluster("killAnySession"),
    help="Kill all logical sessions.",
    fields=_FIELDS,
    ignores_transactions=True,
    admin_only=False,
    same_on_router=True,
)
