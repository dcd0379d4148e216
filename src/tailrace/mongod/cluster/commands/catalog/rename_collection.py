"""`renameCollection` on a router: on every shard that owns a part of the collection.

The first owner logs it; the others log it as part of a migration, so that streams show it once. A sharded
collection cannot change its database. An unsharded one can, if the other database's primary is its shard. An
existing target that may be dropped is dropped by the rename on the owners, and without an event on other
shards.
"""

from typing import TYPE_CHECKING, Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.ddl.collection_shards import check_collection_uuid, find_collection_shards
from tailrace.mongod.cluster.ddl.dropping import drop_unseen
from tailrace.mongod.cluster.ddl.forwarding import forward
from tailrace.mongod.cluster.ddl.guards import exclusive_placement
from tailrace.mongod.cluster.ddl.unfinished import recorded_until_done
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.commands.catalog import rename_collection
from tailrace.mongod.server.dispatch.common_arguments import (
    collection_uuid,
    namespace_argument,
    target_argument,
)
from tailrace.mongod.server.dispatch.internal_calls import call
from tailrace.mongod.store.ddl.create import check_no_view

if TYPE_CHECKING:
    from tailrace.mongod.cluster.router import Router

_PARTICIPANT: Final = "_shardsvrRenameCollectionParticipant"


async def run(context: RouterContext) -> dict[str, Any]:
    arguments = context.arguments()
    source = ".".join(namespace_argument(arguments, context.name))
    target = ".".join(target_argument(arguments, "to"))
    drop_target = rename_collection.read_drop_target(arguments)
    arguments.boolean("stayTemp", False)
    expected = collection_uuid(arguments)
    arguments.finish()
    if source == target:
        raise CommandError(ErrorCode.IllegalOperation, "Can't rename a collection to itself")
    router = context.node
    async with exclusive_placement(context, source, target):
        check_collection_uuid(router.states.catalog, source, expected)
        await _check_databases(router, source, target)
        _check_names(router, source, target, drop_target=drop_target)
        async with recorded_until_done(context):
            await _rename(context, source, target)
    return {}


async def _check_databases(router: "Router", source: str, target: str) -> None:
    """Raise CommandFailed (125) if the collection cannot be renamed to the other database."""
    database, other = source.partition(".")[0], target.partition(".")[0]
    if database == other:
        return
    if router.placement.sharded(source) is not None or router.placement.sharded(target) is not None:
        raise CommandError(
            ErrorCode.CommandFailed,
            f"{source} cannot be renamed to {target}: a sharded collection stays in its database",
        )
    home = router.placement.shards_of(source)
    primary = await router.placement.create_database(other, home[0] if len(home) == 1 else None)
    if home and (primary,) != home:
        raise CommandError(
            ErrorCode.CommandFailed,
            f"{source} cannot be renamed to {target}: the database {other} is on the shard {primary}, "
            f"and the collection on {home[0]}; use movePrimary or moveCollection first",
        )


def _check_names(router: "Router", source: str, target: str, *, drop_target: bool | bytes) -> None:
    """Check that the source exists, and that the target does not, on any shard, or may be dropped."""
    catalog = router.states.catalog
    if catalog.view(source) is not None:
        raise CommandError(ErrorCode.CommandNotSupportedOnView, f"cannot rename view: {source}")
    replaced = catalog.collection(target)
    if replaced is not None and replaced.uuid == _placed_uuid(router, source):
        return  # a kill came after the shards had renamed it and before the placement changed
    if catalog.collection(source) is None:
        raise CommandError(ErrorCode.NamespaceNotFound, f"Source collection {source} does not exist")
    check_no_view(catalog, target)
    if replaced is None:
        return
    if drop_target is False:
        raise CommandError(ErrorCode.NamespaceExists, f"target namespace exists: {target}")
    if isinstance(drop_target, bytes):
        check_collection_uuid(router.states.catalog, target, drop_target)


def _placed_uuid(router: "Router", ns: str) -> bytes | None:
    placed = router.placement.collections.get(ns)
    return None if placed is None else placed.uuid


async def _rename(context: RouterContext, source: str, target: str) -> None:
    """Rename on the owners; skips those that had renamed it before a kill."""
    router = context.node
    placement = router.placement
    uuid = _placed_uuid(router, source)
    owners = placement.shards_of(source)
    for shard in find_collection_shards(router.placement, router.stores, target).all:
        if shard not in owners:
            await drop_unseen(router.stores[shard], target)
    await placement.drop_collection(target)
    for shard in owners:
        in_the_way = router.stores[shard].catalog.collection(target)
        if in_the_way is not None and in_the_way.uuid == uuid:
            continue
        if shard == owners[0]:
            await forward(context, shard, {"dropTarget": in_the_way is not None})
        else:
            await call(router.member(shard), {_PARTICIPANT: source, "to": target}, "admin")
    for shard in find_collection_shards(router.placement, router.stores, source).others:
        await drop_unseen(router.stores[shard], source)
    await placement.rename(source, target)


COMMAND = rename_collection.COMMAND.run_by(run)
