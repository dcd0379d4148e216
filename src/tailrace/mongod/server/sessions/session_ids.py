"""Read lists of sessions from commands, and kill sessions."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.kinds import is_given
from tailrace.mongod.server.sessions.sessions import parse_session_id


def session_ids(context: Context) -> list[bytes]:
    """The ids in a command's first field, as BSON."""
    arguments = context.arguments()
    given = arguments.array(context.name)
    return [parse_session_id(spec, context.name) for spec in given if is_given(spec)]


def kill_session(context: Context, lsid: bytes) -> None:
    """Interrupt the commands of a session, and end its cursors and its transaction."""
    server = context.node
    error = CommandError(ErrorCode.Interrupted, "operation was interrupted because its session was killed")
    for operation in list(server.operations.values()):
        if operation.lsid == lsid and operation is not context:
            operation.interrupt(error)
    server.cursors.kill_session(lsid)
    server.sessions.end(lsid)
