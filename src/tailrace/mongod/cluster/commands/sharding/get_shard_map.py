"""`getShardMap`: which replica set and which host is which shard."""

from tailrace.mongod.cluster.cluster_of import cluster_of
from tailrace.mongod.cluster.placement.state import CONFIG_SHARD
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
    """Names, addresses and the way back."""
    context.arguments().finish()
    cluster = cluster_of(context)
    names = {name: shard.host for name, shard in cluster.placement.shards.items()}
    names[CONFIG_SHARD] = f"{CONFIG_SHARD}/{cluster.config.member}"
    return {
        "map": names,
        "hosts": {host.partition("/")[2]: name for name, host in names.items()},
        "connStrings": {host: name for name, host in names.items()},
    }


COMMAND = Command("getShardMap", run, help="Tells which host is which shard.", admin_only=True)
