"""`appendOplogNote` on a router: log a note on every shard."""

from typing import Any

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.ddl.forwarding import forward, raw_replies
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.commands.replication import append_oplog_note


async def run(context: RouterContext) -> dict[str, Any]:
    """Log the note, except on shards that are already past `maxClusterTime`."""
    replies: dict[str, dict[str, Any]] = {}
    for shard in context.node.shards:
        try:
            replies[shard] = await forward(context, shard)
        except CommandError as error:
            if error.code != ErrorCode.StaleClusterTime:
                raise
            replies[shard] = {"ok": 0.0, "code": error.code, "codeName": error.code_name}
    return raw_replies(context, replies)


COMMAND = append_oplog_note.COMMAND.run_by(run)
