"""`coordinateCommitTransaction`: how a transaction has ended, asked by a router that does not know it."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.sessions.transaction import State, no_such_transaction


async def run(context: Context) -> Reply:
    """Succeed for a transaction that is committed; one that is still open has lost its router, and ends."""
    arguments = context.arguments()
    participants = arguments.array("participants")
    arguments.finish()
    if participants:
        # Decisions are the routers' here, who know all shards; a shard knows what became of its own part.
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
        await context.node.transactions.give_up(transaction)
        raise no_such_transaction(f"Transaction {transaction.number} has been aborted.")
    return {}


COMMAND = Command(
    "coordinateCommitTransaction",
    run,
    help="Tells how a transaction of several shards has ended; for routers.",
    admin_only=True,
    is_write=True,
    in_transaction=True,
)
