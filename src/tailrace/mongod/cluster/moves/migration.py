"""Move a range of a sharded collection from one shard to another.

1. The move is recorded, and the collection is marked: from now on readers and writers check the owner of each
   document.
2. The documents are copied while the range is being written to (`document_copy`).
3. Nobody can write for a moment: the rest is copied, and the placement changes. This is the commit; new
   readers find the documents on the recipient.
4. The donor's documents are removed as soon as no cursor reads them.

After a kill before step 3 the next start removes the copies, after a later kill the donor's documents.
"""

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final

from bson import Binary
from bson.binary import UUID_SUBTYPE

from tailrace.bson.shell_notation import shell
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.moves.collection_copies import copy_collection, is_same_definition
from tailrace.mongod.cluster.moves.document_copy import DocumentCopy, Source
from tailrace.mongod.cluster.moves.exclusive import exclusive_access
from tailrace.mongod.cluster.moves.moves import DataMoves, recipient_shard
from tailrace.mongod.cluster.moves.payload_entries import log_payload
from tailrace.mongod.cluster.placement.key_range import KeyRange
from tailrace.mongod.cluster.placement.shard_key import ShardKey
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.reader import Record
from tailrace.mongod.store.write_unit import WriteUnit

KIND: Final = "range"
_REMOVED_AT_ONCE: Final = 500


class Migration:
    """The move of one range, which must be within one chunk."""

    def __init__(
        self, moves: DataMoves, ns: str, low: Mapping[str, Any], high: Mapping[str, Any], recipient: str
    ) -> None:
        self._moves = moves
        self._placement = moves.placement
        self._ns = ns
        self._low = dict(low)
        self._high = dict(high)
        self._recipient = recipient
        collection = moves.placement.require(ns)
        self._uuid = collection.uuid
        self._range = KeyRange.between(collection.key, low, high)
        self._donor = collection.chunks.owner_of(self._range.lower)
        self._from = moves.stores[self._donor]
        self._to = moves.stores[recipient]

    async def run(self) -> "asyncio.Task[None] | None":
        """Run the move, through `DataMoves.run`.

        Returns the task that removes the documents from the donor, or None if there was nothing to move.
        """
        if self._donor == self._recipient:
            return None
        moves, placement = self._moves, self._placement
        record = await moves.records.add(self._record())
        await self._log("moveChunk.start")
        try:
            await self._prepare()
            copy = self._copy()
            await copy.begin()
            await moves.after_copy(self._recipient)
            async with exclusive_access(placement, self._ns, meanwhile=copy.catch_up):
                await self._commit(copy)
        except Exception as error:
            await self._log("moveChunk.error", note=str(error))
            await moves.clean_up(record)
            raise
        return moves.clean_up(record, version=placement.version)

    def _record(self) -> dict[str, Any]:
        return {
            "kind": KIND,
            "ns": self._ns,
            "collectionUuid": Binary(self._uuid, UUID_SUBTYPE),
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
        await self._placement.log_change(what, self._ns, details)

    async def _prepare(self) -> None:
        # Exclusively, so that no write is running that does not check ownership.
        placement = self._placement
        async with exclusive_access(placement, self._ns):
            original = self._checked()
            if self._recipient not in placement.require(self._ns).shards:
                await copy_collection(self._to, original)
            await placement.mark_orphans(self._ns, may_have=True)

    def _checked(self) -> Collection:
        """The collection on the donor; raises ConflictingOperationInProgress (117) if it has changed."""
        collection = self._placement.sharded(self._ns)
        found = self._from.catalog.by_uuid(self._uuid)
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
        source = Source(self._from, self._uuid, self._range.records, self._range.contains)
        return DocumentCopy(
            [source],
            {self._recipient: self._to},
            self._uuid,
            lambda _document: self._recipient,
            self._range.contains,
        )

    async def _commit(self, copy: DocumentCopy) -> None:
        """Copy the rest and change the placement, while nobody else uses the collection."""
        placement = self._placement
        original = self._checked()
        copied = self._to.catalog.by_uuid(self._uuid)
        if copied is None or not is_same_definition(copied, original):
            raise CommandError(
                ErrorCode.ConflictingOperationInProgress,
                f"the indexes or options of {self._ns} were changed while a range of it was moved; try again",
            )
        await copy.catch_up()
        if self._recipient not in placement.require(self._ns).shards:
            shards = {"fromShardId": self._donor, "toShardId": self._recipient}
            await self._log_event({"migrateChunkToNewShard": self._ns, **shards})
        await placement.move(self._ns, self._low, self._high, self._recipient)
        await self._after_commit(copy)

    async def _after_commit(self, copy: DocumentCopy) -> None:
        is_last = self._donor not in self._placement.require(self._ns).shards
        if is_last:
            await self._log_event({"migrateLastChunkFromShard": self._ns, "shardId": self._donor})
        ends = {"donor": self._donor, "recipient": self._recipient}
        await self._log_event(
            {"moveChunk": self._ns, **ends, "allCollectionChunksMigratedFromDonor": is_last}
        )
        await self._log("moveChunk.from", clonedDocs=copy.documents)

    async def _log_event(self, payload: Mapping[str, Any]) -> None:
        await log_payload(self._from, self._ns, self._uuid, payload)


async def move_range(
    moves: DataMoves,
    ns: str,
    low: Mapping[str, Any],
    high: Mapping[str, Any],
    to: str,
    *,
    waits_for_delete: bool = False,
) -> None:
    """Move a range within a chunk to a shard; ``waits_for_delete``: until the donor's copy is removed."""
    placement = moves.placement
    to = recipient_shard(placement, to)
    moved = placement.require(ns)
    within = KeyRange.between(moved.key, low, high)
    if not placement.zones(ns, moved.key).allows(low, high, to):
        reason = f"Shard {to} is not in the zone of the range {shell(dict(low))} to {shell(dict(high))}"
        raise CommandError(ErrorCode.IllegalOperation, reason)

    def must_wait_for(record: Mapping[str, Any]) -> bool:
        """The recipient may still have documents of the range from an earlier move."""
        is_same = record["kind"] == KIND and bytes(record["collectionUuid"]) == moved.uuid
        return is_same and within.overlaps(_range_of(record))

    async def move() -> "asyncio.Task[None] | None":
        return await Migration(moves, ns, low, high, recipient_shard(placement, to)).run()

    cleanup = await moves.run(move, must_wait_for=must_wait_for)
    if waits_for_delete and cleanup is not None:
        await asyncio.shield(cleanup)


async def finish_range_move(moves: DataMoves, record: Mapping[str, Any]) -> None:
    """Remove the documents of a move's range from the donor or the recipient, whichever does not own them."""
    uuid = bytes(record["collectionUuid"])
    for shard in (record["donorShardId"], record["recipientShardId"]):
        if shard in moves.stores:
            await remove_orphans(moves, shard, uuid, _range_of(record))

    def is_moved() -> bool:
        others = (other for other in moves.records if other["_id"] != record["_id"])
        return any(other["kind"] == KIND and bytes(other["collectionUuid"]) == uuid for other in others)

    placed = moves.placement.state.by_uuid(uuid)
    if placed is not None:
        await moves.placement.mark_orphans(placed.ns, may_have=False, unless=is_moved)


async def remove_orphans(moves: DataMoves, shard: str, uuid: bytes, within: KeyRange) -> None:
    """Remove the documents of a range that a shard has and does not own; streams do not show it."""
    store = moves.stores[shard]
    while True:
        owned = moves.placement.state.by_uuid(uuid)
        if owned is None:
            return
        with store.snapshot() as snapshot:
            collection = snapshot.catalog.by_uuid(uuid)
            if collection is None:
                return
            found = within.records(snapshot, collection)
            some = list(
                islice((record for record in found if not owned.owns(shard, record[1])), _REMOVED_AT_ONCE)
            )
        if not some:
            return
        await store.write(partial(_remove_unchanged, uuid, some))


def _remove_unchanged(uuid: bytes, records: Iterable[Record], unit: WriteUnit) -> None:
    unit.moves_data = True
    collection = unit.catalog.by_uuid(uuid)
    if collection is not None:
        for key, document in records:
            if unit.record(collection, key) == document:
                unit.delete(collection, key, document, grouped=True)


def _range_of(record: Mapping[str, Any]) -> KeyRange:
    key = ShardKey(record["key"])
    return KeyRange.between(key, record["range"]["min"], record["range"]["max"])
