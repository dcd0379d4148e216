"""`refineCollectionShardKey`: add fields to a shard key."""

from typing import TYPE_CHECKING

from tailrace.bson.shell_notation import shell
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.ddl.guards import exclusive_placement
from tailrace.mongod.cluster.ddl.unfinished import recorded_until_done
from tailrace.mongod.cluster.moves.payload_entries import announce_sharded, clear_announcement
from tailrace.mongod.cluster.placement.shard_key import ShardKey
from tailrace.mongod.cluster.placement.shard_key_index import check_has_key_index
from tailrace.mongod.cluster.placement.shard_metadata import set_shard_key
from tailrace.mongod.cluster.placement.state import TrackedCollection
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.access.needs import on_full_name
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.common_arguments import namespace_argument

if TYPE_CHECKING:
    from tailrace.mongod.cluster.router import Router


async def run(context: RouterContext) -> Reply:
    """Change the key; does nothing if the collection already has it."""
    arguments = context.arguments()
    ns = ".".join(namespace_argument(arguments, context.name))
    key = ShardKey(arguments.document("key"))
    arguments.ignore("enforceUniquenessCheck")
    arguments.finish()
    router = context.node
    async with exclusive_placement(context, ns):
        known = router.placement.require(ns)
        if known.key != key:
            _check(router, known, key)
            async with recorded_until_done(context):
                await _refine(router, known, key)
        for shard in router.shards.values():
            await clear_announcement(shard.store, known.uuid)
    return {}


def _check(router: "Router", known: TrackedCollection, key: ShardKey) -> None:
    if not known.key.is_prefix_of(key.pattern):
        raise CommandError(
            ErrorCode.InvalidOptions,
            f"{shell(key.pattern)} does not begin with the shard key of {known.ns}, "
            f"{shell(known.key.pattern)}; use reshardCollection to change the key",
        )
    for name in known.shards:
        with router.stores[name].snapshot() as snapshot:
            collection = snapshot.catalog.by_uuid(known.uuid)
            if collection is not None:
                check_has_key_index(snapshot, collection, key, unique=known.unique)


async def _refine(router: "Router", known: TrackedCollection, key: ShardKey) -> None:
    owners = [router.member(name) for name in known.shards]
    collection = owners[0].store.catalog.by_uuid(known.uuid)
    assert collection is not None, "an owner has the collection"
    for shard in router.shards.values():
        if shard is not owners[0]:
            await set_shard_key(shard.store, known.ns, key.paths)
    payload = {
        "refineCollectionShardKey": known.ns,
        "shardKey": key.pattern,
        "oldShardKey": known.key.pattern,
    }
    await announce_sharded(owners[0].store, collection, key.paths, payload)
    await router.placement.refine(known.ns, key)


COMMAND = Command(
    "refineCollectionShardKey",
    run,
    needs=on_full_name("refineCollectionShardKey"),
    help="Add fields to the end of a shard key.",
    admin_only=True,
    is_write=True,
)
