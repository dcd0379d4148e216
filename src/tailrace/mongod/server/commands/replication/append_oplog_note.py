"""`appendOplogNote`: write an oplog entry that changes nothing."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import from_timestamp, in_words
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.dispatch.fields import old_command
from tailrace.mongod.server.dispatch.kinds import GIVEN_OBJECT, GIVEN_TIMESTAMP
from tailrace.mongod.server.replica_set.no_ops import write_no_op


async def run(context: MemberContext) -> Reply:
    """With `maxClusterTime`, only if that time has not been reached."""
    arguments = context.arguments()
    data = arguments.document("data")
    limit = arguments.timestamp("maxClusterTime", None)
    arguments.finish()
    node = context.node
    if not node.replication.is_replica_set:
        reason = 'Must have replication set up to run "appendOplogNote"'
        raise CommandError(ErrorCode.NoReplicationEnabled, reason)
    if limit is not None and from_timestamp(limit) <= node.last_write_time():
        reason = (
            f"Requested maxClusterTime {in_words(from_timestamp(limit))} is less or equal to the last "
            f"primary OpTime {in_words(node.last_write_time())}"
        )
        raise CommandError(ErrorCode.StaleClusterTime, reason)
    await write_no_op(node.store, data)
    return {}


_FIELDS = old_command(
    {"data": GIVEN_OBJECT, "maxClusterTime": GIVEN_TIMESTAMP},
    required=("data",),
    missing_code=ErrorCode.NoSuchKey,
)

COMMAND = Command(
    "appendOplogNote",
    run,
    needs=on_cluster("appendOplogNote"),
    help="Write a note into the oplog.",
    fields=_FIELDS,
    admin_only=True,
    is_write=True,
)
