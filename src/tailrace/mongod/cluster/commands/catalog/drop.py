"""`drop` on a router: on every shard that has the collection; for a view on its database's primary."""

from typing import Any

from tailrace.mongod.cluster.ddl.collection_shards import check_collection_uuid
from tailrace.mongod.cluster.ddl.dropping import drop_placed
from tailrace.mongod.cluster.ddl.forwarding import forward
from tailrace.mongod.cluster.ddl.guards import exclusive_placement
from tailrace.mongod.cluster.ddl.unfinished import recorded_until_done
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.commands.catalog import drop
from tailrace.mongod.server.dispatch.common_arguments import collection_uuid
from tailrace.mongod.store.ddl.drop import index_count


async def run(context: RouterContext) -> dict[str, Any]:
    """Drop a collection or a view; succeeds if it does not exist."""
    ns = f"{context.database}.{context.collection_name()}"
    arguments = context.arguments()
    expected = collection_uuid(arguments)
    arguments.finish()
    router = context.node
    async with exclusive_placement(context, ns):
        check_collection_uuid(router.states.catalog, ns, expected)
        if ns in router.placement.collections:
            collection = router.states.catalog.collection(ns)
            async with recorded_until_done(context):
                await drop_placed(router.placement, router.stores, ns)
            return {} if collection is None else {"nIndexesWas": index_count(collection), "ns": ns}
        primary = router.placement.primary_of(context.database)
        return {} if primary is None else await forward(context, primary)


COMMAND = drop.COMMAND.run_by(run)
