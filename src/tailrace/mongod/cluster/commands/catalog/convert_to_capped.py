"""`convertToCapped` on a router: a capped collection is on one shard."""

from typing import Any

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.ddl.forwarding import forward
from tailrace.mongod.cluster.ddl.guards import exclusive_placement
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.commands.catalog import convert_to_capped


async def run(context: RouterContext) -> dict[str, Any]:
    """Replace a collection by a capped one with its newest documents."""
    ns = f"{context.database}.{context.collection_name()}"
    router = context.node
    placement = router.placement
    async with exclusive_placement(context, ns):
        if placement.sharded(ns) is not None:
            raise CommandError(ErrorCode.IllegalOperation, f"{ns} is sharded and cannot be capped")
        shards = placement.shards_of(ns)
        if not shards:
            raise CommandError(ErrorCode.NamespaceNotFound, f"ns does not exist: {ns}")
        await forward(context, shards[0])
        capped = router.stores[shards[0]].catalog.collection(ns)
        if ns in placement.collections and capped is not None:
            await placement.place(ns, capped.uuid, shards[0])
    return {}


COMMAND = convert_to_capped.COMMAND.run_by(run)
