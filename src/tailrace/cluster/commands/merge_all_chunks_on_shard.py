"""`mergeAllChunksOnShard`: every run of neighbouring chunks of one shard becomes one chunk."""

from itertools import groupby, islice

from tailrace.cluster.cluster_of import cluster_of
from tailrace.cluster.ddl.holding import alone
from tailrace.server.command import Command, Reply
from tailrace.server.context import Context
from tailrace.server.ddl import namespace_argument


async def run(context: Context) -> Reply:
    """Merge whatever can be merged on a shard."""
    arguments = context.arguments()
    ns = ".".join(namespace_argument(arguments, context.name))
    name = arguments.text("shard")
    most = arguments.integer("maxNumberOfChunksToMerge", None, minimum=2)
    arguments.finish()
    placement = cluster_of(context).placement
    shard = placement.shard(name).name
    async with alone(context, ns):
        for owner, neighbours in groupby(placement.require(ns).chunks, lambda chunk: chunk.shard):
            merged = list(islice(neighbours, most))
            if owner == shard and len(merged) > 1:
                await placement.merge(ns, merged[0].min, merged[-1].max)
    return {}


COMMAND = Command(
    "mergeAllChunksOnShard",
    run,
    help="Merges all neighbouring chunks of one shard.",
    admin_only=True,
    is_write=True,
)
