"""`killAllSessionsByPattern`: kill sessions selected by id or user."""

from tailrace.bson.documents import decode
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import FULL_SESSION_ID, Fields, old_command
from tailrace.mongod.server.dispatch.kinds import ARRAY, DIGEST, array_of, is_given, struct
from tailrace.mongod.server.sessions.session_ids import kill_session
from tailrace.mongod.server.sessions.sessions import Session, parse_session_id


async def run(context: Context) -> Reply:
    """Without patterns all sessions are killed."""
    arguments = context.arguments()
    patterns = [pattern for pattern in arguments.array(context.name) if is_given(pattern)]
    checked = [_Pattern(pattern) for pattern in patterns]
    for session in context.node.sessions:
        if not checked or any(pattern.matches(session) for pattern in checked):
            kill_session(context, session.lsid)
    return {}


class _Pattern:
    def __init__(self, spec: dict[str, object]) -> None:
        fields = Arguments("killAllSessionsByPattern", spec)
        lsid = fields.value("lsid", None)
        self._lsid = None if lsid is None else parse_session_id(lsid)
        self._user = fields.value("uid", None)
        # There are no roles; routers send these fields anyway.
        fields.array("users", [])
        fields.array("roles", [])
        fields.finish()

    def matches(self, session: Session) -> bool:
        if self._lsid is not None and session.lsid != self._lsid:
            return False
        return self._user is None or decode(session.lsid)["uid"] == self._user


_PATTERN = Fields({"lsid": struct(FULL_SESSION_ID), "uid": DIGEST, "users": ARRAY, "roles": ARRAY})
_FIELDS = old_command(
    {"killAllSessionsByPattern": array_of(struct(_PATTERN))}, required=("killAllSessionsByPattern",)
)

COMMAND = Command(
    "killAllSessionsByPattern",
    run,
    needs=on_cluster("killAnySession"),
    help="Kill logical sessions by pattern.",
    fields=_FIELDS,
    ignores_transactions=True,
    same_on_router=True,
)
