"""The one entry that tells streams of a collection's being sharded, however often a kill interrupts that.

The entry, the key by which the shard names documents from then on, and a mark that says so are one job of the
shard's store. The mark goes when the placement has the rest.
"""

from collections.abc import Mapping
from typing import Any

from tailrace.mongod.cluster.moves.payload_entries import payload_entry
from tailrace.mongod.cluster.placement.shard_metadata import put_shard_key
from tailrace.mongod.server.server import Server
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.write_unit import WriteUnit


async def announce(
    shard: Server, collection: Collection, paths: tuple[str, ...], payload: Mapping[str, Any]
) -> None:
    """Log the payload and take over the key, unless that was done before a kill."""
    entry = payload_entry(collection.ns, collection.uuid, payload)

    def work(unit: WriteUnit) -> None:
        if unit.meta(_mark(collection.uuid)) is None:
            put_shard_key(unit, collection.ns, paths)
            unit.log(entry)
            unit.put_meta(_mark(collection.uuid), b"1")

    await shard.store.write(work)


async def announced(shard: Server, uuid: bytes) -> None:
    """Forget the mark: everything else is done."""
    with shard.store.snapshot() as snapshot:
        is_marked = snapshot.meta(_mark(uuid)) is not None
    if is_marked:
        await shard.store.write(lambda unit: unit.put_meta(_mark(uuid), None))


def _mark(uuid: bytes) -> str:
    return f"sharding.{uuid.hex()}"
