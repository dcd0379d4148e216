"""`reshardCollection`: give a sharded collection another key."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tailrace.bson.shell_notation import shell
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.moves.moves import recipient_shard
from tailrace.mongod.cluster.moves.resharding import NewPlacement, Resharding
from tailrace.mongod.cluster.placement.chunk_map import ChunkMap
from tailrace.mongod.cluster.placement.chunk_splitting import hashed_chunks, sampled_chunks
from tailrace.mongod.cluster.placement.shard_key import HASHED, ShardKey
from tailrace.mongod.cluster.placement.shard_key_index import SIMPLE, check_unique_indexes
from tailrace.mongod.cluster.placement.zones import (
    ZoneMap,
    ZoneRange,
    check_no_overlap,
    check_zone_exists,
    replace_ranges,
)
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.access.needs import on_full_name
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.common_arguments import namespace_argument

if TYPE_CHECKING:
    from tailrace.mongod.cluster.router import Router


async def run(context: RouterContext) -> Reply:
    """Copy the collection to the chunks of another key, and replace it by the copy."""
    arguments = context.arguments()
    ns = ".".join(namespace_argument(arguments, context.name))
    key = ShardKey(arguments.document("key"))
    number = arguments.integer("numInitialChunks", None, minimum=1, maximum=100_000)
    collation = arguments.document("collation", None)
    is_forced = arguments.boolean("forceRedistribution", False)
    wanted_shards = _shards_argument(arguments)
    if arguments.boolean("unique", False):
        raise CommandError(ErrorCode.BadValue, "reshardCollection cannot make a shard key unique")
    arguments.ignore("demoMode", "performVerification", "reshardingUUID")
    zones = _zones_argument(arguments, ns, key)
    arguments.finish()
    if collation is not None and collation != SIMPLE:
        raise CommandError(
            ErrorCode.BadValue, f"the collation of a shard key is {shell(SIMPLE)}, not {shell(collation)}"
        )
    router = context.node
    _check(router, ns, key)
    _shards(router, wanted_shards)
    for each in zones or ():
        check_zone_exists(router.placement.shards, each.zone)
    if zones is None and router.placement.zones(ns, router.placement.require(ns).key):
        reason = "Must specify value for zones field: the collection has zones, which the new key needs, too"
        raise CommandError(ErrorCode.BadValue, reason)

    async def move() -> None:
        known = router.placement.require(ns)
        if known.key == key and not is_forced:
            return
        if zones:
            placed = ZoneMap(key, zones, router.placement.shards)
            chunks = placed.first_chunks(router.clock.tick())
        else:
            chunks = _chunks(router, ns, key, _shards(router, wanted_shards), number)
        await Resharding(
            router.moves, ns, NewPlacement(key, chunks, number=number, collation=collation)
        ).run()
        if zones is not None:
            await router.placement.change_config(lambda unit: replace_ranges(unit, ns, zones))

    await router.moves.run(move)
    return {}


def _shards_argument(arguments: Arguments) -> list[str] | None:
    """`shardDistribution: [{shard}]`: the shards that will own the collection."""
    given = arguments.array("shardDistribution", None)
    if given is None:
        return None
    if not given or not all(isinstance(one, dict) and list(one) == ["shard"] for one in given):
        raise CommandError(
            ErrorCode.InvalidOptions,
            "shardDistribution must be a list of {shard: name}; ranges are not supported",
        )
    return [one["shard"] for one in given]


def _zones_argument(arguments: Arguments, ns: str, key: ShardKey) -> list[ZoneRange] | None:
    """`zones: [{zone, min, max}]`: the ranges of the collection under the new key."""
    given = arguments.array("zones", None)
    if given is None:
        return None
    ranges: list[ZoneRange] = []
    for number, one in enumerate(given):
        if not isinstance(one, dict):
            raise arguments.wrong_type(f"zones.{number}", one, "object")
        fields = Arguments(f"zones.{number}", one)
        low, high = key.full_bound(fields.document("min")), key.full_bound(fields.document("max"))
        added = ZoneRange(ns, low, high, fields.text("zone"))
        fields.finish()
        check_no_overlap(key, ranges, added)
        ranges.append(added)
    return ranges


def _shards(router: "Router", wanted: list[str] | None) -> list[str]:
    if wanted is not None:
        return [recipient_shard(router.placement, name) for name in wanted]
    return [name for name, shard in router.placement.shards.items() if not shard.is_draining]


def _check(router: "Router", ns: str, key: ShardKey) -> None:
    known = router.placement.require(ns)
    collection = router.stores[known.shards[0]].catalog.by_uuid(known.uuid)
    if collection is not None:
        check_unique_indexes(collection, key)


def _chunks(router: "Router", ns: str, key: ShardKey, shards: Sequence[str], number: int | None) -> ChunkMap:
    at = router.clock.tick()
    first: Any = key.pattern[key.paths[0]]
    if first == HASHED:
        return hashed_chunks(key, shards, number, at)
    with router.states.snapshot() as snapshot:
        return sampled_chunks(snapshot, ns, key, shards, number or len(shards), at)


COMMAND = Command(
    "reshardCollection",
    run,
    needs=on_full_name("reshardCollection"),
    help="Give a sharded collection another key.",
    admin_only=True,
    is_write=True,
)
