"""`checkMetadataConsistency`: list contradictions between the catalogs of router and shards."""

from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.fields import command
from tailrace.mongod.server.dispatch.kinds import ANY, FLAG, OBJECT
from tailrace.mongod.server.reads.listing import batch_size, results_reply


async def run(context: RouterContext) -> Reply:
    """There are none: all catalogs of a cluster change together."""
    arguments = context.arguments()
    arguments.value("checkMetadataConsistency")
    arguments.boolean("checkIndexes", False)
    size = batch_size(arguments)
    arguments.finish()
    return results_reply(context, f"{context.database}.$cmd.aggregate", [], size)


COMMAND = Command(
    "checkMetadataConsistency",
    run,
    help="List contradictions between the catalogs of a cluster.",
    needs=on_cluster("checkMetadataConsistency"),
    fields=command({"checkMetadataConsistency": ANY, "checkIndexes": FLAG, "cursor": OBJECT}),
)
