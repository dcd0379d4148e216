"""What a shard itself knows about sharding: the fields of each collection's shard key, for its oplog."""

from collections.abc import Iterable

from tailrace.server.server import Server
from tailrace.store.write_unit import WriteUnit


async def set_shard_key(shard: Server, ns: str, paths: Iterable[str] | None) -> None:
    """Let a shard name the documents of a collection by these fields and `_id`; by `_id` alone with None.

    Nothing is logged. It waits for the transactions that have written to the collection; one that is not
    there stays so.
    """
    wanted = tuple(paths or ())
    if wanted == ("_id",):
        wanted = ()

    def work(unit: WriteUnit) -> None:
        collection = unit.catalog.collection(ns)
        if collection is not None and collection.shard_key != wanted:
            unit.put_collection(collection.having(shard_key=wanted))

    await shard.store.write(work)
