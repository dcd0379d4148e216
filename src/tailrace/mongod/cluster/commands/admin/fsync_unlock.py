"""`fsyncUnlock` on a router: on every shard."""

from typing import Any

from tailrace.mongod.cluster.ddl.forwarding import forward_in_turn, raw_replies
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.commands.admin import fsync_unlock


async def run(context: RouterContext) -> dict[str, Any]:
    replies = await forward_in_turn(context, context.node.shards)
    return {"all": raw_replies(context, replies)["raw"]}


COMMAND = fsync_unlock.COMMAND.run_by(run)
