"""Change the placement of a cluster: its shards, databases, tracked collections and chunks.

There is one `Placement` for all routers of the process, so no router has a stale one. The current state is
one frozen value. A change computes the next state, writes the difference into the config server's documents
(`config_catalog`), and replaces the value when the documents are on disk. Queries need no lock.

`using` and `changing` keep writes and migrations apart: writes and DDL use their namespaces (shared) while
they run on shards; a change of where namespaces live has them exclusively. The methods that change the
placement do not take these locks.
"""

import asyncio
import uuid as uuids
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Final

from bson import ObjectId

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.moves.balancing import BalancerProgress
from tailrace.mongod.cluster.placement import config_catalog
from tailrace.mongod.cluster.placement.chunk_map import ChunkMap
from tailrace.mongod.cluster.placement.config_documents import document_of, documents_of
from tailrace.mongod.cluster.placement.locks import HeldLocks, PlacementLocks
from tailrace.mongod.cluster.placement.queries import PlacementQueries
from tailrace.mongod.cluster.placement.shard_key import ShardKey
from tailrace.mongod.cluster.placement.state import (
    CONFIG_DATABASES,
    CONFIG_SHARD,
    Database,
    PlacementState,
    Shard,
    TrackedCollection,
)
from tailrace.mongod.cluster.placement.zones import ZoneMap, zone_ranges
from tailrace.mongod.store.reader import Reader
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.write_unit import WriteUnit

_BY_ID: Final = ShardKey({"_id": 1})

Change = Callable[[PlacementState], PlacementState]
Log = tuple[str, str, Mapping[str, Any]]
"""What was done, namespace, details"""


class Placement(PlacementQueries):
    """The placement, and the only way to change it. ``server`` appears in the change log as the author."""

    def __init__(self, store: Store, server: str = "") -> None:
        super().__init__()
        self._store = store
        self._server = server
        self._changing = asyncio.Lock()
        self._locks = PlacementLocks()
        self.version = 0
        """Incremented with every change"""
        self.balancer = BalancerProgress()
        """Updated by the balancer"""
        self.on_change: list[Callable[[], None]] = []
        """Called in the event loop after every change"""

    async def load(self) -> None:
        """Create the config server's collections if they do not exist, and read the state from them."""
        async with self._changing:
            await self._store.write(config_catalog.begin)
            with self._store.snapshot() as snapshot:
                self._swap(config_catalog.load(snapshot))

    def at(self, reader: Reader) -> "Placement":
        """The placement in an earlier state of the config server; it cannot be changed."""
        placement = copy(self)
        placement._state = config_catalog.load(reader)
        return placement

    def using(self, *namespaces: str) -> HeldLocks:
        """A shared lock, for writes and DDL while they run on shards; used with `async with`."""
        return self._locks.using(*namespaces)

    def changing(self, *namespaces: str) -> HeldLocks:
        """An exclusive lock, for changing where namespaces live. A name without a dot is a whole database."""
        return self._locks.changing(*namespaces)

    # -- shards ---------------------------------------------------------------------------------------------

    async def add_shard(self, name: str, host: str) -> Shard:
        """Add a shard, or update the address of a known one."""
        known = self._state.shards.get(name)
        if known is not None and known.host == host:
            return known
        shard = Shard(name, host, self._now()) if known is None else replace(known, host=host)
        log = None if known is not None else ("addShard", "", {"name": name, "host": host})
        await self._change(lambda state: replace(state, shards={**state.shards, name: shard}), log)
        return shard

    async def set_draining(self, name: str, *, is_draining: bool = True) -> None:
        """Mark a shard that is being removed: it gets no new data."""
        shard = replace(self.shard(name), is_draining=is_draining)
        await self._change(lambda state: replace(state, shards={**state.shards, name: shard}))

    async def set_zones(self, name: str, zones: tuple[str, ...]) -> None:
        """Set the zones that a shard is in."""
        shard = replace(self.shard(name), zones=zones)
        await self._change(lambda state: replace(state, shards={**state.shards, name: shard}))

    async def remove_shard(self, name: str) -> None:
        """Remove a shard; raises ConflictingOperationInProgress (117) if it owns anything."""
        shard = self.shard(name)
        time = self._now()

        def change(state: PlacementState) -> PlacementState:
            primaries = (database.primary for database in state.databases.values())
            if name in primaries or any(name in own.shards for own in state.collections.values()):
                raise CommandError(
                    ErrorCode.ConflictingOperationInProgress, f"{name} has new data; try again"
                )
            shards = {other: known for other, known in state.shards.items() if other != name}
            return replace(state, shards=shards, removed={**state.removed, name: time})

        await self._change(change, ("removeShard", "", {"shard": name, "host": shard.host}))

    async def note_former_host(self, name: str, host: str) -> None:
        """Store where a removed shard still runs, for readers of its oplog; an empty host means nowhere."""
        await self._store.write(lambda unit: config_catalog.put_former_host(unit, name, host))

    # -- databases ------------------------------------------------------------------------------------------

    async def create_database(self, name: str, primary: str | None = None) -> str:
        """Create a database if it does not exist, and return its primary shard.

        A new database is put on ``primary``, or on the shard that is the primary of the fewest databases.
        """
        if name in CONFIG_DATABASES:
            return CONFIG_SHARD
        known = self._state.databases.get(name)
        if known is None:
            await self._change(lambda state: self._with_database(state, name, primary))
            known = self._state.databases[name]
        return known.primary

    def _with_database(self, state: PlacementState, name: str, primary: str | None) -> PlacementState:
        if name in state.databases:
            return state  # created meanwhile
        for other in state.databases:
            if other.lower() == name.lower():
                raise CommandError(
                    ErrorCode.DatabaseDifferCase,
                    f"db already exists with different case already have: [{other}] trying to create "
                    f"[{name}]",
                )
        shard = self.least_loaded() if primary is None else self.shard(primary).name
        database = Database(name, shard, uuids.uuid4().bytes, self._now())
        return replace(state, databases={**state.databases, name: database})

    async def drop_database(self, name: str) -> None:
        """Remove a database and its tracked collections."""

        def change(state: PlacementState) -> PlacementState:
            databases = {other: known for other, known in state.databases.items() if other != name}
            collections = {
                ns: known for ns, known in state.collections.items() if ns.partition(".")[0] != name
            }
            return replace(state, databases=databases, collections=collections)

        await self._change(change, ("dropDatabase", name, {}))

    async def move_primary(self, name: str, shard: str) -> None:
        to = self.shard(shard).name

        def change(state: PlacementState) -> PlacementState:
            known = state.databases[name]
            moved = replace(known, primary=to, timestamp=self._now(), last_mod=known.last_mod + 1)
            return replace(state, databases={**state.databases, name: moved})

        await self._change(change, ("movePrimary", name, {"to": to}))

    # -- collections ----------------------------------------------------------------------------------------

    async def set_sharded(
        self,
        ns: str,
        uuid: bytes,
        key: ShardKey,
        chunks: ChunkMap,
        *,
        unique: bool = False,
        collation: Mapping[str, Any] | None = None,
        log: Log | None = None,
    ) -> TrackedCollection:
        """Shard a collection, or replace its shard key and chunks; its chunk versions start again."""
        collection = TrackedCollection(
            ns,
            uuid,
            key,
            chunks,
            self._now(),
            unique=unique,
            collation=collation,
            last_mod=self._store.clock.wall.milliseconds(),
        )
        await self._put(collection, log)
        return collection

    async def place(self, ns: str, uuid: bytes, shard: str) -> None:
        """Track an unsharded collection on a shard: it stays there even if the database's primary moves."""
        to = self.shard(shard).name
        now = self._now()
        chunks = ChunkMap.whole(_BY_ID, to, now)
        last_mod = self._store.clock.wall.milliseconds()
        await self._put(
            TrackedCollection(ns, uuid, _BY_ID, chunks, now, is_unsplittable=True, last_mod=last_mod)
        )

    async def drop_collection(self, ns: str) -> None:
        """Stop tracking a collection."""
        if ns not in self._state.collections:
            return

        def change(state: PlacementState) -> PlacementState:
            collections = {other: known for other, known in state.collections.items() if other != ns}
            return replace(state, collections=collections)

        await self._change(change, ("dropCollection", ns, {}))

    async def rename(self, ns: str, to: str, *, uuid: bytes | None = None) -> None:
        """Rename a tracked collection; a tracked collection with the new name is replaced."""

        def change(state: PlacementState) -> PlacementState:
            collections = {
                other: known for other, known in state.collections.items() if other not in (ns, to)
            }
            known = state.collections.get(ns)
            if known is not None:
                collections[to] = replace(
                    known, ns=to, uuid=known.uuid if uuid is None else uuid, timestamp=self._now()
                )
            return replace(state, collections=collections)

        if ns in self._state.collections or to in self._state.collections:
            await self._change(change, ("renameCollection", ns, {"to": to}))

    async def refine(self, ns: str, key: ShardKey) -> TrackedCollection:
        """Add fields to the shard key of a collection."""
        known = self.require(ns)
        refined = replace(
            known,
            key=key,
            chunks=known.chunks.refined(key),
            timestamp=self._now(),
            epoch=ObjectId(),
            last_mod=self._store.clock.wall.milliseconds(),
        )
        details = {"oldKey": known.key.pattern, "newKey": key.pattern}
        await self._put(refined, ("refineCollectionShardKey", ns, details))
        return refined

    # -- chunks ---------------------------------------------------------------------------------------------

    async def split(self, ns: str, points: Sequence[Mapping[str, Any]]) -> None:
        """Split chunks at these points."""
        details = {"points": [dict(point) for point in points]}
        await self._change_chunks(ns, lambda chunks: chunks.split(points), ("split", ns, details))

    async def move(self, ns: str, low: Mapping[str, Any], high: Mapping[str, Any] | None, shard: str) -> None:
        """Make a shard the owner of a range; the data has been copied already."""
        to = self.shard(shard).name if ns.partition(".")[0] not in CONFIG_DATABASES else shard
        at = self._now()
        details = {"min": dict(low), "max": None if high is None else dict(high), "to": to}
        await self._change_chunks(
            ns, lambda chunks: chunks.move(low, high, to, at), ("moveChunk.commit", ns, details)
        )

    async def merge(self, ns: str, low: Mapping[str, Any], high: Mapping[str, Any]) -> None:
        """Merge neighbouring chunks of one shard into one."""
        at = self._now()
        details = {"min": dict(low), "max": dict(high)}
        await self._change_chunks(ns, lambda chunks: chunks.merge(low, high, at), ("merge", ns, details))

    async def mark_orphans(
        self, ns: str, *, may_have: bool, unless: Callable[[], bool] = lambda: False
    ) -> None:
        """Set whether a shard may have documents of a collection that it does not own.

        ``unless`` is called at the moment of the change, and prevents it by returning True.
        """

        def change(state: PlacementState) -> PlacementState:
            known = state.collections.get(ns)
            if known is None or known.may_have_orphans == may_have or unless():
                return state
            marked = replace(known, may_have_orphans=may_have)
            return replace(state, collections={**state.collections, ns: marked})

        await self._change(change)

    async def _change_chunks(self, ns: str, change: Callable[[ChunkMap], ChunkMap], log: Log) -> None:
        def work(state: PlacementState) -> PlacementState:
            known = state.collections.get(ns)
            if known is None:
                raise CommandError(ErrorCode.NamespaceNotSharded, f"the collection {ns} is not sharded")
            changed = replace(known, chunks=change(known.chunks))
            return replace(state, collections={**state.collections, ns: changed})

        await self._change(work, log)

    async def _put(self, collection: TrackedCollection, log: Log | None = None) -> None:
        def change(state: PlacementState) -> PlacementState:
            return replace(state, collections={**state.collections, collection.ns: collection})

        await self._change(change, log)

    # -- settings and the change log ------------------------------------------------------------------------

    async def log_change(self, what: str, ns: str, details: Mapping[str, Any]) -> None:
        """Add an entry to config.changelog."""
        server = self._server
        await self._store.write(lambda unit: config_catalog.log_change(unit, server, what, ns, details))

    async def put_setting(self, identity: str, fields: Mapping[str, Any]) -> None:
        await self._store.write(lambda unit: config_catalog.put_setting(unit, identity, fields))

    def setting(self, identity: str) -> dict[str, Any]:
        """A document of config.settings; empty if there is none."""
        with self._store.snapshot() as snapshot:
            return config_catalog.setting(snapshot, identity)

    def config_documents(self, name: str) -> list[dict[str, Any]]:
        """All documents of a collection of the database config."""
        with self._store.snapshot() as snapshot:
            return list(documents_of(snapshot, name))

    async def change_config(self, work: Callable[[WriteUnit], None]) -> None:
        """Change documents of the database config that are not part of the state."""
        await self._store.write(work)

    def zones(self, ns: str, key: ShardKey) -> ZoneMap:
        """The zones of a collection with this key."""
        with self._store.snapshot() as snapshot:
            return ZoneMap(key, zone_ranges(snapshot, ns), self._state.shards)

    def takes_part_in_balancing(self, ns: str) -> bool:
        """Whether the balancer may move ranges of a collection; clients may set its `noBalance`."""
        with self._store.snapshot() as snapshot:
            found = document_of(snapshot, config_catalog.COLLECTIONS, ns)
        return found is not None and not found.get("noBalance") and not found.get("unsplittable")

    # -- writing a change -----------------------------------------------------------------------------------

    def _now(self) -> int:
        return self._store.clock.tick()

    async def _change(self, change: Change, *logs: Log | None) -> None:
        """Compute the next state, write it, and make it the current one, even if the caller is cancelled."""
        await asyncio.shield(asyncio.ensure_future(self._run_change(change, logs)))

    async def _run_change(self, change: Change, logs: Iterable[Log | None]) -> None:
        async with self._changing:
            before = self._state
            after = change(before)
            if after is before:
                return

            def work(unit: WriteUnit) -> None:
                config_catalog.write_change(unit, before, after)
                for log in logs:
                    if log is not None:
                        config_catalog.log_change(unit, self._server, *log)

            await self._store.write(work)
            self._swap(after)

    def _swap(self, state: PlacementState) -> None:
        self._state = state
        self.version += 1
        for listener in self.on_change:
            listener()
