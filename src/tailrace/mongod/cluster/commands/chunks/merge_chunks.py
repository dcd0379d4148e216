"""`mergeChunks`: merge neighbouring chunks of one shard."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.ddl.guards import exclusive_placement
from tailrace.mongod.cluster.placement.chunk_arguments import bounds_argument
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.access.needs import on_full_name
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.common_arguments import namespace_argument


async def run(context: RouterContext) -> Reply:
    """Merge all chunks between two bounds."""
    arguments = context.arguments()
    ns = ".".join(namespace_argument(arguments, context.name))
    placement = context.node.placement
    async with exclusive_placement(context, ns):
        bounds = bounds_argument(arguments, placement.require(ns).key)
        arguments.finish()
        if bounds is None:
            raise CommandError(
                ErrorCode.IDLFailedToParse, "BSON field 'mergeChunks.bounds' is missing but a required field"
            )
        await placement.merge(ns, *bounds)
    return {}


COMMAND = Command(
    "mergeChunks",
    run,
    needs=on_full_name("splitChunk"),
    help="Merge neighbouring chunks of one shard.",
    aliases=("mergechunks",),
    admin_only=True,
    is_write=True,
)
