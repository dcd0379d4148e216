"""`create` on a router: on the primary of the database, or on the shard that has the collection."""

from typing import Any

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.ddl.forwarding import forward
from tailrace.mongod.cluster.ddl.guards import shared_placement_with_database
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.commands.catalog import create
from tailrace.mongod.store.ddl.names import check_collection_name


async def run(context: RouterContext) -> dict[str, Any]:
    name = context.collection_name()
    check_collection_name(context.database, name)
    ns = f"{context.database}.{name}"
    router = context.node
    async with shared_placement_with_database(context, ns) as primary:
        # The shard that has the collection compares the options.
        shard = router.placement.shards_of(ns)[0]
        if context.command.get("viewOn") is not None:
            if shard != primary:
                raise CommandError(ErrorCode.NamespaceExists, f"a collection {ns} already exists")
            shard = primary
        await forward(context, shard)
    return {}


COMMAND = create.COMMAND.run_by(run)
