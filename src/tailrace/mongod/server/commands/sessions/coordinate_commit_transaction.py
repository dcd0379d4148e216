"""`coordinateCommitTransaction`: report how a transaction ended, to a router that does not know it."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.sessions.transaction import State, no_such_transaction


async def run(context: Context) -> Reply:
    """Succeed for a transaction that is committed; an open one has lost its router, and is aborted."""
    arguments = context.arguments()
    participants = arguments.array("participants")
    arguments.finish()
    if participants:
        # Routers decide here, because they know all shards; a shard knows the result of its own part.
        raise CommandError(ErrorCode.CommandNotSupported, "routers commit transactions of several shards")
    transaction = context.transaction
    if transaction is None:
        reason = "coordinateCommitTransaction must be run within a transaction"
        raise CommandError(ErrorCode.CommandFailed, reason)
    if transaction.state is State.PREPARED:
        raise CommandError(
            ErrorCode.PreparedTransactionInProgress,
            f"Transaction {transaction.number} is prepared, and waits for its decision.",
        )
    if transaction.state is not State.COMMITTED:
        await context.node.transactions.abort_by_client(transaction)
        raise no_such_transaction(f"Transaction {transaction.number} has been aborted.")
    return {}


COMMAND = Command(
    "coordinateCommitTransaction",
    run,
    needs=on_cluster("internal"),
    help="Report how a transaction of several shards ended; for routers.",
    admin_only=True,
    is_write=True,
    in_transaction=True,
)
