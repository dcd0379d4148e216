"""Removing documents from a shard that does not own them."""

from itertools import islice
from typing import TYPE_CHECKING, Final

from tailrace.mongod.cluster.placement.key_range import KeyRange
from tailrace.mongod.cluster.placement.state import ShardedCollection
from tailrace.mongod.store.reader import Record
from tailrace.mongod.store.write_unit import WriteUnit

if TYPE_CHECKING:
    from tailrace.mongod.cluster.cluster import Cluster

_AT_ONCE: Final = 500


async def remove_orphans(cluster: "Cluster", shard: str, uuid: bytes, within: KeyRange) -> int:
    """Remove from a shard what another owns of a collection's range; how many documents that were.

    No stream shows it. A collection that is gone has none.
    """
    store = cluster.server(shard).store
    removed = 0
    while True:
        owned = _placed(cluster, uuid)
        if owned is None:
            return removed
        with store.snapshot() as snapshot:
            collection = snapshot.catalog.by_uuid(uuid)
            if collection is None:
                return removed
            found = within.records(snapshot, collection)
            some = list(islice((record for record in found if not owned.owns(shard, record[1])), _AT_ONCE))

        def work(unit: WriteUnit, some: list[Record] = some) -> None:
            unit.moves_data = True
            collection = unit.catalog.by_uuid(uuid)
            for key, document in some if collection is not None else ():
                assert collection is not None
                if unit.record(collection, key) == document:
                    unit.delete(collection, key, document, grouped=True)

        if not some:
            return removed
        await store.write(work)
        removed += len(some)


def _placed(cluster: "Cluster", uuid: bytes) -> ShardedCollection | None:
    """Where a collection is, whatever it is called now."""
    return next((own for own in cluster.placement.collections.values() if own.uuid == uuid), None)
