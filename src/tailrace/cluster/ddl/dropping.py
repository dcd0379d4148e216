"""Dropping collections and databases on shards.

An owner of a collection logs its drop, so a stream shows one for each. What others have of it goes without
an event. A database ends on its primary; elsewhere its end is logged as part of a migration, so that streams
show it once.
"""

from typing import TYPE_CHECKING

from tailrace.cluster.ddl.having import shards_having
from tailrace.server.server import Server
from tailrace.store.ddl.drop import drop_collection, drop_everything
from tailrace.store.ddl.lookup import check_unused
from tailrace.store.write_unit import WriteUnit

if TYPE_CHECKING:
    from tailrace.cluster.cluster import Cluster


async def drop_unseen(shard: Server, ns: str) -> None:
    """Drop what a shard has of a collection; streams do not show it."""
    await _drop(shard, ns, from_migrate=True)


async def drop_owned(cluster: "Cluster", ns: str) -> None:
    """Drop a collection with a place of its own on all shards, and forget the place."""
    having = shards_having(cluster, ns)
    for name in having.others:
        await drop_unseen(cluster.server(name), ns)
    for name in having.owners:
        await _drop(cluster.server(name), ns, from_migrate=None)
    await cluster.placement.drop_collection(ns)


async def drop_database(cluster: "Cluster", database: str, primary: str) -> bool:
    """Drop a database on all shards and forget it; whether there was anything in it."""
    had_collections = any(
        next(shard.store.catalog.collections(database), None) is not None for shard in cluster.shards.values()
    )
    placed = [ns for ns in cluster.placement.collections if ns.partition(".")[0] == database]
    for ns in placed:
        await drop_owned(cluster, ns)
    if had_collections:
        others = [shard for name, shard in cluster.shards.items() if name != primary]
        for shard in others:
            await shard.store.write(lambda unit: drop_everything(unit, database, from_migrate=True))
        await cluster.server(primary).store.write(lambda unit: drop_everything(unit, database))
    await cluster.placement.drop_database(database)
    return had_collections


async def _drop(shard: Server, ns: str, *, from_migrate: bool | None) -> None:
    def work(unit: WriteUnit) -> None:
        collection = unit.catalog.collection(ns)
        if collection is not None:
            check_unused(unit, collection)
            drop_collection(unit, collection, from_migrate=from_migrate)

    await shard.store.write(work)
