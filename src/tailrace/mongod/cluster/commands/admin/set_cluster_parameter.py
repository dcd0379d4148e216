"""`setClusterParameter` on a router: on the config server, then on every shard."""

from typing import Any

from tailrace.mongod.cluster.ddl.forwarding import forward_in_turn
from tailrace.mongod.cluster.ddl.unfinished import recorded_until_done
from tailrace.mongod.cluster.placement.state import CONFIG_SHARD
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.commands.admin import set_cluster_parameter


async def run(context: RouterContext) -> dict[str, Any]:
    """Check and store one parameter; an invalid one is refused by the config server."""
    async with recorded_until_done(context):
        await forward_in_turn(context, [CONFIG_SHARD, *context.node.shards])
    return {}


COMMAND = set_cluster_parameter.COMMAND.run_by(run)
