"""`getShardVersion`: how often the chunks of a collection have changed."""

from bson import Timestamp

from tailrace.events.cluster_time import to_timestamp
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.catalog_changes import namespace_argument
from tailrace.mongod.server.dispatch.command import Command, Reply


async def run(context: RouterContext) -> Reply:
    """The version of a sharded collection."""
    arguments = context.arguments()
    database, name = namespace_argument(arguments, context.name)
    arguments.finish()
    collection = context.node.cluster.placement.require(f"{database}.{name}")
    return {
        "version": Timestamp(*collection.chunks.version),
        "versionEpoch": collection.epoch,
        "versionTimestamp": to_timestamp(collection.timestamp),
    }


COMMAND = Command("getShardVersion", run, help="Tells the version of a sharded collection.", admin_only=True)
