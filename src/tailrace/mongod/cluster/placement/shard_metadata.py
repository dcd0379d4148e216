"""Store the fields of a collection's shard key in a shard's catalog, for the document keys in its oplog."""

from collections.abc import Iterable

from tailrace.mongod.store.store import Store
from tailrace.mongod.store.write_unit import WriteUnit


async def set_shard_key(store: Store, ns: str, paths: Iterable[str] | None) -> None:
    """Use these fields and `_id` as document keys of a collection; only `_id` if ``paths`` is None.

    Nothing is logged. It waits for transactions that have written to the collection. A collection that does
    not exist is not created.
    """
    await store.write(lambda unit: put_shard_key(unit, ns, paths))


def put_shard_key(unit: WriteUnit, ns: str, paths: Iterable[str] | None) -> None:
    """Like `set_shard_key`, as part of a job."""
    collection = unit.catalog.collection(ns)
    wanted = stored_key_fields(paths)
    if collection is not None and collection.shard_key != wanted:
        unit.put_collection(collection.with_changes(shard_key=wanted))


def stored_key_fields(paths: Iterable[str] | None) -> tuple[str, ...]:
    """The fields that a catalog entry stores for a shard key; none for the key `_id`."""
    wanted = tuple(paths or ())
    return () if wanted == ("_id",) else wanted
