"""`replSetSyncFrom`: choose the member to copy from; members share one store, so there is nothing to copy."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext


async def run(context: MemberContext) -> Reply:
    if context.node.replication.is_primary:
        raise CommandError(ErrorCode.NotSecondary, "primaries don't sync")
    return {"syncFromRequested": str(context.command[context.name])}


COMMAND = Command(
    "replSetSyncFrom",
    run,
    needs=on_cluster("replSetStateChange"),
    help="Choose the member to copy from.",
    admin_only=True,
)
