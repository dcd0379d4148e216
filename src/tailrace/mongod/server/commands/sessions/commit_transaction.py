"""`commitTransaction`: commit a transaction."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import from_timestamp
from tailrace.mongod.server.access.needs import LOGGED_IN
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import RECOVERY_TOKEN, command
from tailrace.mongod.server.dispatch.kinds import TIMESTAMP
from tailrace.mongod.server.emulation.write_fault import WriteFault


async def run(context: Context) -> Reply:
    """Succeeds again for a transaction that is committed."""
    arguments = context.arguments()
    # Clients of a router send its token back; a member does not need it.
    arguments.document("recoveryToken", None)
    commit_time = arguments.timestamp("commitTimestamp", None)
    arguments.finish()
    if context.transaction is None:
        raise CommandError(ErrorCode.CommandFailed, "commitTransaction must be run within a transaction")
    fault = WriteFault.of(context)
    if fault is not None:
        fault.before_commit()
    await context.node.transactions.commit(
        context.transaction, None if commit_time is None else from_timestamp(commit_time)
    )
    return {}


_FIELDS = command({"recoveryToken": RECOVERY_TOKEN, "commitTimestamp": TIMESTAMP})

COMMAND = Command(
    "commitTransaction",
    run,
    needs=LOGGED_IN,
    help="Commit a transaction.",
    fields=_FIELDS,
    admin_only=True,
    is_write=True,
    in_transaction=True,
    ends_transaction=True,
    same_on_router=True,
)
