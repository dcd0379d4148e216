"""`replSetFreeze`: keep a secondary from being elected for some seconds."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext


async def run(context: MemberContext) -> Reply:
    """Only a member that stepped down waits; elections here name the next member themselves."""
    if context.node.replication.is_primary:
        reason = "Cannot freeze node when primary or running for election, state: Primary"
        raise CommandError(ErrorCode.NotSecondary, reason)
    return {}


COMMAND = Command(
    "replSetFreeze",
    run,
    needs=on_cluster("replSetStateChange"),
    help="Keep a secondary from being elected.",
    admin_only=True,
)
