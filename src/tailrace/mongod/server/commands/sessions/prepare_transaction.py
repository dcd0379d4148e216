"""`prepareTransaction`: prepare a shard's part of a transaction for the coordinator's decision."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import to_timestamp
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.sessions.transaction import StoredTransaction


async def run(context: MemberContext) -> Reply:
    """Succeeds again for a transaction that is prepared."""
    context.arguments().finish()
    if not isinstance(context.transaction, StoredTransaction):
        raise CommandError(ErrorCode.CommandFailed, "prepareTransaction must be run within a transaction")
    prepared = await context.node.transactions.prepare(context.transaction)
    return {
        "prepareTimestamp": to_timestamp(prepared.time.ts),
        "affectedNamespaces": list(prepared.namespaces),
    }


COMMAND = Command(
    "prepareTransaction",
    run,
    needs=on_cluster("internal"),
    help="Prepare a transaction of several shards; for coordinators.",
    admin_only=True,
    is_write=True,
    in_transaction=True,
)
