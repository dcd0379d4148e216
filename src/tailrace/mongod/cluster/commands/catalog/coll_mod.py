"""`collMod` on a router: on every shard that has the collection; for a view on its database's primary."""

from collections.abc import Mapping
from typing import Any

from tailrace.bson.shell_notation import shell
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.ddl.collection_shards import (
    check_collection_uuid,
    collection_with_all_indexes,
    find_collection_shards,
)
from tailrace.mongod.cluster.ddl.forwarding import forward, forward_in_turn, raw_replies
from tailrace.mongod.cluster.ddl.guards import exclusive_placement
from tailrace.mongod.cluster.ddl.unfinished import recorded_until_done
from tailrace.mongod.cluster.placement.shard_key_index import may_be_unique, supports_key
from tailrace.mongod.cluster.placement.state import TrackedCollection
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.commands.catalog import coll_mod
from tailrace.mongod.server.dispatch.common_arguments import collection_uuid
from tailrace.mongod.store.catalog import Collection, Index


async def run(context: RouterContext) -> dict[str, Any]:
    ns = f"{context.database}.{context.collection_name()}"
    expected = collection_uuid(context.arguments())
    router = context.node
    async with exclusive_placement(context, ns):
        check_collection_uuid(router.states.catalog, ns, expected)
        sharded = router.placement.sharded(ns)
        if sharded is None:
            shards = router.placement.shards_of(ns)
            if not shards:
                raise CommandError(ErrorCode.NamespaceNotFound, f"ns does not exist: {ns}")
            return raw_replies(context, {shards[0]: await forward(context, shards[0])})
        collection = collection_with_all_indexes(router.placement, router.stores, ns)
        if collection is not None:
            _check_index_change(sharded, collection, context.command.get("index"))
        async with recorded_until_done(context):
            return raw_replies(
                context,
                await forward_in_turn(
                    context, find_collection_shards(router.placement, router.stores, ns).all
                ),
            )


def _check_index_change(sharded: TrackedCollection, collection: Collection, change: Any) -> None:
    """Refuse to hide the last index that supports the shard key, and unenforceable unique indexes."""
    index = _named(collection, change) if isinstance(change, Mapping) else None
    if index is None:
        return
    pattern = shell(sharded.key.pattern)
    for option in ("unique", "prepareUnique"):
        if change.get(option) and not may_be_unique(sharded.key, dict(index.key)):
            raise CommandError(
                ErrorCode.InvalidOptions,
                f"the index {index.name} cannot have '{option}': it does not begin with the "
                f"shard key {pattern}",
            )
    others = [other for other in collection.indexes if other is not index]
    if change.get("hidden") and not any(supports_key(sharded.key, other) for other in others):
        raise CommandError(
            ErrorCode.InvalidOptions,
            f"the index {index.name} cannot be hidden: no other one begins with the shard key {pattern}",
        )


def _named(collection: Collection, change: Mapping[str, Any]) -> Index | None:
    pattern = change.get("keyPattern")
    for index in collection.indexes:
        is_same_key = isinstance(pattern, Mapping) and dict(index.key) == dict(pattern)
        if index.name == change.get("name") or is_same_key:
            return index
    return None


COMMAND = coll_mod.COMMAND.run_by(run)
