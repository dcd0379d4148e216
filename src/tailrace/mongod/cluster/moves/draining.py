"""Empty a shard that is being removed, and remove it when nothing is left.

The balancer moves its ranges away. Clients move databases and unsharded collections with `movePrimary` and
`moveCollection`. When nothing is left the shard leaves the cluster; it keeps running as an ordinary replica
set until the process ends.
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
    from tailrace.mongod.cluster.shards import Shards

_NOTE: Final = (
    "you need to call moveCollection for collectionsToMove and afterwards movePrimary for the dbsToMove"
)


@dataclass(frozen=True, slots=True)
class RemainingData:
    chunks: int
    jumbo_chunks: int
    databases: list[str]
    collections: list[str]
    """Unsharded, tracked collections"""
    cleanups: int
    """Moves whose documents have not been removed yet"""

    @classmethod
    def of(cls, moves: DataMoves, shard: str) -> "RemainingData":
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
        return not (self.chunks or self.databases or self.collections or self.cleanups)

    def to_move(self) -> dict[str, Any]:
        """Fields of a reply: what a client has to move."""
        return {"note": _NOTE, "dbsToMove": self.databases, "collectionsToMove": self.collections}

    def counts(self) -> dict[str, Any]:
        """The field `remaining` of a reply."""
        return {
            "chunks": Int64(self.chunks),
            "dbs": Int64(len(self.databases)),
            "collectionsToMove": Int64(len(self.collections)),
            "jumboChunks": Int64(self.jumbo_chunks),
        }


async def leave_if_empty(moves: DataMoves, shards: "Shards", shard: str) -> RemainingData:
    """Remove a shard from the cluster if nothing is left on it; returns what is left.

    To be called through `DataMoves.run`.
    """
    remaining = RemainingData.of(moves, shard)
    if remaining.is_nothing:
        await _remove_empty_copies(shards.placement, shards.stores[shard])
        await shards.remove(shard)
    return remaining


async def _remove_empty_copies(placement: Placement, store: Store) -> None:
    """Remove the empty collections of a shard, so that it can be added again."""
    for database in placement.databases:
        for collection in list(store.catalog.collections(database)):
            await store.write(partial(remove_copy, uuid=collection.uuid))
