"""`dropIndexes` on a router: on every shard that has the collection."""

from typing import Any

from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.ddl.collection_shards import (
    collection_with_all_indexes,
    find_collection_shards,
    index_names,
)
from tailrace.mongod.cluster.ddl.forwarding import forward, forward_in_turn, raw_replies
from tailrace.mongod.cluster.ddl.guards import exclusive_placement
from tailrace.mongod.cluster.ddl.unfinished import recorded_until_done
from tailrace.mongod.cluster.placement.shard_key_index import check_dropped_indexes, droppable_indexes
from tailrace.mongod.cluster.placement.state import TrackedCollection
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.commands.catalog import drop_indexes
from tailrace.mongod.server.dispatch.arguments import REQUIRED
from tailrace.mongod.store.ddl.create_and_drop_indexes import chosen_indexes

_ALL = "*"


async def run(context: RouterContext) -> dict[str, Any]:
    """Drop indexes by name, names or key, or all except those on `_id` and on the shard key."""
    ns = f"{context.database}.{context.collection_name()}"
    which = context.arguments().value("index", REQUIRED)
    router = context.node
    async with exclusive_placement(context, ns):
        sharded = router.placement.sharded(ns)
        if sharded is None:
            shards = router.placement.shards_of(ns)
            if not shards:
                raise CommandError(ErrorCode.NamespaceNotFound, f"ns not found {ns}")
            return raw_replies(context, await forward_in_turn(context, shards))
        names = _chosen(context, sharded, which)
        async with recorded_until_done(context):
            replies = {}
            for shard in find_collection_shards(router.placement, router.stores, ns).all:
                here = index_names(router.stores[shard], ns)
                wanted = [name for name in names if name in here]
                replies[shard] = await forward(context, shard, {"index": wanted})
            return raw_replies(context, replies)


def _chosen(context: RouterContext, sharded: TrackedCollection, which: Any) -> list[str]:
    """The names of the indexes to drop; refuses to drop the last one that supports the shard key."""
    router = context.node
    collection = collection_with_all_indexes(router.placement, router.stores, sharded.ns)
    if collection is None:
        raise CommandError(ErrorCode.NamespaceNotFound, f"ns not found {sharded.ns}")
    if which == _ALL:
        return droppable_indexes(sharded, collection)
    is_names = isinstance(which, list) and all(map(is_string, which))
    if not (is_names or is_string(which) or isinstance(which, dict)):
        raise context.arguments().wrong_type("index", which, "[string, object, array]")
    chosen = chosen_indexes(collection, which)
    check_dropped_indexes(sharded, collection, chosen)
    return [index.name for index in chosen]


COMMAND = drop_indexes.COMMAND.run_by(run)
