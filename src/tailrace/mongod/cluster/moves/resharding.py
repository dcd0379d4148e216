"""Replace a collection by one with the same documents and another placement: `reshardCollection` and others.

The new collection has its own UUID. It is filled under the name `system.resharding.<UUID of the old one>` on
the shards that will own it, while the old one is being written to. At the end nobody can write for a moment:
the rest is copied, and the placement changes to the new UUID. This is the commit, because routers identify
tracked collections by their UUIDs. Afterwards the shards rename the new collection, which removes the old
one.

After a kill before the commit the next start removes the new collection; after a later kill it finishes the
renaming. Streams show the event `reshardCollection`; everything else is logged as part of a migration.
"""

import uuid as uuids
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from bson import Binary, Int64
from bson.binary import UUID_SUBTYPE

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.moves.collection_copies import copy_collection, remove_copy
from tailrace.mongod.cluster.moves.document_copy import DocumentCopy, Source
from tailrace.mongod.cluster.moves.exclusive import exclusive_access
from tailrace.mongod.cluster.moves.moves import DataMoves
from tailrace.mongod.cluster.moves.payload_entries import log_once, log_payload, payload_entry
from tailrace.mongod.cluster.placement.chunk_map import ChunkMap
from tailrace.mongod.cluster.placement.shard_key import ShardKey
from tailrace.mongod.cluster.placement.shard_key_index import has_key_index, key_index_spec
from tailrace.mongod.cluster.placement.shard_metadata import stored_key_fields
from tailrace.mongod.cluster.placement.state import CONFIG_SHARD
from tailrace.mongod.cluster.reads.cluster_catalog import RESHARDING
from tailrace.mongod.store.catalog import Collection, Index
from tailrace.mongod.store.ddl.rename import replace_collection
from tailrace.mongod.store.reader import Reader, Record
from tailrace.mongod.store.write_unit import WriteUnit

KIND: Final = "reshard"


@dataclass(frozen=True, slots=True)
class NewPlacement:
    key: ShardKey
    chunks: ChunkMap
    is_unsplittable: bool = False
    """Whether the collection is unsharded: one chunk that cannot be split"""
    provenance: str | None = None
    """The command that asked for it, if not reshardCollection"""
    number: int | None = None
    """Number of chunks that the client asked for"""
    collation: Mapping[str, Any] | None = None


class Resharding:
    def __init__(self, moves: DataMoves, ns: str, place: NewPlacement) -> None:
        self._moves = moves
        self._placement = moves.placement
        self._ns = ns
        self._database, _, self._name = ns.partition(".")
        self._place = place
        self._new_uuid = uuids.uuid4().bytes
        self._donors = moves.placement.shards_of(ns)
        placed = moves.placement.collections.get(ns)
        self._old_key = ShardKey({"_id": 1}) if placed is None else placed.key
        self._owns = None if placed is None or placed.is_unsplittable else placed.owns
        self._unique = placed is not None and placed.unique

    async def run(self) -> None:
        """Run the move, through `DataMoves.run`."""
        moves, placement = self._moves, self._placement
        original = self._original()
        record = await moves.records.add(
            {
                "kind": KIND,
                "ns": self._ns,
                "oldUuid": Binary(original.uuid, UUID_SUBTYPE),
                "newUuid": Binary(self._new_uuid, UUID_SUBTYPE),
                "payload": self._payload(),
            }
        )
        details = {"newKey": self._place.key.pattern, "oldKey": self._old_key.pattern}
        await placement.log_change("reshardCollection.start", self._ns, details)
        try:
            await self._prepare(original)
            copy = self._copy(original)
            if not original.is_capped:
                await copy.begin()
            catch_up = None if original.is_capped else copy.catch_up
            async with exclusive_access(placement, self._ns, meanwhile=catch_up):
                if original.is_capped:
                    await copy.begin()  # its order matters, so nobody may write meanwhile
                await self._commit(original, copy)
                await finish_resharding(moves, record)
                await moves.records.remove(record)
        except Exception as error:
            note = {**details, "note": str(error)}
            await placement.log_change("reshardCollection.error", self._ns, note)
            await moves.clean_up(record)
            raise
        await placement.log_change("reshardCollection.end", self._ns, details)

    def _original(self) -> Collection:
        """The collection on its first owner."""
        found = next(
            (
                collection
                for name in self._donors
                if (collection := self._moves.stores[name].catalog.collection(self._ns)) is not None
            ),
            None,
        )
        if found is None:
            raise CommandError(ErrorCode.NamespaceNotFound, f"the collection {self._ns} does not exist")
        return found

    # -- the copy -------------------------------------------------------------------------------------------

    async def _prepare(self, original: Collection) -> None:
        # Exclusively, so that the definition of the collection is the same on all shards.
        async with exclusive_access(self._placement, self._ns):
            self._check_unchanged(original)
            new = original.with_changes(
                name=temporary_name(original),
                uuid=self._new_uuid,
                shard_key=() if self._place.is_unsplittable else stored_key_fields(self._place.key.paths),
                indexes=self._indexes(original),
            )
            for name in self._place.chunks.owners:
                await copy_collection(self._moves.stores[name], new)
            for name in self._donors:
                payload = {"reshardBegin": self._ns, **self._operation}
                await self._log_event(name, self._ns, original.uuid, payload, from_migrate=True)

    def _indexes(self, original: Collection) -> tuple[Index, ...]:
        """The indexes of the old collection, and one that supports the new key if none does."""
        with self._moves.stores[self._donors[0]].snapshot() as snapshot:
            stored = snapshot.catalog.by_uuid(original.uuid) or original
            if self._place.is_unsplittable or has_key_index(snapshot, stored, self._place.key):
                return original.indexes
        spec = {"v": 2, **key_index_spec(original, self._place.key, unique=False)}
        return (*original.indexes, Index(0, spec))

    def _copy(self, original: Collection) -> DocumentCopy:
        targets = {name: self._moves.stores[name] for name in self._place.chunks.owners}
        sources = [
            Source(
                self._moves.stores[name],
                original.uuid,
                partial(self._records_of, name),
                partial(self._is_owned_by, name),
            )
            for name in self._donors
        ]
        return DocumentCopy(sources, targets, self._new_uuid, self._target)

    def _records_of(self, shard: str, reader: Reader, collection: Collection) -> Iterator[Record]:
        return (record for record in reader.records(collection) if self._is_owned_by(shard, record[1]))

    def _is_owned_by(self, shard: str, document: bytes) -> bool:
        return self._owns is None or self._owns(shard, document)

    def _target(self, document: bytes) -> str:
        chunks = self._place.chunks
        return chunks.owners[0] if len(chunks) == 1 else chunks.owner_of(self._place.key.key_of(document))

    # -- commit ---------------------------------------------------------------------------------------------

    def _check_unchanged(self, original: Collection) -> None:
        current = self._original()
        if (
            self._placement.shards_of(self._ns) != self._donors
            or current.uuid != original.uuid
            or current.options != original.options
            or [index.spec for index in current.indexes] != [index.spec for index in original.indexes]
        ):
            raise CommandError(
                ErrorCode.ConflictingOperationInProgress,
                f"{self._ns} was dropped or changed while it was resharded; try again",
            )

    async def _commit(self, original: Collection, copy: DocumentCopy) -> None:
        """Copy the rest and change the placement, while nobody else uses the collection."""
        self._check_unchanged(original)
        final = {"reshardBlockingWrites": self._ns, **self._operation, "type": "reshardFinalOp"}
        for donor in self._donors:
            for recipient in self._place.chunks.owners:
                await self._log_event(donor, self._ns, original.uuid, final, destined_recipient=recipient)
        await copy.catch_up()
        temporary = f"{self._database}.{temporary_name(original)}"
        for recipient in self._place.chunks.owners:
            payload = {"reshardDoneCatchUp": temporary, **self._operation}
            await self._log_event(recipient, temporary, self._new_uuid, payload, from_migrate=True)
        place, placement = self._place, self._placement
        if place.is_unsplittable:
            await placement.place(self._ns, self._new_uuid, place.chunks.owners[0])
            return
        await placement.set_sharded(
            self._ns,
            self._new_uuid,
            place.key,
            place.chunks,
            unique=self._unique,
            collation=original.options.get("collation"),
        )

    @property
    def _operation(self) -> dict[str, Any]:
        return {"reshardingUUID": Binary(self._new_uuid, UUID_SUBTYPE)}

    async def _log_event(
        self, shard: str, ns: str, uuid: bytes, payload: Mapping[str, Any], **fields: Any
    ) -> None:
        await log_payload(self._moves.stores[shard], ns, uuid, payload, **fields)

    def _payload(self) -> dict[str, Any]:
        """The payload of the event `reshardCollection`."""
        place = self._place
        payload: dict[str, Any] = {
            "reshardCollection": self._ns,
            "reshardUUID": Binary(self._new_uuid, UUID_SUBTYPE),
            "shardKey": place.key.pattern,
            "oldShardKey": self._old_key.pattern,
            "unique": self._unique,
        }
        if place.number is not None:
            payload["numInitialChunks"] = Int64(place.number)
        if place.collation is not None:
            payload["collation"] = dict(place.collation)
        if place.provenance is not None:
            payload["provenance"] = place.provenance
        return payload


def temporary_name(original: Collection) -> str:
    """The name of the new collection until it replaces the old one."""
    return f"{RESHARDING}{uuids.UUID(bytes=original.uuid)}"


async def finish_resharding(moves: DataMoves, record: Mapping[str, Any]) -> None:
    """Remove one of the two collections from all shards: the one that the placement does not list."""
    ns, old, new = record["ns"], bytes(record["oldUuid"]), bytes(record["newUuid"])
    placed = moves.placement.collections.get(ns)
    stores = [store for name, store in moves.stores.items() if name != CONFIG_SHARD]
    if placed is None or placed.uuid != new:
        for store in stores:
            await store.write(partial(remove_copy, uuid=new))
        return
    # The event first: streams show events with the new UUID after it.
    first = moves.stores[placed.shards[0]]
    mark = f"resharding.{new.hex()}"
    entry = payload_entry(ns, old, record["payload"])
    await first.write(lambda unit: log_once(unit, mark, entry))
    for store in stores:
        await store.write(partial(_replace_collection, ns, old, new))
    await first.write(lambda unit: unit.put_meta(mark, None))


def _replace_collection(ns: str, old: bytes, new: bytes, unit: WriteUnit) -> None:
    unit.moves_data = True
    collection = unit.catalog.by_uuid(new)
    replaced = unit.catalog.collection(ns)
    if collection is not None and replaced is not collection:
        replace_collection(unit, collection, ns.partition(".")[2], replaced)
    elif collection is None and replaced is not None and replaced.uuid == old:
        remove_copy(unit, old)
