"""Read lists of sessions from commands, and kill sessions."""

from typing import Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.authorization import may
from tailrace.mongod.server.access.needs import right
from tailrace.mongod.server.access.privileges import CLUSTER
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.kinds import is_given
from tailrace.mongod.server.sessions.sessions import parse_session_id
from tailrace.mongod.store.transactions.sessions import NO_USER

_IMPERSONATE: Final = right(CLUSTER, "impersonate")


def session_ids(context: Context) -> list[bytes]:
    """The ids in a command's first field, as BSON."""
    arguments = context.arguments()
    given = arguments.array(context.name)
    return [session_id(context, spec, context.name) for spec in given if is_given(spec)]


def session_id(context: Context, spec: object, path: str = "lsid") -> bytes:
    """The complete id, as BSON, of a session that a client names: those of users are their own."""
    client = context.client
    if client.guard is None:
        return parse_session_id(spec, path)
    own = own_digest(context)
    given = spec.get("uid") if isinstance(spec, dict) else None
    is_other = isinstance(given, bytes) and given != own
    if client.user is None and context.entry.has_no_session:
        is_other = False  # the session is not used
    if is_other and not may(context, _IMPERSONATE):
        raise CommandError(ErrorCode.Unauthorized, "Unauthorized to set user digest in LogicalSessionId")
    return parse_session_id(spec, path, own)


def own_digest(context: Context) -> bytes:
    """The digest that the sessions of a client have."""
    client = context.client
    return NO_USER if client.guard is None or client.user is None else client.user.digest


def kill_session(context: Context, lsid: bytes) -> None:
    """Interrupt the commands of a session, and end its cursors and its transaction."""
    server = context.node
    error = CommandError(ErrorCode.Interrupted, "operation was interrupted because its session was killed")
    for operation in list(server.operations.values()):
        if operation.lsid == lsid and operation is not context:
            operation.interrupt(error)
    server.cursors.kill_session(lsid)
    server.sessions.end(lsid)
