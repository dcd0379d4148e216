"""`getShardVersion`: show the chunk version of a collection."""

from bson import Timestamp

from tailrace.events.cluster_time import to_timestamp
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.access.needs import on_full_name
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.common_arguments import namespace_argument


async def run(context: RouterContext) -> Reply:
    arguments = context.arguments()
    database, name = namespace_argument(arguments, context.name)
    arguments.finish()
    collection = context.node.placement.require(f"{database}.{name}")
    return {
        "version": Timestamp(*collection.chunks.version),
        "versionEpoch": collection.epoch,
        "versionTimestamp": to_timestamp(collection.timestamp),
    }


COMMAND = Command(
    "getShardVersion",
    run,
    needs=on_full_name("getShardVersion"),
    help="Show the version of a sharded collection.",
    admin_only=True,
)
