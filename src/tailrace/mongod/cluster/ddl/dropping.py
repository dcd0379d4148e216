"""Drop collections and databases on shards.

Every owner of a collection logs its drop, so streams show one for each. Copies on other shards are dropped
without an event. The primary logs the drop of a database; the other shards log it as part of a migration, so
that streams show it once.
"""

from collections.abc import Mapping

from tailrace.bson.documents import decode
from tailrace.mongod.cluster.ddl.collection_shards import Stores, find_collection_shards
from tailrace.mongod.cluster.placement.changes import Placement
from tailrace.mongod.cluster.placement.state import CONFIG_SHARD
from tailrace.mongod.store.ddl.drop import drop_collection, drop_everything
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.write_unit import WriteUnit


async def drop_unseen(store: Store, ns: str) -> None:
    """Drop a shard's copy of a collection; streams do not show it."""
    await _drop(store, ns, from_migrate=True)


async def drop_placed(placement: Placement, stores: Stores, ns: str) -> None:
    """Drop a collection that the placement lists on all shards, then its placement."""
    await _drop_everywhere(placement, stores, ns)
    await placement.drop_collection(ns)


async def drop_database(placement: Placement, stores: Stores, database: str, primary: str) -> bool:
    """Drop a database on all shards, then its placement; returns whether there was anything in it.

    The placement changes last, so that a command that a kill interrupted can be run again.
    """
    shards: Mapping[str, Store] = {name: store for name, store in stores.items() if name != CONFIG_SHARD}
    placed = [ns for ns in placement.collections if ns.partition(".")[0] == database]
    is_on_shards = any(
        next(store.catalog.collections(database), None) is not None for store in shards.values()
    )
    for ns in placed:
        await _drop_everywhere(placement, stores, ns)
    since = placement.databases[database].timestamp
    if is_on_shards or (placed and not _is_drop_logged(stores[primary], database, since)):
        for name, store in shards.items():
            if name != primary:
                await store.write(lambda unit: drop_everything(unit, database, from_migrate=True))
        await stores[primary].write(lambda unit: drop_everything(unit, database))
    await placement.drop_database(database)
    return is_on_shards or bool(placed)


def _is_drop_logged(primary: Store, database: str, since: int) -> bool:
    """Whether a drop of the database was logged since a cluster time: a kill came right after it."""
    ns = f"{database}.$cmd".encode()
    with primary.snapshot() as snapshot:
        for _, entry in snapshot.entries(since):
            found = decode(entry) if ns in entry else {"o": ()}
            if "dropDatabase" in found["o"] and not found.get("fromMigrate"):
                return True
    return False


async def _drop_everywhere(placement: Placement, stores: Stores, ns: str) -> None:
    shards = find_collection_shards(placement, stores, ns)
    for name in shards.others:
        await drop_unseen(stores[name], ns)
    for name in shards.owners:
        await _drop(stores[name], ns, from_migrate=None)


async def _drop(store: Store, ns: str, *, from_migrate: bool | None) -> None:
    def work(unit: WriteUnit) -> None:
        collection = unit.catalog.collection(ns)
        if collection is not None:
            unit.check_unused(collection)
            drop_collection(unit, collection, from_migrate=from_migrate)

    await store.write(work)
