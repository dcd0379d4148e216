"""`replSetInitiate`: always AlreadyInitialized, because the set exists from the first start."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.replica_set.replica_set_config import check_replica_set


async def run(context: Context) -> Reply:
    """Raise the code that scripts expect for an initiated set."""
    check_replica_set(context.node)
    raise CommandError(ErrorCode.AlreadyInitialized, "already initialized")


COMMAND = Command(
    "replSetInitiate",
    run,
    needs=on_cluster("replSetConfigure"),
    help="Initiate the set; it already is.",
    admin_only=True,
)
