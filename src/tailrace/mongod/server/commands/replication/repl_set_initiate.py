"""`replSetInitiate`: the set is there from the first start on, so scripts that initiate it are told so."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.replica_set.replica_set_config import check_replica_set


async def run(context: Context) -> Reply:
    """Refuse, with the code by which scripts know that there is nothing to do."""
    check_replica_set(context.node)
    raise CommandError(ErrorCode.AlreadyInitialized, "already initialized")


COMMAND = Command("replSetInitiate", run, help="Initiate the set; it already is.", admin_only=True)
