"""`mergeAllChunksOnShard`: merge all neighbouring chunks of one shard."""

from itertools import groupby, islice

from tailrace.mongod.cluster.ddl.guards import exclusive_placement
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.access.needs import on_full_name
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.common_arguments import namespace_argument


async def run(context: RouterContext) -> Reply:
    arguments = context.arguments()
    ns = ".".join(namespace_argument(arguments, context.name))
    name = arguments.text("shard")
    most = arguments.integer("maxNumberOfChunksToMerge", None, minimum=2)
    arguments.finish()
    placement = context.node.placement
    shard = placement.shard(name).name
    async with exclusive_placement(context, ns):
        for owner, neighbours in groupby(placement.require(ns).chunks, lambda chunk: chunk.shard):
            merged = list(islice(neighbours, most))
            if owner == shard and len(merged) > 1:
                await placement.merge(ns, merged[0].min, merged[-1].max)
    return {}


COMMAND = Command(
    "mergeAllChunksOnShard",
    run,
    needs=on_full_name("splitChunk"),
    help="Merge all neighbouring chunks of one shard.",
    admin_only=True,
    is_write=True,
)
