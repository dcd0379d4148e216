"""`setClusterParameter` through a router: on the config server, then on every shard."""

from typing import Any

from tailrace.mongod.cluster.cluster_of import cluster_of
from tailrace.mongod.cluster.ddl.forwarding import forward_in_turn
from tailrace.mongod.cluster.ddl.unfinished import recorded_until_done
from tailrace.mongod.cluster.placement.state import CONFIG_SHARD
from tailrace.mongod.server.commands.admin import set_cluster_parameter
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> dict[str, Any]:
    """Check and store one parameter everywhere; the config server is the first to refuse it."""
    async with recorded_until_done(context):
        await forward_in_turn(context, [CONFIG_SHARD, *cluster_of(context).shards])
    return {}


COMMAND = set_cluster_parameter.COMMAND.run_by(run)
