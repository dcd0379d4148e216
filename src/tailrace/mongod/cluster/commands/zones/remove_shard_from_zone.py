"""`removeShardFromZone`: remove a shard from a zone."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.placement.zones import TAGS, check_zone_exists
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply


async def run(context: RouterContext) -> Reply:
    """The last shard stays in a zone that has ranges."""
    arguments = context.arguments()
    name = arguments.text(context.name)
    zone = arguments.text("zone")
    arguments.finish()
    placement = context.node.placement
    shard = placement.shard(name)
    check_zone_exists(placement.shards, zone)
    if zone not in shard.zones:
        return {}
    others = [each for each in placement.shards.values() if each.name != shard.name]
    is_used = any(document.get("tag") == zone for document in placement.config_documents(TAGS))
    if is_used and not any(zone in each.zones for each in others):
        reason = f"removing {shard.name} from zone {zone} while its ranges are in use is not allowed"
        raise CommandError(ErrorCode.ZoneStillInUse, reason)
    await placement.set_zones(shard.name, tuple(each for each in shard.zones if each != zone))
    return {}


COMMAND = Command(
    "removeShardFromZone",
    run,
    needs=on_cluster("addShard"),
    help="Remove a shard from a zone.",
    admin_only=True,
    is_write=True,
)
