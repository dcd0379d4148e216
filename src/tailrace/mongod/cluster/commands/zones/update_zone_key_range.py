"""`updateZoneKeyRange`: put a range of a collection into a zone, or take it out."""

from typing import Any

from tailrace.bson.shell_notation import shell
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.placement.shard_key import ShardKey
from tailrace.mongod.cluster.placement.zones import (
    ZoneRange,
    check_no_overlap,
    check_zone_exists,
    put_range,
    remove_range,
    zone_ranges,
)
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.access.needs import on_full_name
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.common_arguments import namespace_argument
from tailrace.mongod.store.write_unit import WriteUnit


async def run(context: RouterContext) -> Reply:
    """The collection need not be sharded, and need not exist; then any fields may be the key."""
    arguments = context.arguments()
    ns = ".".join(namespace_argument(arguments, context.name))
    low, high = arguments.document("min"), arguments.document("max")
    if "zone" not in context.command:
        raise CommandError(ErrorCode.IDLFailedToParse, "BSON field 'zone' is missing but a required field")
    zone = arguments.text("zone", None)
    arguments.finish()
    placement = context.node.placement
    sharded = placement.sharded(ns)
    key = _key_of(low, high) if sharded is None else sharded.key
    low, high = _bound(key, low), _bound(key, high)
    if key.bound(low) >= key.bound(high):
        raise CommandError(ErrorCode.BadValue, f"{shell(low)} must come before {shell(high)}")
    if zone is None:
        await placement.change_config(lambda unit: remove_range(unit, ns, low, high))
        return {}
    check_zone_exists(placement.shards, zone)
    added = ZoneRange(ns, low, high, zone)

    def work(unit: WriteUnit) -> None:
        check_no_overlap(key, zone_ranges(unit, ns), added)
        put_range(unit, added)

    await placement.change_config(work)
    context.node.balancer.wake()
    return {}


def _key_of(low: dict[str, Any], high: dict[str, Any]) -> ShardKey:
    if not low or list(low) != list(high):
        raise CommandError(ErrorCode.BadValue, "min and max must have the same fields")
    return ShardKey(dict.fromkeys(low, 1))


def _bound(key: ShardKey, given: dict[str, Any]) -> dict[str, Any]:
    if not given or tuple(given) != key.paths[: len(given)]:
        raise CommandError(
            ErrorCode.ShardKeyNotFound,
            f"{shell(given)} is not a prefix of the shard key {shell(key.pattern)}",
        )
    return key.full_bound(given)


COMMAND = Command(
    "updateZoneKeyRange",
    run,
    needs=on_full_name("enableSharding"),
    help="Put a range of a collection into a zone.",
    admin_only=True,
    is_write=True,
)
