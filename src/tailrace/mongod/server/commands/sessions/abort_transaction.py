"""`abortTransaction`: abort a transaction."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import LOGGED_IN
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import RECOVERY_TOKEN, command


async def run(context: Context) -> Reply:
    arguments = context.arguments()
    arguments.document("recoveryToken", None)
    arguments.finish()
    if context.transaction is None:
        raise CommandError(ErrorCode.CommandFailed, "abortTransaction must be run within a transaction")
    await context.node.transactions.abort_by_client(context.transaction)
    return {}


_FIELDS = command({"recoveryToken": RECOVERY_TOKEN})

COMMAND = Command(
    "abortTransaction",
    run,
    needs=LOGGED_IN,
    help="Abort a transaction.",
    fields=_FIELDS,
    admin_only=True,
    is_write=True,
    in_transaction=True,
    ends_transaction=True,
    same_on_router=True,
)
