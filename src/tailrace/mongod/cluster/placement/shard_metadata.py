"""What a shard itself knows about sharding: the fields of each collection's shard key, for its oplog."""

from collections.abc import Iterable

from tailrace.mongod.store.store import Store
from tailrace.mongod.store.write_unit import WriteUnit


async def set_shard_key(store: Store, ns: str, paths: Iterable[str] | None) -> None:
    """Let a shard name the documents of a collection by these fields and `_id`; by `_id` alone with None.

    Nothing is logged. It waits for the transactions that have written to the collection; one that is not
    there stays so.
    """
    await store.write(lambda unit: put_shard_key(unit, ns, paths))


def put_shard_key(unit: WriteUnit, ns: str, paths: Iterable[str] | None) -> None:
    """The same as part of a job."""
    collection = unit.catalog.collection(ns)
    wanted = named_by(paths)
    if collection is not None and collection.shard_key != wanted:
        unit.put_collection(collection.with_changes(shard_key=wanted))


def named_by(paths: Iterable[str] | None) -> tuple[str, ...]:
    """The fields that a collection's catalog entry has for a shard key; `_id` needs no mention."""
    wanted = tuple(paths or ())
    return () if wanted == ("_id",) else wanted
