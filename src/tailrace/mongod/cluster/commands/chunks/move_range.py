"""`moveRange`: move a chunk, or a part of one, to another shard."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tailrace.bson.shell_notation import shell
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.moves.balancing import chunk_megabytes
from tailrace.mongod.cluster.moves.migration import move_range
from tailrace.mongod.cluster.placement.chunk_map import Chunk
from tailrace.mongod.cluster.placement.chunk_splitting import point_at_size
from tailrace.mongod.cluster.placement.key_range import KeyRange
from tailrace.mongod.cluster.placement.state import TrackedCollection
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.access.needs import on_full_name
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.common_arguments import namespace_argument

if TYPE_CHECKING:
    from tailrace.mongod.cluster.router import Router

_MEGABYTE = 1 << 20


async def run(context: RouterContext) -> Reply:
    """Move the range between `min` and `max`; without `max` about one chunk's size."""
    arguments = context.arguments()
    ns = ".".join(namespace_argument(arguments, context.name))
    router = context.node
    collection = router.placement.require(ns)
    low = arguments.document("min", None)
    high = arguments.document("max", None)
    to = arguments.text("toShard")
    waits = arguments.boolean("waitForDelete", False)
    arguments.ignore("_secondaryThrottle", "secondaryThrottle", "forceJumbo", "collectionTimestamp")
    arguments.finish()
    for bound in (low, high):
        if bound is not None:
            collection.key.check_bound(bound, whole=True)
    ends = await _ends(router, collection, low, high)
    # It may wait for cursors on the copy of an earlier move; a client that gives up does not stop it.
    with context.waiting():
        await move_range(router.moves, ns, *ends, to, waits_for_delete=waits)
    return {}


async def _ends(
    router: "Router",
    collection: TrackedCollection,
    low: dict[str, Any] | None,
    high: dict[str, Any] | None,
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Both ends of the range, which must be within one chunk."""
    key = collection.key
    if low is None and high is None:
        raise CommandError(ErrorCode.InvalidOptions, "moveRange needs 'min' or 'max', or both")
    if low is None:
        assert high is not None
        upper = key.bound(high)
        chunk = next(chunk for chunk in collection.chunks if key.bound(chunk.max) >= upper)
        return chunk.min, high
    chunk = collection.chunks.chunk_of(key.bound(low))
    if high is None:
        within = KeyRange.between(key, low, chunk.max)
        return low, await asyncio.to_thread(_end_by_size, router, collection, chunk, within)
    if not key.bound(low) < key.bound(high) <= key.bound(chunk.max):
        raise CommandError(
            ErrorCode.InvalidOptions,
            f"the range from {shell(low)} to {shell(high)} is not within one chunk; "
            "config.chunks lists the chunks",
        )
    return low, high


def _end_by_size(
    router: "Router", collection: TrackedCollection, chunk: Chunk, within: KeyRange
) -> Mapping[str, Any]:
    size = chunk_megabytes(router.placement) * _MEGABYTE
    with router.stores[chunk.shard].snapshot() as snapshot:
        return point_at_size(snapshot, collection.uuid, within, size) or chunk.max


COMMAND = Command(
    "moveRange",
    run,
    needs=on_full_name("moveChunk"),
    help="Move a range of a chunk to another shard.",
    admin_only=True,
    is_write=True,
)
