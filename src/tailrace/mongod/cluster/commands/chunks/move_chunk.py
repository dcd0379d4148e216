"""`moveChunk`: move one chunk to another shard."""

import time

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.moves.migration import move_range
from tailrace.mongod.cluster.placement.chunk_arguments import bounds_argument, chunk_of_query
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.access.needs import on_full_name
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.common_arguments import namespace_argument


async def run(context: RouterContext) -> Reply:
    """Move the chunk that a query finds, or that has these bounds."""
    begun = time.monotonic()
    arguments = context.arguments()
    ns = ".".join(namespace_argument(arguments, context.name))
    router = context.node
    collection = router.placement.require(ns)
    query = arguments.document("find", None)
    bounds = bounds_argument(arguments, collection.key)
    to = arguments.text("to")
    waits = arguments.boolean("_waitForDelete", False) or arguments.boolean("waitForDelete", False)
    arguments.ignore("_secondaryThrottle", "secondaryThrottle", "forceJumbo", "maxChunkSizeBytes")
    arguments.finish()
    if (query is None) == (bounds is None):
        raise CommandError(
            ErrorCode.InvalidOptions, "name the chunk to move with either 'find' or 'bounds', not with both"
        )
    chunk = (
        collection.chunks.exact(*bounds) if bounds is not None else chunk_of_query(collection, query or {})
    )
    # It may wait for cursors on the copy of an earlier move; a client that gives up does not stop it.
    with context.waiting():
        await move_range(router.moves, ns, chunk.min, chunk.max, to, waits_for_delete=waits)
    return {"millis": int((time.monotonic() - begun) * 1000)}


COMMAND = Command(
    "moveChunk",
    run,
    needs=on_full_name("moveChunk"),
    help="Move a chunk to another shard.",
    aliases=("movechunk",),
    admin_only=True,
    is_write=True,
)
