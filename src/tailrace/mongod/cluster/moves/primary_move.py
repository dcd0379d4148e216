"""Move the primary shard of a database, with all its untracked collections.

They keep their names and UUIDs, so streams show nothing. They are copied while they are being written to; at
the end nobody can use the database for a moment. Capped collections, whose order matters, and views are
copied then. The old primary's collections are removed as soon as no cursor reads them.
"""

import asyncio
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from tailrace.mongod.cluster.moves.collection_copies import copy_collection, is_same_definition, remove_copy
from tailrace.mongod.cluster.moves.document_copy import DocumentCopy, Source
from tailrace.mongod.cluster.moves.exclusive import exclusive_access
from tailrace.mongod.cluster.moves.moves import DataMoves, recipient_shard
from tailrace.mongod.cluster.moves.payload_entries import log_payload
from tailrace.mongod.cluster.placement.changes import Placement
from tailrace.mongod.store.catalog import VIEWS, Collection
from tailrace.mongod.store.ddl.views import definition_of
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.write_unit import WriteUnit

KIND: Final = "primary"


class PrimaryMove:
    def __init__(self, moves: DataMoves, database: str, to: str) -> None:
        self._moves = moves
        self._placement = moves.placement
        self._database = database
        self._donor = moves.placement.primary_of(database) or to
        self._recipient = to
        self._from = moves.stores[self._donor]
        self._to = moves.stores[to]
        self._copies: dict[bytes, DocumentCopy] = {}

    async def run(self) -> "asyncio.Task[None] | None":
        """Run the move, through `DataMoves.run`.

        Returns the task that removes the collections from the old primary, or None if nothing had to be
        moved.
        """
        if self._donor == self._recipient:
            return None
        moves, placement = self._moves, self._placement
        ends = {"donorShardId": self._donor, "recipientShardId": self._recipient}
        record = await moves.records.add({"kind": KIND, "database": self._database, **ends})
        await placement.log_change("movePrimary.start", self._database, ends)
        try:
            for collection in self._movable():
                if not collection.is_capped:
                    await self._copy(collection)
            async with exclusive_access(placement, self._database, meanwhile=self._catch_up):
                await self._commit()
        except Exception as error:
            await placement.log_change("movePrimary.error", self._database, {**ends, "note": str(error)})
            await moves.clean_up(record)
            raise
        return moves.clean_up(record, version=placement.version)

    def _movable(self) -> Iterator[Collection]:
        """The untracked collections on the old primary, without the one of views."""
        for collection in untracked_collections(self._placement, self._from, self._database):
            if collection.name != VIEWS:
                yield collection

    async def _copy(self, collection: Collection) -> None:
        await copy_collection(self._to, collection)
        source = Source(
            self._from,
            collection.uuid,
            lambda reader, found: reader.records(found),
            lambda _document: True,
        )
        copy = DocumentCopy(
            [source], {self._recipient: self._to}, collection.uuid, lambda _document: self._recipient
        )
        await copy.begin()
        self._copies[collection.uuid] = copy

    async def _catch_up(self) -> None:
        for copy in self._copies.values():
            await copy.catch_up()

    async def _commit(self) -> None:
        """Copy the rest and change the placement, while nobody else uses the database."""
        current = {collection.uuid: collection for collection in self._movable()}
        for uuid in self._copies.keys() - current.keys():
            await self._to.write(partial(remove_copy, uuid=uuid))  # dropped meanwhile
        for uuid, collection in current.items():
            copied = self._to.catalog.by_uuid(uuid)
            if uuid in self._copies and copied is not None and is_same_definition(copied, collection):
                await self._copies[uuid].catch_up()
            else:
                await self._copy(collection)  # created or changed meanwhile
        await self._copy_views()
        await self._placement.move_primary(self._database, self._recipient)
        payload = {"movePrimary": self._database, "from": self._donor, "to": self._recipient}
        await log_payload(self._from, self._database, None, payload)

    async def _copy_views(self) -> None:
        catalog = self._from.catalog
        definitions = catalog.collection(f"{self._database}.{VIEWS}")
        if definitions is None:
            return
        await copy_collection(self._to, definitions)

        def work(unit: WriteUnit) -> None:
            unit.moves_data = True
            copied = unit.catalog.by_uuid(definitions.uuid)
            assert copied is not None, "it was just copied"
            for view in catalog.views(self._database):
                unit.insert(copied, definition_of(view))
                unit.publish(unit.catalog.with_view(view))

        await self._to.write(work)


async def move_primary(moves: DataMoves, database: str, to: str) -> None:
    """Make a shard the primary of a database, and move the untracked collections to it."""
    recipient_shard(moves.placement, to)

    def must_wait_for(record: Mapping[str, Any]) -> bool:
        """The new primary may have been the primary before, with collections that are still to be removed."""
        return record["kind"] == KIND and bool(record["database"] == database)

    async def move() -> None:
        await PrimaryMove(moves, database, recipient_shard(moves.placement, to)).run()

    await moves.run(move, must_wait_for=must_wait_for)


def untracked_collections(placement: Placement, store: Store, database: str) -> Iterator[Collection]:
    """The untracked collections that a shard has of a database."""
    for collection in store.catalog.collections(database):
        if collection.ns not in placement.collections and not collection.is_internal:
            yield collection


async def finish_primary_move(moves: DataMoves, record: Mapping[str, Any]) -> None:
    """Remove the collections from whichever of the two shards is not the primary."""
    database = record["database"]
    primary = moves.placement.primary_of(database)
    for name in (record["donorShardId"], record["recipientShardId"]):
        if name != primary and name in moves.stores:
            store = moves.stores[name]
            for collection in list(untracked_collections(moves.placement, store, database)):
                await store.write(partial(remove_copy, uuid=collection.uuid))
