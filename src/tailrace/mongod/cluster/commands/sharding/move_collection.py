"""`moveCollection`: move an unsharded collection to another shard."""

from typing import TYPE_CHECKING

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.moves.moves import recipient_shard
from tailrace.mongod.cluster.moves.resharding import NewPlacement, Resharding
from tailrace.mongod.cluster.placement.chunk_map import ChunkMap
from tailrace.mongod.cluster.placement.shard_key import ShardKey
from tailrace.mongod.cluster.placement.state import CONFIG_DATABASES
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.access.needs import on_full_name
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.common_arguments import namespace_argument

if TYPE_CHECKING:
    from tailrace.mongod.cluster.router import Router


async def run(context: RouterContext) -> Reply:
    """Move the collection, unless it is already on the shard."""
    arguments = context.arguments()
    database, name = namespace_argument(arguments, context.name)
    to = arguments.text("toShard")
    arguments.finish()
    router = context.node
    ns = f"{database}.{name}"
    _check(router, database, ns)
    recipient_shard(router.placement, to)

    async def move() -> None:
        _check(router, database, ns)
        shard = recipient_shard(router.placement, to)
        if router.placement.shards_of(ns) != (shard,):
            await Resharding(router.moves, ns, unsharded_on(router, shard, context.name)).run()

    await router.moves.run(move)
    return {}


def _check(router: "Router", database: str, ns: str) -> None:
    if database in CONFIG_DATABASES:
        raise CommandError(ErrorCode.IllegalOperation, f"{ns} cannot be moved from the config server")
    if router.placement.sharded(ns) is not None:
        raise CommandError(
            ErrorCode.IllegalOperation,
            f"{ns} is sharded; moveRange moves ranges of it, unshardCollection all of it",
        )
    if router.states.catalog.view(ns) is not None:
        raise CommandError(ErrorCode.CommandNotSupportedOnView, f"{ns} is a view and cannot be moved")
    if router.states.catalog.collection(ns) is None:
        raise CommandError(ErrorCode.NamespaceNotFound, f"the collection {ns} does not exist")


def unsharded_on(router: "Router", shard: str, provenance: str) -> NewPlacement:
    """The placement of an unsharded collection on one shard."""
    key = ShardKey({"_id": 1})
    chunks = ChunkMap.whole(key, shard, router.clock.tick())
    return NewPlacement(key, chunks, is_unsplittable=True, provenance=provenance, number=1)


COMMAND = Command(
    "moveCollection",
    run,
    needs=on_full_name("moveChunk"),
    help="Move an unsharded collection to another shard.",
    admin_only=True,
    is_write=True,
)
