"""`getShardMap`: show the replica sets and hosts of the shards."""

from tailrace.mongod.cluster.placement.state import CONFIG_SHARD
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply


async def run(context: RouterContext) -> Reply:
    context.arguments().finish()
    router = context.node
    names = {name: shard.host for name, shard in router.placement.shards.items()}
    names[CONFIG_SHARD] = f"{CONFIG_SHARD}/{router.config.address}"
    return {
        "map": names,
        "hosts": {host.partition("/")[2]: name for name, host in names.items()},
        "connStrings": {host: name for name, host in names.items()},
    }


COMMAND = Command(
    "getShardMap", run, needs=on_cluster("getShardMap"), help="Show the hosts of the shards.", admin_only=True
)
