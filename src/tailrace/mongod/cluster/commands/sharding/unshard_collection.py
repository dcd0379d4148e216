"""`unshardCollection`: move a sharded collection to one shard."""

from typing import TYPE_CHECKING

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.commands.sharding.move_collection import unsharded_on
from tailrace.mongod.cluster.moves.balancing import bytes_of_shard
from tailrace.mongod.cluster.moves.moves import recipient_shard
from tailrace.mongod.cluster.moves.resharding import Resharding
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.access.needs import on_full_name
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.common_arguments import namespace_argument

if TYPE_CHECKING:
    from tailrace.mongod.cluster.router import Router


async def run(context: RouterContext) -> Reply:
    """Move all documents to the shard that is named, or to the one with the least data."""
    arguments = context.arguments()
    ns = ".".join(namespace_argument(arguments, context.name))
    to = arguments.text("toShard", None)
    arguments.finish()
    router = context.node
    router.placement.require(ns)

    async def move() -> None:
        router.placement.require(ns)
        shard = _emptiest(router) if to is None else recipient_shard(router.placement, to)
        await Resharding(router.moves, ns, unsharded_on(router, shard, context.name)).run()

    await router.moves.run(move)
    return {}


def _emptiest(router: "Router") -> str:
    takers = [name for name, shard in router.placement.shards.items() if not shard.is_draining]
    if not takers:
        raise CommandError(
            ErrorCode.ShardNotFound, "the cluster has no shard for the collection: all are being removed"
        )
    return min(takers, key=lambda name: bytes_of_shard(router.stores[name]))


COMMAND = Command(
    "unshardCollection",
    run,
    needs=on_full_name("reshardCollection"),
    help="Move a sharded collection to one shard.",
    admin_only=True,
    is_write=True,
)
