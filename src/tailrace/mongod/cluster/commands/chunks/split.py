"""`split`: split a chunk into two."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.ddl.guards import exclusive_placement
from tailrace.mongod.cluster.placement.chunk_arguments import bounds_argument, chunk_of_query
from tailrace.mongod.cluster.placement.chunk_map import Chunk
from tailrace.mongod.cluster.placement.chunk_splitting import median_key
from tailrace.mongod.cluster.placement.state import TrackedCollection
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.access.needs import on_full_name
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.common_arguments import namespace_argument

if TYPE_CHECKING:
    from tailrace.mongod.cluster.router import Router

_WAYS: Final = ("find", "bounds", "middle")


async def run(context: RouterContext) -> Reply:
    """Split at a key, or at the median of the chunk that a query or its bounds name."""
    arguments = context.arguments()
    ns = ".".join(namespace_argument(arguments, context.name))
    given = [name for name in _WAYS if arguments.has(name)]
    if len(given) != 1:
        raise CommandError(
            ErrorCode.InvalidOptions,
            "name the split point with one of 'find', 'bounds' and 'middle'"
            + (f", not with {' and '.join(given)}" if given else ""),
        )
    query = arguments.document("find", None)
    middle = arguments.document("middle", None)
    router = context.node
    placement = router.placement
    async with exclusive_placement(context, ns):
        collection = placement.require(ns)
        bounds = bounds_argument(arguments, collection.key)
        arguments.finish()
        if middle is not None:
            collection.key.check_bound(middle, whole=True)
            await placement.split(ns, [middle])
        else:
            chunk = (
                chunk_of_query(collection, query or {})
                if bounds is None
                else collection.chunks.exact(*bounds)
            )
            point = await asyncio.to_thread(_middle_of, router, collection, chunk)
            await placement.split(ns, [point])
    return {}


def _middle_of(router: "Router", collection: TrackedCollection, chunk: Chunk) -> Mapping[str, Any]:
    with router.stores[chunk.shard].snapshot() as snapshot:
        point = median_key(snapshot, collection, chunk)
    if point is None:
        raise CommandError(
            ErrorCode.CommandFailed,
            f"the chunk {chunk.text} cannot be split: it does not have two documents with different keys; "
            "name a key with 'middle'",
        )
    return point


COMMAND = Command(
    "split",
    run,
    needs=on_full_name("splitChunk"),
    help="Split a chunk into two.",
    admin_only=True,
    is_write=True,
)
