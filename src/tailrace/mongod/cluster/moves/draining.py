"""A shard that is to be removed: what is still on it, and its leaving.

Its ranges are moved away by the balancer. Databases whose primary it is, and unsharded collections that were
placed there, a client moves by `movePrimary` and `moveCollection`. When nothing is left it leaves the cluster
and goes on as an ordinary replica set, as long as the process runs.
"""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from tailrace.mongod.cluster.moves.collection_copies import remove_copy
from tailrace.mongod.cluster.moves.moves import DataMoves
from tailrace.mongod.cluster.placement.changes import Placement
from tailrace.mongod.store.store import Store

if TYPE_CHECKING:
    from tailrace.mongod.cluster.cluster import Cluster

_NOTE: Final = (
    "you need to call moveCollection for collectionsToMove and afterwards movePrimary for the dbsToMove"
)


@dataclass(frozen=True, slots=True)
class Remaining:
    """What is still on a shard."""

    chunks: int
    jumbo_chunks: int
    databases: list[str]
    collections: list[str]
    """Unsharded ones that were placed there"""
    cleanups: int
    """Moves whose documents have not been removed yet"""

    @classmethod
    def of(cls, moves: DataMoves, shard: str) -> "Remaining":
        """What a shard has now."""
        placement = moves.placement
        sharded = [own for own in placement.collections.values() if not own.is_unsplittable]
        chunks = [chunk for own in sharded for chunk in own.chunks.of_shard(shard)]
        return cls(
            len(chunks),
            sum(chunk.is_jumbo for chunk in chunks),
            [name for name, database in placement.databases.items() if database.primary == shard],
            [own.ns for own in placement.collections.values() if own.is_unsplittable and shard in own.shards],
            sum(
                shard in (cleanup.record.get("donorShardId"), cleanup.record.get("recipientShardId"))
                for cleanup in moves.cleanups.values()
            ),
        )

    @property
    def is_nothing(self) -> bool:
        """Whether the shard can leave."""
        return not (self.chunks or self.databases or self.collections or self.cleanups)

    def shown(self) -> dict[str, Any]:
        """What a client has to do something about."""
        return {"note": _NOTE, "dbsToMove": self.databases, "collectionsToMove": self.collections}

    def counts(self) -> dict[str, Any]:
        """The field `remaining` of a reply."""
        return {
            "chunks": Int64(self.chunks),
            "dbs": Int64(len(self.databases)),
            "collectionsToMove": Int64(len(self.collections)),
            "jumboChunks": Int64(self.jumbo_chunks),
        }


async def leave_if_empty(cluster: "Cluster", shard: str) -> Remaining:
    """Take a shard out of the cluster if nothing is left on it; what was left. To be called in its turn."""
    remaining = Remaining.of(cluster.moves, shard)
    if remaining.is_nothing:
        await _remove_empty_copies(cluster.placement, cluster.stores[shard])
        await cluster.let_go(shard)
    return remaining


async def _remove_empty_copies(placement: Placement, store: Store) -> None:
    """Remove the empty collections that are left of what the shard had, so that it can come again."""
    for database in placement.databases:
        for collection in list(store.catalog.collections(database)):
            await store.write(partial(remove_copy, uuid=collection.uuid))
