"""`shardingState`: show whether a server is a shard."""

from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext


async def run(context: MemberContext) -> Reply:
    return {"enabled": context.node.is_shard}


COMMAND = Command(
    "shardingState",
    run,
    needs=on_cluster("shardingState"),
    help="Show whether this server is a shard.",
    admin_only=True,
)
