"""Dropping collections and databases on shards.

An owner of a collection logs its drop, so a stream shows one for each. What others have of it goes without
an event. A database ends on its primary; elsewhere its end is logged as part of a migration, so that streams
show it once.
"""

from typing import TYPE_CHECKING

from tailrace.bson.documents import decode
from tailrace.mongod.cluster.ddl.collection_shards import shards_having
from tailrace.mongod.server.server import Server
from tailrace.mongod.store.ddl.drop import drop_collection, drop_everything
from tailrace.mongod.store.write_unit import WriteUnit

if TYPE_CHECKING:
    from tailrace.mongod.cluster.cluster import Cluster


async def drop_unseen(shard: Server, ns: str) -> None:
    """Drop what a shard has of a collection; streams do not show it."""
    await _drop(shard, ns, from_migrate=True)


async def drop_owned(cluster: "Cluster", ns: str) -> None:
    """Drop a collection with a place of its own on all shards, and forget the place."""
    await _drop_everywhere(cluster, ns)
    await cluster.placement.drop_collection(ns)


async def drop_database(cluster: "Cluster", database: str, primary: str) -> bool:
    """Drop a database on all shards and forget it; whether there was anything in it.

    The places of its collections are forgotten last: a kill before that leaves a trace of what is to be done.
    """
    placement = cluster.placement
    placed = [ns for ns in placement.collections if ns.partition(".")[0] == database]
    is_on_shards = any(
        next(shard.store.catalog.collections(database), None) is not None for shard in cluster.shards.values()
    )
    for ns in placed:
        await _drop_everywhere(cluster, ns)
    home = cluster.server(primary)
    since = placement.databases[database].timestamp
    if is_on_shards or (placed and not _has_ended(home, database, since)):
        for name, shard in cluster.shards.items():
            if name != primary:
                await shard.store.write(lambda unit: drop_everything(unit, database, from_migrate=True))
        await home.store.write(lambda unit: drop_everything(unit, database))
    await placement.drop_database(database)
    return is_on_shards or bool(placed)


def _has_ended(primary: Server, database: str, since: int) -> bool:
    """Whether the end of a database that was made at a time is in the oplog: a kill came right behind it."""
    ns = f"{database}.$cmd".encode()
    with primary.store.snapshot() as snapshot:
        for _, entry in snapshot.entries(since):
            found = decode(entry) if ns in entry else {"o": ()}
            if "dropDatabase" in found["o"] and not found.get("fromMigrate"):
                return True
    return False


async def _drop_everywhere(cluster: "Cluster", ns: str) -> None:
    having = shards_having(cluster, ns)
    for name in having.others:
        await drop_unseen(cluster.server(name), ns)
    for name in having.owners:
        await _drop(cluster.server(name), ns, from_migrate=None)


async def _drop(shard: Server, ns: str, *, from_migrate: bool | None) -> None:
    def work(unit: WriteUnit) -> None:
        collection = unit.catalog.collection(ns)
        if collection is not None:
            unit.check_unused(collection)
            drop_collection(unit, collection, from_migrate=from_migrate)

    await shard.store.write(work)
