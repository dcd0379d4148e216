"""`addShardToZone`: add a shard to a zone, which exists as long as it has a shard."""

from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply


async def run(context: RouterContext) -> Reply:
    arguments = context.arguments()
    name = arguments.text(context.name)
    zone = arguments.text("zone")
    arguments.finish()
    placement = context.node.placement
    shard = placement.shard(name)
    if zone not in shard.zones:
        await placement.set_zones(shard.name, (*shard.zones, zone))
    return {}


COMMAND = Command(
    "addShardToZone",
    run,
    needs=on_cluster("addShard"),
    help="Add a shard to a zone.",
    admin_only=True,
    is_write=True,
)
