"""A range of a sharded collection moves from one shard to another.

1. The move is written down, and the collection marked: from now on readers and writers look whose document it
   is that a shard has.
2. The documents are copied while the range is written to (`document_copy`).
3. Nobody may write for a moment: the rest is copied, and the placement changes. That is the whole of the
   commit; new readers find the documents on the recipient.
4. The donor's documents are removed when no cursor reads them any more.

Killed before 3, the copies are removed by the next start; killed after it, the donor's documents are.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from bson import Binary

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.moves.collection_copies import copy_collection, is_alike
from tailrace.mongod.cluster.moves.document_copy import DocumentCopy, Source
from tailrace.mongod.cluster.moves.exclusive import alone_at_last
from tailrace.mongod.cluster.moves.moves import recipient
from tailrace.mongod.cluster.moves.orphans import remove_orphans
from tailrace.mongod.cluster.moves.payload_entries import log_payload
from tailrace.mongod.cluster.placement.key_range import KeyRange
from tailrace.mongod.cluster.placement.shard_key import ShardKey
from tailrace.mongod.cluster.placement.state import ShardedCollection
from tailrace.mongod.store.catalog import Collection

if TYPE_CHECKING:
    from tailrace.mongod.cluster.cluster import Cluster

KIND: Final = "range"
_UUID: Final = 4


class Migration:
    """The move of one range, which lies within one chunk."""

    def __init__(
        self, cluster: "Cluster", ns: str, low: Mapping[str, Any], high: Mapping[str, Any], recipient: str
    ) -> None:
        self._cluster = cluster
        self._ns = ns
        self._low = dict(low)
        self._high = dict(high)
        self._recipient = recipient
        collection = cluster.placement.require(ns)
        self._uuid = collection.uuid
        self._range = KeyRange.between(collection.key, low, high)
        self._donor = collection.chunks.owner_of(self._range.lower)
        self._from = cluster.server(self._donor)
        self._to = cluster.server(recipient)

    async def run(self) -> "asyncio.Task[None] | None":
        """Move it; the task that removes what is left on the donor, or None if there was nothing to move.

        To be called when it is this move's turn.
        """
        if self._donor == self._recipient:
            return None
        cluster = self._cluster
        moves = cluster.moves
        record = await moves.records.add(self._record())
        await self._log("moveChunk.start")
        try:
            await self._prepare()
            copy = self._copy()
            await copy.begin()
            async with alone_at_last(cluster.placement, self._ns, meanwhile=copy.catch_up):
                await self._commit(copy)
        except Exception as error:
            await self._log("moveChunk.error", note=str(error))
            await moves.clean_up(record)
            raise
        return moves.clean_up(record, version=cluster.placement.version)

    def _record(self) -> dict[str, Any]:
        return {
            "kind": KIND,
            "ns": self._ns,
            "collectionUuid": Binary(self._uuid, _UUID),
            "key": self._range.key.pattern,
            "range": {"min": self._low, "max": self._high},
            "donorShardId": self._donor,
            "recipientShardId": self._recipient,
        }

    async def _log(self, what: str, **more: Any) -> None:
        details = {
            "min": self._low,
            "max": self._high,
            "from": self._donor,
            "to": self._recipient,
            **more,
        }
        await self._cluster.placement.log_change(what, self._ns, details)

    async def _prepare(self) -> None:
        # Alone, so that no write is under way that would not look whose documents it finds.
        placement = self._cluster.placement
        async with alone_at_last(placement, self._ns):
            original = self._checked()
            if self._recipient not in placement.require(self._ns).shards:
                await copy_collection(self._to, original)
            await placement.mark_orphans(self._ns, may_have=True)

    def _checked(self) -> Collection:
        """The collection on the donor, which has to be what it was; ConflictingOperationInProgress (117)."""
        collection = self._cluster.placement.sharded(self._ns)
        found = self._from.store.catalog.by_uuid(self._uuid)
        if (
            collection is None
            or found is None
            or collection.uuid != self._uuid
            or collection.key != self._range.key
            or collection.chunks.owners_of(self._range.lower, self._range.upper) != {self._donor}
        ):
            raise CommandError(
                ErrorCode.ConflictingOperationInProgress,
                f"{self._ns} was dropped, sharded in another way or moved while a range of it was moved",
            )
        return found

    def _copy(self) -> DocumentCopy:
        source = Source(self._from.store, self._uuid, self._range.records, self._range.contains)
        return DocumentCopy(
            [source],
            {self._recipient: self._to.store},
            self._uuid,
            lambda _document: self._recipient,
            self._range.contains,
        )

    async def _commit(self, copy: DocumentCopy) -> None:
        """The end of it, while nobody else uses the collection."""
        placement = self._cluster.placement
        original = self._checked()
        copied = self._to.store.catalog.by_uuid(self._uuid)
        if copied is None or not is_alike(copied, original):
            raise CommandError(
                ErrorCode.ConflictingOperationInProgress,
                f"the indexes or options of {self._ns} were changed while a range of it was moved; try again",
            )
        await copy.catch_up()
        if self._recipient not in placement.require(self._ns).shards:
            shards = {"fromShardId": self._donor, "toShardId": self._recipient}
            await self._tell({"migrateChunkToNewShard": self._ns, **shards})
        await placement.move(self._ns, self._low, self._high, self._recipient)
        await self._after_commit(copy)

    async def _after_commit(self, copy: DocumentCopy) -> None:
        is_last = self._donor not in self._cluster.placement.require(self._ns).shards
        if is_last:
            await self._tell({"migrateLastChunkFromShard": self._ns, "shardId": self._donor})
        ends = {"donor": self._donor, "recipient": self._recipient}
        await self._tell({"moveChunk": self._ns, **ends, "allCollectionChunksMigratedFromDonor": is_last})
        await self._log("moveChunk.from", clonedDocs=copy.documents)

    async def _tell(self, payload: Mapping[str, Any]) -> None:
        await log_payload(self._from, self._ns, self._uuid, payload)


async def move_range(
    cluster: "Cluster",
    ns: str,
    low: Mapping[str, Any],
    high: Mapping[str, Any],
    to: str,
    *,
    waits_for_delete: bool = False,
) -> None:
    """Move a range within a chunk to a shard; with ``waits_for_delete`` nothing of it is left behind then."""
    placement = cluster.placement
    recipient(placement, to)
    moved = placement.require(ns)
    within = KeyRange.between(moved.key, low, high)

    def is_behind(record: Mapping[str, Any]) -> bool:
        """The recipient may still have documents of the range from an earlier stay."""
        is_same = record["kind"] == KIND and bytes(record["collectionUuid"]) == moved.uuid
        return is_same and within.meets(_range_of(record))

    async def move() -> "asyncio.Task[None] | None":
        return await Migration(cluster, ns, low, high, recipient(placement, to)).run()

    cleanup = await cluster.moves.run(move, is_behind=is_behind)
    if waits_for_delete and cleanup is not None:
        await asyncio.shield(cleanup)


async def finish(cluster: "Cluster", record: Mapping[str, Any]) -> None:
    """Remove what the donor or the recipient of a range has that it does not own."""
    uuid = bytes(record["collectionUuid"])
    for shard in (record["donorShardId"], record["recipientShardId"]):
        if shard in cluster.shards:
            await remove_orphans(cluster, shard, uuid, _range_of(record))

    def is_moved() -> bool:
        others = (other for other in cluster.moves.records if other["_id"] != record["_id"])
        return any(other["kind"] == KIND and bytes(other["collectionUuid"]) == uuid for other in others)

    placed = _by_uuid(cluster, uuid)
    if placed is not None:
        await cluster.placement.mark_orphans(placed.ns, may_have=False, unless=is_moved)


def _by_uuid(cluster: "Cluster", uuid: bytes) -> ShardedCollection | None:
    return next((own for own in cluster.placement.collections.values() if own.uuid == uuid), None)


def _range_of(record: Mapping[str, Any]) -> KeyRange:
    key = ShardKey(record["key"])
    return KeyRange.between(key, record["range"]["min"], record["range"]["max"])
