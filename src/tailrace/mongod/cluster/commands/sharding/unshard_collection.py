"""`unshardCollection`: move a sharded collection to one shard."""

from typing import TYPE_CHECKING

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.commands.sharding.move_collection import unsharded_on
from tailrace.mongod.cluster.moves.balancing import bytes_of_shard
from tailrace.mongod.cluster.moves.moves import recipient_shard
from tailrace.mongod.cluster.moves.resharding import Resharding
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.catalog_changes import namespace_argument
from tailrace.mongod.server.dispatch.command import Command, Reply

if TYPE_CHECKING:
    from tailrace.mongod.cluster.cluster import Cluster


async def run(context: RouterContext) -> Reply:
    """Move all documents to the shard that is named, or to the one with the least data."""
    arguments = context.arguments()
    ns = ".".join(namespace_argument(arguments, context.name))
    to = arguments.text("toShard", None)
    arguments.finish()
    cluster = context.node.cluster
    cluster.placement.require(ns)

    async def move() -> None:
        cluster.placement.require(ns)
        shard = _emptiest(cluster) if to is None else recipient_shard(cluster.placement, to)
        await Resharding(cluster.moves, ns, unsharded_on(cluster, shard, context.name)).run()

    await cluster.moves.run(move)
    return {}


def _emptiest(cluster: "Cluster") -> str:
    takers = [name for name, shard in cluster.placement.shards.items() if not shard.is_draining]
    if not takers:
        raise CommandError(
            ErrorCode.ShardNotFound, "the cluster has no shard for the collection: all are being removed"
        )
    return min(takers, key=lambda name: bytes_of_shard(cluster.stores[name]))


COMMAND = Command(
    "unshardCollection",
    run,
    help="Move a sharded collection to one shard.",
    admin_only=True,
    is_write=True,
)
