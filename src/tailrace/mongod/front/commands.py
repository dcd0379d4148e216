"""What is served in front of a deployment: change streams, and what drivers and administrators need for them.

This list is the only place that decides it. Every other command is refused with the address where it can be
run, so that nobody takes Tailrace for the deployment itself. The server's own collections
(`own_collections.py`) can be read and written.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.front import own_collections
from tailrace.mongod.server.access.needs import LOGGED_IN, Needs, Rights
from tailrace.mongod.server.commands import COMMANDS
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.reads.aggregating import writes_results
from tailrace.mongod.server.streams.change_streams import is_change_stream

if TYPE_CHECKING:
    from tailrace.mongod.front.front_member import FrontMember

SERVED: Final = frozenset({
    # connections
    "authenticate", "buildInfo", "connectionStatus", "getnonce", "hello", "listCommands", "logout", "ping",
    "rotateCertificates", "saslContinue", "saslStart", "whatsmyuri",
    # streams; other pipelines than `$changeStream` and `$currentOp` are refused
    "aggregate", "explain", "getMore", "killCursors",
    # sessions
    "endSessions", "killAllSessions", "killAllSessionsByPattern", "killSessions", "refreshSessions",
    "startSession",
    # this process
    "connPoolStats", "currentOp", "features", "getCmdLineOpts", "getLog", "getParameter", "hostInfo",
    "killOp", "logRotate", "serverStatus", "shutdown",
    # its own users and roles
    "createRole", "createUser", "dropAllRolesFromDatabase", "dropAllUsersFromDatabase", "dropRole",
    "dropUser", "grantPrivilegesToRole", "grantRolesToRole", "grantRolesToUser", "invalidateUserCache",
    "revokePrivilegesFromRole", "revokeRolesFromRole", "revokeRolesFromUser", "rolesInfo", "updateRole",
    "updateUser", "usersInfo",
})  # fmt: skip
_START_POINTS: Final = ("resumeAfter", "startAfter", "startAtOperationTime")


class FrontContext(MemberContext):
    """A command on the node in front of a deployment."""

    node: "FrontMember"


async def _aggregate(context: FrontContext) -> Reply:
    pipeline = context.command.get("pipeline")
    if is_change_stream(pipeline):
        if not _has_start(pipeline):
            await context.node.catch_up()
    elif context.database != own_collections.DATABASE and not _is_about_this_process(pipeline):
        raise refused(context)
    return await COMMANDS["aggregate"].run(context)


async def _explain(context: FrontContext) -> Reply:
    inner = context.command.get(context.name)
    if not isinstance(inner, Mapping) or not is_change_stream(inner.get("pipeline")):
        raise refused(context)
    return await COMMANDS["explain"].run(context)


def _is_about_this_process(pipeline: Any) -> bool:
    """Whether a pipeline shows running commands and open streams, as the page of the server does."""
    first = pipeline[0] if isinstance(pipeline, list) and pipeline else None
    return isinstance(first, Mapping) and "$currentOp" in first and not writes_results(pipeline)


def _has_start(pipeline: Any) -> bool:
    """Whether a stream begins where its options say, and not now."""
    spec = pipeline[0].get("$changeStream")
    return isinstance(spec, Mapping) and any(name in spec for name in _START_POINTS)


async def _run_own_or_refuse(context: FrontContext) -> Reply:
    if context.database != own_collections.DATABASE:
        raise refused(context)
    return await own_collections.run_own(context)


def _needs_on_own(command: Command) -> Needs:
    """The command's rights on the server's own collections; on others it is refused to every user."""

    def needs(context: FrontContext) -> Rights:
        if context.database != own_collections.DATABASE or command.needs is None:
            return LOGGED_IN(context)
        return command.needs(context)

    return needs


async def _refuse(context: FrontContext) -> Reply:
    raise refused(context)


def refused(context: FrontContext) -> CommandError:
    """CommandNotSupported (115), with the address where the command can be run."""
    return CommandError(
        ErrorCode.CommandNotSupported,
        f"{context.entry.name} is not served here: Tailrace serves the change streams of "
        f"{context.node.source.address}, and nothing else; connect to that address to run it",
    )


def _front(command: Command) -> Command:
    if command.name not in SERVED:
        is_own = command.name in own_collections.COMMANDS_ON_THEM
        return replace(
            command,
            run=_run_own_or_refuse if is_own else _refuse,
            needs=_needs_on_own(command) if is_own else LOGGED_IN,
            fields=None,
            check_first=None,
        )
    own = {"aggregate": _aggregate, "explain": _explain}.get(command.name)
    return command if own is None else command.run_by(own)


FRONT_COMMANDS: Final = {name: _front(command) for name, command in COMMANDS.items()}
"""Every command by its name and aliases."""
