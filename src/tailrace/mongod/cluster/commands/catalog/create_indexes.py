"""`createIndexes` on a router: on every shard that has the collection."""

from collections.abc import Mapping
from typing import Any

from tailrace.bson.documents import decode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.ddl.collection_shards import find_collection_shards, index_names
from tailrace.mongod.cluster.ddl.forwarding import forward, forward_in_turn, raw_replies
from tailrace.mongod.cluster.ddl.guards import exclusive_placement, shared_placement
from tailrace.mongod.cluster.ddl.unfinished import recorded_until_done
from tailrace.mongod.cluster.placement.shard_key_index import check_new_indexes
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.commands.catalog import create_indexes
from tailrace.mongod.server.dispatch.internal_calls import call


async def run(context: RouterContext) -> dict[str, Any]:
    """Create indexes on all shards or on none; existing ones are skipped."""
    ns = f"{context.database}.{context.collection_name()}"
    specs = [decode(raw) for raw in context.documents("indexes")]
    router = context.node
    # A transaction uses the collection until its end, so it cannot have it exclusively.
    held = shared_placement if context.in_transaction else exclusive_placement
    async with held(context, ns):
        await router.placement.create_database(context.database)
        sharded = router.placement.sharded(ns)
        if sharded is None:
            shard = router.placement.shards_of(ns)[0]
            return raw_replies(context, {shard: await forward(context, shard)})
        check_new_indexes(sharded, specs)
        if context.in_transaction:
            return raw_replies(context, await forward_in_turn(context, sharded.shards))
        async with recorded_until_done(context):
            return raw_replies(context, await _create_everywhere(context, ns))


async def _create_everywhere(context: RouterContext, ns: str) -> Mapping[str, dict[str, Any]]:
    """Returns the shards' replies; an index that one shard refuses is dropped from the others."""
    router = context.node
    replies: dict[str, dict[str, Any]] = {}
    before: dict[str, set[str]] = {}
    for shard in find_collection_shards(router.placement, router.stores, ns).all:
        before[shard] = index_names(router.stores[shard], ns)
        try:
            replies[shard] = await forward(context, shard)
        except CommandError:
            for done in replies:
                added = sorted(index_names(router.stores[done], ns) - before[done])
                if added:
                    drop = {"dropIndexes": ns.partition(".")[2], "index": added}
                    await call(router.member(done), drop, context.database)
            raise
    return replies


COMMAND = create_indexes.COMMAND.run_by(run)
