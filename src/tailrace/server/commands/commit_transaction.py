"""`commitTransaction`."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.server.command import Command, Reply
from tailrace.server.context import Context


async def run(context: Context) -> Reply:
    """Make a transaction's changes visible; sent again, it is told the same."""
    arguments = context.arguments()
    # A router's clients send the token back that a router gave them; here it says nothing.
    arguments.document("recoveryToken", None)
    arguments.ignore("commitTimestamp")
    arguments.finish()
    if context.transaction is None:
        raise CommandError(ErrorCode.CommandFailed, "commitTransaction must be run within a transaction")
    await context.server.transactions.commit(context.transaction)
    return {}


COMMAND = Command(
    "commitTransaction",
    run,
    help="Commits a transaction.",
    admin_only=True,
    is_write=True,
    in_transaction=True,
    ends_transaction=True,
)
